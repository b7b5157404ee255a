"""Data sets of the Hugging Face hub, without running their code and without prompts on stdin."""

import inspect
from typing import Any


def load_dataset(name: str, **options: Any) -> Any:
    """`datasets.load_dataset`; an ImportError if the package is missing.

    Versions before 4 may run a data set's script, or ask whether to: both are disabled. Later versions have neither
    scripts nor the argument.
    """
    from datasets import load_dataset as load

    if "trust_remote_code" in inspect.signature(load).parameters:
        options["trust_remote_code"] = False
    return load(name, **options)
