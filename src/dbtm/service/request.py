"""The common part of requests to a trained model, and the settings in its results."""

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
    """A checkpoint folder, a run, or a packaged model; only a name if a loaded sampler is passed along."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the method's sampler; the others are the checkpoint's own."""
    seed: int = 0
    """Same seed, same samples."""
    device: str = "auto"
    """auto, cpu, cuda or mps."""

    def sampler(self, loaded: Sampler | None) -> Sampler:
        """The given sampler, or the checkpoint's; unknown options are refused."""
        sampler = loaded or load(self.checkpoint, self.device)
        check(sampler, self.options)
        return sampler

    def checked(self, sampler: Sampler, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options, with the self-check if the sampler has one and the options do not set it."""
        more = {} if "check" in options else sampler.with_options(**options).self_check()
        return {**options, **more}

    def settings(self, sampler: Sampler, options: Mapping[str, Any]) -> dict[str, Any]:
        """All settings that the samples depend on, for display."""
        named = {"checkpoint": self.checkpoint, "method": sampler.method.name}
        of_sampler = sampler.with_options(**options).shown()
        return {**named, **of_sampler, "seed": self.seed, "device": sampler.device.type}
