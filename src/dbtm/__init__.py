"""Discrete Beckmann Transport Models: one time-free map from noise to clean token sequences."""

import importlib
from typing import Any

from dbtm.core.threads import let_idle_threads_sleep

let_idle_threads_sleep()  # here, because PyTorch reads it once, when it is imported

__version__ = "0.1.0"

# public name -> module; nothing heavy is imported until a name is used
_PUBLIC = {
    "Backbone": "dbtm.nn",
    "Batch": "dbtm.tasks",
    "Callback": "dbtm.train.callbacks",
    "Examples": "dbtm.methods.base",
    "MethodConfig": "dbtm.config",
    "Method": "dbtm.methods.base",
    "Model": "dbtm.service.model",
    "Part": "dbtm.methods.base",
    "RunConfig": "dbtm.config",
    "SampleConfig": "dbtm.config",
    "Sampler": "dbtm.sampling",
    "Samples": "dbtm.service.model",
    "Solution": "dbtm.service.model",
    "Task": "dbtm.tasks",
    "Trace": "dbtm.sampling",
    "TransportMap": "dbtm.methods.dbtm",
    "UsageError": "dbtm.core.errors",
    "fit": "dbtm.service.training",
    "load": "dbtm.service.model",
    "override": "dbtm.config",
    "recipe": "dbtm.recipes",
    "register": "dbtm.tasks",
    "register_method": "dbtm.methods",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'dbtm' has no attribute '{name}'")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
