"""What every request to a trained model says, and what its result tells of the settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbtm.checkpoint.loading import load
from dbtm.evals.settings import check
from dbtm.sampling import Sampler


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """A checkpoint, and how it is sampled."""

    checkpoint: str
    """A checkpoint folder, a run, or a model of the package; a name alone where a loaded sampler comes with it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the method's sampler; the others are the checkpoint's own."""
    seed: int = 0
    """Same seed, same samples."""
    device: str = "auto"
    """auto, cpu or cuda."""

    def sampler(self, loaded: Sampler | None) -> Sampler:
        """The sampler that is there, or the checkpoint's; options that it does not take are refused."""
        sampler = loaded or load(self.checkpoint, self.device)
        check(sampler, self.options)
        return sampler

    def checked(self, sampler: Sampler, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options with the self-check, where the sampler has one and nothing was said of it."""
        more = {} if "check" in options else sampler.with_options(**options).self_check()
        return {**options, **more}

    def settings(self, sampler: Sampler, options: Mapping[str, Any]) -> dict[str, Any]:
        """Everything that the samples depend on, for those who read them."""
        named = {"checkpoint": self.checkpoint, "method": sampler.method.name}
        of_sampler = sampler.with_options(**options).shown()
        return {**named, **of_sampler, "seed": self.seed, "device": sampler.device.type}
