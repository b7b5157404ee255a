"""Methods: a loss in named terms and a sampler, on a common backbone, trainer and evaluation."""

from typing import TYPE_CHECKING

from dbtm.errors import UsageError, nearest

if TYPE_CHECKING:
    from dbtm.config import RunConfig
    from dbtm.methods.base import Method


def build_method(config: "RunConfig") -> "Method":
    """The method a configuration asks for, with fresh weights from its seed."""
    if config.method != "dbtm":
        raise UsageError(f"unknown method '{config.method}'{nearest(config.method, ['dbtm'])}")
    from dbtm.methods.dbtm import DBTM

    return DBTM(config)
