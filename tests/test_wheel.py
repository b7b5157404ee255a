"""The README states the size of the wheel."""

import io
import re
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_size_of_the_wheel_is_the_one_stated():
    """What pyproject.toml packs, compressed as a wheel is: the package and results/."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
        for folder in ("src/dbtm", "results"):
            for path in sorted((ROOT / folder).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    wheel.write(path, path.relative_to(ROOT))
    stated = re.search(r"`make wheel`\) has (\d+) MB", (ROOT / "README.md").read_text())
    assert stated is not None
    assert abs(len(packed.getvalue()) / 1e6 - int(stated[1])) < 1.5
