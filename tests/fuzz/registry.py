"""Targets by their names: a reader is a function of an input's folder, which `target` gives its inputs."""

from collections.abc import Callable
from pathlib import Path

from tests.fuzz.harness import Files, Target
from tests.fuzz.mutate import Draw, mutated

TARGETS: dict[str, Target] = {}
Make = Callable[[Draw], Files]


def target(make: Make) -> Callable[[Callable[[Path], object]], Callable[[Path], object]]:
    """Name a reader after its function: `def gguf(folder)` is the target gguf."""

    def add(read: Callable[[Path], object]) -> Callable[[Path], object]:
        TARGETS[read.__name__] = Target(read.__name__, make, read)
        return read

    return add


def file(name: str, good: Callable[[], bytes], damage: Callable[[Draw, bytes], bytes] = mutated) -> Make:
    """Inputs of one file. One in thirty is left as it is: the reader must accept what is right."""
    return lambda draw: {name: good() if draw.random() < 1 / 30 else damage(draw, good())}
