"""Discrete Beckmann Transport Models: one time-free map from noise to clean token sequences."""

import importlib
from typing import TYPE_CHECKING

from dbtm.core.threads import let_idle_threads_sleep

if TYPE_CHECKING:  # for type checkers and editors; at run time a name is imported when it is first used
    from dbtm.config import MethodConfig, RunConfig, SampleConfig, override
    from dbtm.core.errors import UsageError
    from dbtm.methods import register_method
    from dbtm.methods.base import Examples, Method, Part
    from dbtm.methods.dbtm import TransportMap
    from dbtm.nn import Backbone
    from dbtm.recipes import recipe
    from dbtm.sampling import Sampler, Trace
    from dbtm.service.fitting import fit
    from dbtm.service.model import Model, Samples, Solution, load
    from dbtm.tasks import Batch, Task, register
    from dbtm.train.callbacks import Callback

let_idle_threads_sleep()  # here, because PyTorch reads it once, when it is imported

__version__ = "0.1.0"

__all__ = [
    "Backbone",
    "Batch",
    "Callback",
    "Examples",
    "Method",
    "MethodConfig",
    "Model",
    "Part",
    "RunConfig",
    "SampleConfig",
    "Sampler",
    "Samples",
    "Solution",
    "Task",
    "Trace",
    "TransportMap",
    "UsageError",
    "__version__",
    "fit",
    "load",
    "override",
    "recipe",
    "register",
    "register_method",
]

_MODULES = {
    "Backbone": "dbtm.nn",
    "Batch": "dbtm.tasks",
    "Callback": "dbtm.train.callbacks",
    "Examples": "dbtm.methods.base",
    "Method": "dbtm.methods.base",
    "MethodConfig": "dbtm.config",
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
    "fit": "dbtm.service.fitting",
    "load": "dbtm.service.model",
    "override": "dbtm.config",
    "recipe": "dbtm.recipes",
    "register": "dbtm.tasks",
    "register_method": "dbtm.methods",
}
"""The module of each public name, as in the imports above (tests/test_public_types.py)."""

if not TYPE_CHECKING:  # a checker would take every name to exist, with type Any

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module 'dbtm' has no attribute '{name}'")
        return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
