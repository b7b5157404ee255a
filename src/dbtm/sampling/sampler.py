"""The sampler a user holds: a map, its defaults, and batches of any number of samples."""

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import torch

from dbtm.config import SampleConfig, from_dict
from dbtm.core.errors import UsageError
from dbtm.nn import TransportMap
from dbtm.sampling.prior import Prior
from dbtm.sampling.refine import Given, Passes, refine
from dbtm.sampling.trace import Trace
from dbtm.tasks.base import Task


class Sampler:
    """Samples from a map; results do not depend on the batch size (up to float rounding)."""

    def __init__(
        self, model: TransportMap, options: SampleConfig | None = None, task: Task | None = None, batch: int = 1024
    ):
        self.model = model
        self.options = options or SampleConfig()
        self.task, self.batch = task, batch
        self.replay = False
        self._made: tuple[tuple, tuple, Prior, Passes] | None = None

    @property
    def device(self) -> torch.device:
        return self.model.embedding.device

    def compile(self, backend: str = "inductor") -> "Sampler":
        """Compile the map's blocks, for any batch size, and on a GPU replay its passes as CUDA graphs: worth a minute
        where many samples follow, of weights that stay as they are.
        """
        self.model.compile_layers(dynamic=True, backend=backend)
        self.replay, self._made = self.device.type == "cuda", None
        return self

    def prior_and_passes(self) -> tuple[Prior, Passes]:
        """Prior and passes of the present weights; made once as long as they stay the same, as frozen ones do."""
        weight = self.model.embedding
        folded = tuple(getattr(module, "fixed", None) for module in self.model.modules())  # a recording reads them
        version = (weight.data_ptr(), weight._version, self.model.dtype, *map(id, folded))
        if self._made is None or self._made[0] != version or weight.requires_grad:
            passes, replay = Passes.plain(self.model), self.replay and not weight.requires_grad
            self._made = (version, folded, Prior(self.model), passes.replayed() if replay else passes)
        return self._made[2:]

    def with_options(self, **changes) -> SampleConfig:
        """The model's own options with some changed; kappa and penalty, where not given, are tuned for the budget.

        The penalty counts committed tokens: with commit=False it is off.
        """
        values = {f.name: getattr(self.options, f.name) for f in fields(SampleConfig)}
        nfe = changes.get("nfe", self.options.nfe)
        tuned = self.options.tuned(nfe) if isinstance(nfe, int) else {}
        options: SampleConfig = from_dict(SampleConfig, values | tuned | changes, "sample.")
        if options.scorer == "quality" and self.model.quality is None:
            raise UsageError("this model has no quality head: use the scorer 'confidence'")
        if options.threshold is None and "kappa" in changes:
            raise UsageError("kappa changes nothing where commits are spread: leave it out, or use another scorer")
        if options.repetition_penalty and not options.commit:
            if "repetition_penalty" in changes:
                raise UsageError(
                    "repetition_penalty counts committed tokens, and commit=False commits none: leave it out"
                )
            options = replace(options, repetition_penalty=0.0)
        return options

    def given(self, tokens: np.ndarray, clean: np.ndarray | None, first: int = 0) -> Given:
        """Given tokens on the map's device; sample indices count from `first`."""
        tokens, vocab, length = np.asarray(tokens), self.model.config.vocab, self.model.config.length
        if tokens.ndim != 2 or tokens.shape[1] != length or tokens.dtype.kind not in "iu":
            raise UsageError(f"tokens must be integers (B, {length}), not {tokens.dtype} {tokens.shape}")
        if clean is not None and (np.asarray(clean).shape != tokens.shape or np.asarray(clean).dtype != bool):
            raise UsageError(f"clean must be booleans of the shape of tokens, {tokens.shape}")
        if tokens.size and (tokens.min() < 0 or tokens.max() >= vocab):
            raise UsageError(f"a token is outside 0..{vocab - 1}")
        tokens_BL = torch.as_tensor(tokens, dtype=torch.int64)
        clean_BL = torch.zeros_like(tokens_BL, dtype=torch.bool) if clean is None else torch.as_tensor(np.array(clean))
        index_B = torch.arange(first, first + len(tokens_BL))
        return Given(tokens_BL.to(self.device), clean_BL.to(self.device), index_B.to(self.device))

    def sample(
        self,
        n: int | None = None,
        *,
        tokens: np.ndarray | None = None,
        clean: np.ndarray | None = None,
        seed: int = 0,
        trace: bool = False,
        progress: Callable[[int], None] | None = None,
        **options,
    ) -> Trace:
        """n samples from nothing, or one for every row of `tokens`, of which the positions in `clean` are given.

        Options are those of SampleConfig: nfe, kappa, scorer, commit, temperature, sigma, repetition_penalty,
        fresh_noise.
        """
        if (n is None) == (tokens is None):
            raise UsageError("give either a number of samples or tokens with the mask of what is given")
        if tokens is not None and clean is None:
            raise UsageError("tokens need `clean`, the mask of those that are given")
        chosen = self.with_options(**options)
        if tokens is None:
            tokens = np.zeros((max(n or 0, 0), self.model.config.length), dtype=np.int64)
        if len(tokens) == 0:
            raise UsageError("nothing to sample: the number of samples must be at least 1")
        training = self.model.training
        self.model.eval()
        try:
            traces, (prior, passes) = [], self.prior_and_passes()
            for first in range(0, len(tokens), self.batch):
                rows = slice(first, first + self.batch)
                given = self.given(tokens[rows], None if clean is None else clean[rows], first)
                traces.append(refine(self.model, given, chosen, seed, trace, prior, passes))
                if progress is not None:
                    progress(min(first + self.batch, len(tokens)))
        finally:
            self.model.train(training)
        return Trace.concatenate(traces)
