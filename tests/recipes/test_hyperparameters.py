r"""The paper's recipes against tab:hyperparameters, whose rows stand here as the paper's source has them.

Columns are LM1B, OpenWebText, TinyGSM / GSM8K, Sudoku. The rows that the source sets once for all tasks
(`\multicolumn{4}{c}`) are read for each. Warm-up steps, the softcap and the quality head are told in
app:general-exp-details, app:language-exp-details and app:reason-exp-details.
"""

import re
from fnmatch import fnmatch
from math import log10

import pytest
import torch

from dbtm.config import to_dict
from dbtm.core.settings import changed_keys
from dbtm.methods.base import method_of
from dbtm.recipes import recipe

RECIPES = ("lm1b", "owt", "tinygsm", "sudoku-paper")

TABLE = r"""
Hidden size          & 768 & 768 & 768 & 512 \\
adaLN cond.\ dim      & 128 & 128 & 128 & 128 \\
Layers               & 12 & 12 & 12 & 8 \\
Attention heads      & 12 & 12 & 12 & 8 \\
FFN multiplier       & 4 & 4 & 4 & 4 \\
Dropout              & 0.1 & 0.1 & 0.1 & 0.1 \\
Sequence length $L$  & 128 & 1024 & 512 & 180 \\
Vocabulary $|V|$     & 30{,}522 & 50{,}257 & 49{,}152 & 12 \\
Parameters (approx.) & $\sim$140M & $\sim$170M & $\sim$165M & $\sim$30M \\
Optimizer            & \multicolumn{4}{c}{AdamW ($\beta_1{=}0.9$, $\beta_2{=}0.999$, $\epsilon{=}10^{-8}$)} \\
Weight decay         & \multicolumn{4}{c}{0} \\
Gradient clipping    & \multicolumn{4}{c}{1.0} \\
Schedule             & \multicolumn{4}{c}{costant LR with linear warmup} \\
Peak LR              & $3{\times}10^{-4}$ & $3{\times}10^{-4}$ & $3{\times}10^{-4}$ & $3{\times}10^{-4}$ \\
Max steps          & 250{,}000 & 150{,}000 & 250{,}000 & 200{,}000 \\
Global batch size    & 512 & 512 & 512 & 256 \\
Per-GPU batch size   & 128 & 128 & 32 & 64 \\
Precision            & \multicolumn{4}{c}{bf16} \\
EMA decay            & \multicolumn{4}{c}{0.9999} \\
Interpolant schedule & linear & linear & linear & linear \\
Noise scale $\sigma$ & 1.0 & 1.0 & 1.0 & 1.0 \\
OT coupling          & \multicolumn{4}{c}{on} \\
Per-token schedule   & \multicolumn{4}{c}{clean\_context} \\
Time schedule        & \multicolumn{4}{c}{uniform} \\
Minimum anchor time $t_{\text{anchor}}$    & 0.75 & 0.75 & 0.82 & 0.69 \\
Anchor $\lambda$ / semigroup $\lambda$ / boundary $\lambda$ & 1.0 / 0 / 1.0 & 1.0 / 0 / 1.0 & 1.0 / 0 / 1.0 & 1.0 / 0 / 1.0 \\
Adaptive stabilizer $c$ (transport / endpoint) & 1.0 & 1.0 & 1.0 & 1.0 \\
Adaptive weight $r$ (transport / endpoint) & 0.5 / 0.5 & 0.5 / 0.5 & 0.5 / 0.5 & 0.5 / 0.5 \\
Commit threshold $\kappa$ & 0.9 & 0.3 & 0.8 & 0.999 \\
Commit scorer        & softmax conf. & softmax conf. & softmax conf. & $\mu$ ($\phi$ head) \\
Commit temperature   & 0 (argmax) & 0 (argmax)  & 0 (argmax) & 0 (argmax) \\
Prior scale $\sigma$ & 1.0 & 1.0 & 1.0 & 1.0 \\
Repetition penalty $\lambda$ & 1.0 & 1.0 & 0 & 0 \\
"""  # noqa: E501

SHOWN = {  # what a recipe says of a row, as the paper writes it once LaTeX is taken away
    "Hidden size": lambda run: run.model.width,
    "adaLN cond. dim": lambda run: run.model.cond_dim,
    "Layers": lambda run: run.model.depth,
    "Attention heads": lambda run: run.model.heads,
    "FFN multiplier": lambda run: run.model.ffn,
    "Dropout": lambda run: run.model.dropout,
    "Sequence length L": lambda run: run.shape.length,
    "Vocabulary |V|": lambda run: run.shape.vocab,
    "Optimizer": lambda run: (
        {"adamw": "AdamW"}[run.optim.name]
        + " (beta_1={}, beta_2={}, epsilon=10^{:g})".format(*run.optim.betas, log10(run.optim.eps))
    ),
    "Weight decay": lambda run: run.optim.weight_decay,
    "Gradient clipping": lambda run: run.optim.clip,
    "Schedule": lambda run: {"constant": "costant LR with linear warmup"}[run.optim.schedule],
    "Peak LR": lambda run: run.optim.lr,
    "Max steps": lambda run: run.train.steps,
    "Global batch size": lambda run: run.train.batch,
    "Precision": lambda run: run.train.precision,
    "EMA decay": lambda run: run.optim.ema,
    "Interpolant schedule": lambda run: {1.0: "linear"}[run.method.path.a],
    "Noise scale sigma": lambda run: run.method.path.sigma,
    "OT coupling": lambda run: {"ot": "on"}[run.method.path.coupling],
    "Per-token schedule": lambda run: {True: "clean_context"}[run.method.path.context],
    "Minimum anchor time t_anchor": lambda run: run.method.path.t_anchor,
    "Anchor lambda / semigroup lambda / boundary lambda": lambda run: (
        run.method.loss.anchor,
        run.method.loss.semigroup,
        run.method.loss.boundary,
    ),
    "Adaptive stabilizer c (transport / endpoint)": lambda run: (run.method.loss.c, run.method.loss.endpoint_c),
    "Adaptive weight r (transport / endpoint)": lambda run: (run.method.loss.r, run.method.loss.endpoint_r),
    "Commit threshold kappa": lambda run: run.sample.tuned_kappa(run.sample.nfe),
    "Commit scorer": lambda run: {"confidence": "softmax conf.", "quality": "mu (phi head)"}[run.sample.scorer],
    "Commit temperature": lambda run: {0.0: "0 (argmax)"}[run.sample.temperature],
    "Prior scale sigma": lambda run: method_of(run).options().sigma,
    "Repetition penalty lambda": lambda run: run.sample.repetition_penalty,
}
TOLD_APART = {"Parameters (approx.)", "Per-GPU batch size", "Time schedule"}  # their own tests, or no setting


def plain(cell: str) -> str:
    """LaTeX to the words it prints."""
    cell = re.sub(r"\\text\{(\w+)\}", r"\1", cell.replace("{,}", "").replace("{=}", "=").replace(r"{\times}", "*"))
    cell = cell.replace(r"\ ", " ").replace(r"\_", "_").replace("$", "").replace("\\", "")
    return re.sub(r"\{([^{}]*)\}", r"\1", cell).strip()


def rows() -> dict[str, list[str]]:
    out = {}
    for line in TABLE.strip().splitlines():
        name, *cells = line.removesuffix(r"\\").split(" & ")
        if one := re.fullmatch(r"\\multicolumn\{4\}\{c\}\{(.*)\} *", cells[0]):
            cells = [one[1]] * 4
        assert len(cells) == 4, line
        out[plain(name)] = [plain(cell) for cell in cells]
    return out


def number(word: str) -> float | None:
    """A number as the paper writes it, 3*10^-4 included."""
    if found := re.fullmatch(r"(\d+)\*10\^(-?\d+)", word):
        return int(found[1]) * 10.0 ** int(found[2])
    return float(word) if re.fullmatch(r"[\d.]+", word) else None


@pytest.mark.parametrize("column", range(4), ids=RECIPES)
def test_every_row_of_the_papers_table(column):
    run, table = recipe(RECIPES[column]), rows()
    assert table.keys() == SHOWN.keys() | TOLD_APART
    for name, shown in SHOWN.items():
        cell, ours = table[name][column], shown(run)
        if isinstance(ours, tuple):
            words = cell.split(" / ")
            words *= len(ours) if len(words) == 1 else 1  # one number for both
            assert [number(word) for word in words] == list(ours), name
        elif (value := number(cell)) is not None:
            assert ours == pytest.approx(value, rel=1e-12), name
        else:
            assert ours == cell, name


@pytest.mark.parametrize("column", range(4), ids=RECIPES)
def test_sizes_and_micro_batches(column):
    """Parameters to within 15 % of the rounded count; the per-GPU batch is a micro-batch where one is set."""
    run, table = recipe(RECIPES[column]), rows()
    with torch.device("meta"):
        ours = sum(p.numel() for p in method_of(run).build().parameters()) / 1e6
    paper = float(re.sub(r"\D", "", table["Parameters (approx.)"][column]))
    assert ours == pytest.approx(paper, rel=0.15)
    per_gpu = int(table["Per-GPU batch size"][column])
    assert run.train.micro_batch in (per_gpu, 0), "0: a device's whole share (paper-map.md, 11)"
    assert run.train.batch % per_gpu == 0


@pytest.mark.parametrize(
    ("name", "warmup"), [("lm1b", 10_000), ("owt", 10_000), ("sudoku-paper", 30_000), ("tinygsm", 50_000)]
)
def test_what_the_text_adds(name, warmup):
    """Warm-up; a tanh softcap of 50; phi is a 256-wide, 4-layer, 4-head head with quality weight 1.0."""
    run = recipe(name)
    quality = run.method.quality
    assert (run.optim.warmup, run.model.softcap) == (warmup, 50.0)
    assert (quality.enabled, quality.width, quality.depth, quality.heads) == (True, 256, 4, 4)
    assert (run.method.loss.transport, run.method.loss.quality) == (1.0, 1.0)


@pytest.mark.parametrize("name", ["sudoku-paper", "tinygsm"])
def test_rollouts_of_the_reasoning_tasks(name):
    """tab:ril-setup, column Sudoku; TinyGSM, which has no column, as Sudoku: a prompt decides the answer of both."""
    method = recipe(name).method
    ril = method.ril
    assert (ril.weight, ril.depths, ril.rounds, ril.samples, ril.kappa) == (1.0, (4,), "all", 1, 0.9)
    assert (ril.commit, ril.fresh_noise, ril.start, method.distill.weight) == (True, False, 0, 0.0)


def test_reasoning_data():
    """app:reason-exp-details: 40, 35 and 30 clues, 48,000 puzzles each, a prompt of 91; TinyGSM's own problems."""
    assert recipe("tinygsm").task.synthetic == 0.0
    run = recipe("sudoku-paper")
    assert sorted(run.task.clues) == [(30, 30), (35, 35), (40, 40)]
    assert (run.task.pool, run.task.augment, run.task.layout.prompt_length) == (48_000, False, 91)
    assert (run.task.efforts, run.task.puzzle_files) == ((), ())
    assert (run.task.evaluate_clues, run.task.evaluate_also) == (30, (35, 40))  # fig:sudoku-solve-acc


def test_commit_against_non_commit_training():
    """tab:commit-vs-noncommit: the same run, 'with all other parameters held constant', but for its rollouts."""
    commit, other = (to_dict(recipe(name)) for name in ("lm1b-ril", "lm1b-ril-nc"))
    assert changed_keys(commit, other) == ["recipe", "method.ril.commit", "method.distill.commit"]
    assert (other["method"]["ril"]["commit"], other["method"]["distill"]["commit"]) == (False, False)


# -- what no table has -------------------------------------------------------------------------------------------------

TOLD = """
model.width model.cond_dim model.depth model.heads model.ffn model.dropout model.softcap
method.path.* method.loss.transport method.loss.boundary method.loss.anchor method.loss.semigroup method.loss.quality
method.loss.c method.loss.r method.loss.endpoint_c method.loss.endpoint_r method.quality.*
method.ril.weight method.ril.depths method.ril.rounds method.ril.samples method.ril.kappa method.ril.commit
method.ril.fresh_noise method.ril.start
method.distill.weight method.distill.depth method.distill.kappa method.distill.commit method.distill.temperature
method.distill.start method.distill.refresh
optim.name optim.lr optim.betas optim.eps optim.weight_decay optim.clip optim.schedule optim.warmup optim.ema
train.steps train.batch train.micro_batch train.precision train.milestones
sample.kappa sample.scorer sample.temperature sample.sigma sample.repetition_penalty
"""
"""Settings that a table or the text of the paper has: checked above and in test_text.py."""

RUNNING = """
recipe task.* method.name train.seed train.init train.device train.compile train.layout train.peer_timeout
train.recompute train.graph train.log_every train.checkpoint_every train.keep train.evaluate_every train.tensorboard
train.track
sample.nfe
"""
"""How and where a run is made and watched, and the budget, which every table of the paper sweeps."""

LEFT_OUT = {
    "model.conv_width": 0,
    "model.backbone": "attention",
    "model.loops": 1,
    "model.position_axes": [],
    "model.input_norm": False,
    "model.self_condition": False,
    "model.gate_init": 0.0,  # adaLN-zero
    "model.embed_std": 0.02,
    "method.loops": [],
    "method.loss.anchor_context": False,  # paper-map.md, 3
    "method.loss.interpolant_fraction": 1.0,
    "method.loss.boundary_fraction": 1.0,
    "method.loss.positive_weight": 1.0,  # paper-map.md, 11
    "method.posterior.weight": 0.0,
    "method.reflow.weight": 0.0,
    "method.ril.quality": 1.0,
    "method.ril.supervise": "uncommitted",  # paper-map.md, 5
    "method.ril.later_fraction": 1.0,
    "method.ril.context": 0.0,
    "method.ril.spread": 0.0,
    "method.ril.own": 0.0,
    "method.ril.uncommit": True,
    "method.ril.quality_on": "supervised",
    "method.ril.transport": 0.0,
    "method.ril.anchor": 0.0,
    "method.ril.semigroup": 0.0,
    "method.distill.scorer": "confidence",
    "method.distill.supervise": "uncommitted",
    "sample.kappa_by_nfe": [],
    "sample.rounds": "equal",
    "sample.plan_by_nfe": [],
    "sample.commit": True,
    "sample.rule": "commit",
    "sample.check": 0,
    "sample.loops": 0,
    "sample.mean_from": 0,
    "sample.mean_budget": 2,
    "sample.top_p": 1.0,
    "sample.fresh_noise": True,  # alg:btm-sampling-refinement
    "sample.sampler": "refine",
    "sample.tolerance": 0.0,
    "optim.ema_warmup": True,  # paper-map.md, 11
    "train.threads": 0,
}
"""What the paper does not have, left out of its recipes; and its readings, where a setting is one."""


def idle(run) -> list[str]:
    """Settings that have no part in a run: those of a term without weight, of another optimizer, of another sampler."""
    out = ["model.pattern", "method.loss.semigroup_*", "method.posterior.*", "method.ril.semigroup_start"]
    out += ["sample.mean_temperature", "sample.horizon", "optim.muon_*", "optim.decay_fraction"]
    return out + [f"method.{name}.*" for name in ("ril", "distill", "reflow") if not getattr(run.method, name).weight]


def dotted(section: dict, path: str = "") -> dict:
    out = {}
    for key, value in section.items():
        name = f"{path}.{key}" if path else key
        out |= dotted(value, name) if isinstance(value, dict) else {name: value}
    return out


@pytest.mark.parametrize("name", [*RECIPES, "lm1b-ril", "owt-ril"])
def test_what_the_paper_does_not_have_is_left_out(name):
    """Every setting is the paper's, a matter of running, without a part, or left out: a new one has to be placed."""
    run = recipe(name)
    settings, places = dotted(to_dict(run)), [*TOLD.split(), *RUNNING.split(), *idle(run)]
    assert {key for key in settings if not any(fnmatch(key, place) for place in places)} <= LEFT_OUT.keys()
    assert {key: settings[key] for key in LEFT_OUT} == LEFT_OUT


@pytest.mark.parametrize(("name", "evaluated"), [("lm1b", 200_000), ("owt", 100_000)])
def test_the_step_that_the_paper_evaluates_is_kept(name, evaluated):
    assert evaluated in recipe(name).train.milestones
