"""Checksums of files."""

import hashlib
from pathlib import Path

from dbtm.core.reading import at_once


def sha256(path: Path) -> str:
    with open(path, "rb", opener=at_once) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
