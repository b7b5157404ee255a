"""Base classes of a method's configuration: its training settings and its sampler options."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dbtm.core.errors import UsageError, nearest
from dbtm.core.settings import Section, read

if TYPE_CHECKING:
    from dbtm.config.run import RunConfig


@dataclass(frozen=True)
class MethodConfig(Section):
    """Training settings of a method; each method has its own subclass, `Method.Config`."""

    section: ClassVar[str] = "method"
    name: ClassVar[str] = ""
    """The method's name, which it sets."""

    @property
    def copies(self) -> int:
        """Network rows per training sequence; a run by a method with several has its batch divided by their number."""
        return 1

    def check(self, run: "RunConfig") -> None:
        """Refuse settings that do not fit the rest of the run."""


@dataclass(frozen=True)
class SampleConfig(Section):
    """Sampler options of a method; each method has its own subclass, `Method.Options`."""

    section: ClassVar[str] = "sample"

    @property
    def tunes(self) -> bool:
        """Whether some options are tuned on the trained weights at the end of a run (`Method.tune`)."""
        return False

    def changed(self, method: str, changes: dict[str, Any]) -> Self:
        """These options with some changed; unknown ones are refused."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in changes:
            if name not in values:
                raise UsageError(f"the sampler of '{method}' has no option '{name}'{nearest(name, values)}")
        options: Self = read(type(self), values | changes, "sample")
        return options

    def self_check(self) -> dict[str, Any]:
        """Options that make the sampler check its answer; empty if it cannot, or already does."""
        return {}

    def shown(self) -> dict[str, Any]:
        """The options that a result depends on, for display."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
