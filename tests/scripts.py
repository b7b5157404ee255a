"""The scripts of benchmarks/ as modules."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent.parent / "benchmarks"


def load_script(name: str) -> ModuleType:
    """benchmarks/NAME.py, with its neighbours importable, as for `python benchmarks/NAME.py`."""
    specification = spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = module_from_spec(specification)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    sys.path.insert(0, str(FOLDER))
    try:
        specification.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module
