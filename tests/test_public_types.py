"""What users import is checked strictly: pyproject.toml lists the modules of all public names."""

import tomllib
from pathlib import Path

import dbtm


def test_every_public_name_is_in_a_module_that_is_checked_strictly():
    settings = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["tool"]["mypy"]
    (strict,) = (rule for rule in settings["overrides"] if rule.get("disallow_untyped_defs"))
    homes = {getattr(dbtm, name).__module__ for name in dbtm.__all__ if name != "__version__"}
    assert homes <= {*strict["module"]}
    assert (Path(dbtm.__file__).parent / "py.typed").is_file()
