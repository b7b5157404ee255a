"""What a configuration knows of any method: settings of its training and options of its sampler."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dbtm.core.errors import UsageError, nearest
from dbtm.core.settings import Section, read

if TYPE_CHECKING:
    from dbtm.config.run import RunConfig


@dataclass(frozen=True)
class MethodConfig(Section):
    """Settings of a method's training; every method has a subclass of its own, `Method.Config`."""

    section: ClassVar[str] = "method"
    name: ClassVar[str] = ""
    """The method's, which takes it from there."""

    @property
    def copies(self) -> int:
        """Rows of the network that one training sequence becomes: a run that is given to a method of several has its
        batch divided by them.
        """
        return 1

    def check(self, run: "RunConfig") -> None:
        """Refuse what does not go together with the rest of a run."""


@dataclass(frozen=True)
class SampleConfig(Section):
    """Options of a method's sampler; every method has a subclass of its own, `Method.Options`."""

    section: ClassVar[str] = "sample"

    @property
    def tunes(self) -> bool:
        """Whether some of these are tuned on the trained weights when a run ends (`Method.tune`)."""
        return False

    def changed(self, method: str, changes: dict[str, Any]) -> Self:
        """These options with some changed; those that this sampler lacks are refused."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in changes:
            if name not in values:
                raise UsageError(f"the sampler of '{method}' has no option '{name}'{nearest(name, values)}")
        return read(type(self), values | changes, "sample")

    def self_check(self) -> dict[str, Any]:
        """Options that make the sampler confirm its answer, for who asks for that: none where it cannot, or does."""
        return {}

    def shown(self) -> dict[str, Any]:
        """The options that a result depends on, for those who read it."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
