"""Data sets of the Hugging Face hub, never with code of theirs, and no question on the standard input."""

import inspect
from typing import Any


def load_dataset(name: str, **options: Any) -> Any:
    """`datasets.load_dataset`; an ImportError where the package is missing.

    Versions before 4 run a data set's own script where they are allowed to, and may ask: here they may not. Later
    ones have dropped scripts, and the argument with them.
    """
    from datasets import load_dataset as load

    if "trust_remote_code" in inspect.signature(load).parameters:
        options["trust_remote_code"] = False
    return load(name, **options)
