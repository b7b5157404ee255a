"""Arrays from .npy files, memory-mapped; any error is one line that names the file."""

import warnings
from pathlib import Path

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.core.reading import at_once


def open_array(path: str | Path) -> np.ndarray:
    """The array of a .npy file. NumPy's parser reads its header without evaluating code; nothing is unpickled, and an
    array larger than its file is refused before mapping.
    """
    try:
        with open(path, "rb", opener=at_once) as file:
            magic = file.read(6)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if magic.startswith(b"PK"):
        raise UsageError(f"{path} contains several arrays (.npz): give a .npy file with one")
    if magic != b"\x93NUMPY":
        raise UsageError(f"{path} is not a .npy array")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about headers of Python 2, or damaged ones
            return np.load(path, mmap_mode="r", allow_pickle=False)
    except MemoryError:
        raise
    except Exception as error:  # damaged headers raise many kinds of exceptions
        reason = repr(str(error).split("\n")[0][:200])[1:-1]
        raise UsageError(f"{path} is not a readable .npy array: {reason or type(error).__name__}") from None
