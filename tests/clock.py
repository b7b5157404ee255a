"""Time that passes when it is told to."""

from types import ModuleType, SimpleNamespace

import pytest


class Clock:
    """Stands in for `time` in the given modules only: the real one drives servers in other threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType, now: float = 100.0):
        self.now = now
        for module in modules:
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
