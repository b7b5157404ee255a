"""The entries of a comparison: all registered methods, on one network, one trainer and one optimizer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dbtm.config import RunConfig, override
from dbtm.core.errors import UsageError, nearest
from dbtm.core.registry import METHODS
from dbtm.evals.referee.folder import Entry
from dbtm.evals.training_cost import run_flops
from dbtm.methods.base import method_of
from dbtm.methods.dbtm import Config, Options, PathConfig, QualityConfig
from dbtm.recipes import recipe
from dbtm.service.training import TrainRequest, configuration

PAPER = "dbtm-paper"
"""The entry of DBTM with the paper's settings; 'dbtm' is ours."""
TIMED = 128
"""Dimension of the time embedding, for methods with one; smaller in narrower networks."""


@dataclass(frozen=True)
class Comparison:
    """A task and its defaults."""

    recipe: str
    summary: str
    n: int
    """Samples, puzzles or problems per evaluation."""
    nfe: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    """Network evaluations to sample at."""
    changes: tuple[str, ...] = ()
    flops: float | None = None
    """Training budget; None: the cost of the recipe's own run."""
    paper: str | None = None
    """The recipe with the paper's method settings for this task; None: the method's defaults are the paper's."""
    judge: str | None = None
    ours: tuple[str, ...] = ()
    """Changes of our DBTM entry to the recipe, for a short run."""


COMPARISONS = {
    "markov": Comparison(
        "markov",
        "a Markov chain with a known distribution: total variation of adjacent pairs; minutes on two CPU cores",
        n=3_000,
        nfe=(1, 2, 4, 8, 16, 32),  # of eight tokens
        changes=("model.width=48", "model.depth=2"),
        flops=3e11,
        # later rounds draw from the context's distribution, which cross-entropy learns beside the one-step map
        ours=(
            *("method.posterior.weight=3", "method.posterior.spread=1", "method.loss.interpolant_fraction=0.25"),
            *("sample.mean_from=2", "sample.scorer=spread"),
        ),
    ),
    "sudoku-mini": Comparison(
        "sudoku-mini",
        "4 x 4 Sudoku with 5 clues: share solved; an hour on two CPU cores",
        n=256,
        changes=("model.loops=1",),
        flops=1.6e12,
        paper="sudoku-paper",
        # rollouts take most of a step: cross-entropy at all times makes three times as many steps
        ours=(
            *("method.loss.transport=0", "method.ril.weight=0"),
            *("method.path.t_anchor=0", "method.loss.interpolant_fraction=1"),
        ),
    ),
    "sudoku": Comparison("sudoku", "9 x 9 Sudoku: share solved; for one GPU", n=1_000, paper="sudoku-paper"),
    "text": Comparison(
        "text", "prepared text: perplexity and entropy; for one GPU", n=256, paper="lm1b", judge="smollm2"
    ),
    "gsm8k": Comparison("gsm-small", "prepared problems: share solved; for one GPU", n=500, paper="tinygsm"),
    "own": Comparison("own", "your own tokens: total variation of adjacent pairs", n=4_000),
}


def base(request: TrainRequest, comparison: Comparison) -> RunConfig:
    """Task, network, optimizer and trainer of all entries."""
    config = configuration(replace(request, changes=(*comparison.changes, *request.changes)))
    return replace(config, train=replace(config.train, evaluate_every=0, keep=1, milestones=()))


def entries(config: RunConfig, comparison: Comparison, names: Sequence[str]) -> dict[str, Entry]:
    """The entries by label; `all` means all registered methods and both kinds of DBTM."""
    known = [PAPER, *METHODS.names()]
    wanted = known if "all" in names else list(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            raise UsageError(f"unknown method '{name}'{nearest(name, known)}")
    return {name: _entry(config, comparison, name) for name in sorted(wanted, key=_order)}


def _order(name: str) -> tuple[bool, str]:
    """DBTM first."""
    return not name.startswith("dbtm"), name


def _entry(config: RunConfig, comparison: Comparison, name: str) -> Entry:
    if name == PAPER:
        return Entry(PAPER, _sized(_paper(config, comparison)), "DBTM with the paper's settings")
    method = METHODS.get(name)
    if name == "dbtm":
        return Entry(name, _sized(override(config, list(comparison.ours))), "DBTM with our settings")
    about = (method.__doc__ or name).strip().split("\n")[0].rstrip(".")
    return _taught(Entry(name, _sized(config.by(name)), about), config)


def _taught(entry: Entry, config: RunConfig) -> Entry:
    """The entry, with its teacher if its settings need one."""
    method = method_of(entry.config)
    if "teacher" not in method.needs:
        return replace(entry, teacher=None)
    if not method.teacher:
        raise UsageError(f"the method '{method.name}' needs a teacher, but does not say which method trains it")
    return replace(entry, teacher=_sized(config.by(method.teacher)))


def _paper(config: RunConfig, comparison: Comparison) -> RunConfig:
    """The paper's objective and sampler on the common network; the quality head is no larger than the map."""
    if comparison.paper is None:
        method, sample = Config(path=PathConfig()), Options()
    else:
        paper = recipe(comparison.paper)
        assert isinstance(paper.method, Config)
        assert isinstance(paper.sample, Options)
        method, sample = paper.method, paper.sample
    width = min(method.quality.width, 8 * max(1, config.model.width // 16))
    quality = QualityConfig(width=width, depth=min(4, config.model.depth), heads=min(4, width // 2))
    return replace(config, method=replace(method, quality=quality), sample=sample)


def _sized(config: RunConfig) -> RunConfig:
    """adaLN of the width that the method needs: a constant for methods without time."""
    times = method_of(config).outline().trunk.times
    wide = min(TIMED, config.model.width) if times else 1
    return replace(config, model=replace(config.model, cond_dim=wide))


def default_flops(config: RunConfig, comparison: Comparison) -> float:
    """The comparison's own budget, or the cost of the recipe's run with its own method."""
    return comparison.flops or run_flops(config)


def with_changes(found: dict[str, Entry], changes: Sequence[str], config: RunConfig) -> dict[str, Entry]:
    """Entries with changes to single ones: LABEL:section.key=value. Teachers keep the common settings."""
    of: dict[str, list[str]] = {}  # applied together per entry: one setting may need another
    for change in changes:
        label, _, assignment = change.partition(":")
        if label not in found:
            raise UsageError(f"'{change}' is for '{label}', which is not in the comparison{nearest(label, found)}")
        of.setdefault(label, []).append(assignment)
    changed = {label: replace(found[label], config=override(found[label].config, all_)) for label, all_ in of.items()}
    return found | {label: _taught(entry, config) for label, entry in changed.items()}
