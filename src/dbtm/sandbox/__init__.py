"""Runs untrusted programs in separate processes, confined by several layers: see `runner`."""

from dbtm.sandbox.outcome import KINDS, Outcome
from dbtm.sandbox.runner import Limits, Sandbox

__all__ = ["KINDS", "Limits", "Outcome", "Sandbox"]
