"""The registry covers the paper: every label has an entry whose plans can be made, and the paper's numbers agree."""

import math

import pytest

from dbtm.checkpoint.loading import find as find_model
from dbtm.cli.reproduce import GETS
from dbtm.core.errors import UsageError
from dbtm.service.reproduction import results
from dbtm.service.reproduction.registry import ENTRIES, find
from dbtm.service.reproduction.running import standing
from dbtm.service.reproduction.steps.training import Train

# Transcribed from the paper's source: all of its \label{tab:...} and \label{fig:...}, in their order.
LABELS = [
    "fig:discrete-btm", "fig:flow-dynamics", "fig:generative-frontier-lm1b", "tab:language-results",
    "tab:reasoning-results", "tab:flowmap-vs-dbtm", "fig:basins", "fig:empirical", "tab:optimal-anchor",
    "tab:ril-setup", "fig:sudoku-solve-acc", "fig:onpolicy-gate-lm1b", "tab:commit-vs-noncommit",
    "tab:language-results-nfe", "tab:gsm8k-nfe-ril", "tab:autonomous-field-horizon", "tab:ablation-lm1b",
    "tab:sudoku-threshold-sweep", "tab:anchor-ablation", "tab:decode-frontier-lm1b", "tab:decode-frontier-owt",
    "tab:hyperparameters", "fig:samples_refinement_lm1b", "fig:samples_owt_16", "fig:samples_owt_32",
    "fig:samples_owt_256", "fig:refine_sample_gsm8k_1", "fig:refine_sample_gsm8k_2", "fig:sudoku-example",
]  # fmt: skip


def test_every_label_of_the_paper_has_an_entry():
    assert list(ENTRIES) == LABELS


@pytest.mark.parametrize("scale", ["small", "trial", "paper"])
@pytest.mark.parametrize("label", LABELS)
def test_its_recipes_exist_and_fit(label, scale):
    plan = ENTRIES[label].plan(scale)
    for step in plan.order():
        if isinstance(step, Train):
            config = step.configuration()
            assert config.train.steps >= 1
            assert step.small == (scale != "paper")
    for name in plan.models():
        assert find_model(name).is_dir()
    assert set(plan.data()) <= set(GETS), "the command says how to get its data"


@pytest.mark.parametrize("label", LABELS)
def test_a_small_scale_says_how_it_differs(label):
    """Only what is the same at every scale has nothing to say."""
    entry = ENTRIES[label]
    plan = entry.plan("small")
    assert not plan.data(), "nothing to fetch"
    assert not plan.gpu()
    if not entry.exact:
        assert plan.tag
        assert "the paper's" in plan.differs.replace("The paper's", "the paper's")


@pytest.mark.parametrize("label", LABELS)
def test_what_stands_in_results_can_be_shown(label):
    table = standing(ENTRIES[label])
    if table is None:
        assert not ENTRIES[label].sources
    else:
        assert table.count() > 0
        assert ENTRIES[label].standing_of or ENTRIES[label].sources[0].startswith("theory/"), "never as the paper's own"
        assert all(results.there(name) for name in ENTRIES[label].sources)


def test_names_may_leave_the_kind_out():
    assert find("optimal-anchor") is find("tab:optimal-anchor")
    with pytest.raises(UsageError, match="did you mean 'tab:optimal-anchor'"):
        find("optimal-ancor")


# -- the paper's numbers agree with each other and with what can be computed -------------------------------------------


def test_the_papers_best_thresholds_are_the_best_of_its_sweep():
    paper, sweep = results.read("paper")["sudoku"], results.papers_table("tab:sudoku-threshold-sweep")
    for clues, name in (("40", "easy"), ("35", "medium"), ("30", "hard")):
        for nfe, best in paper[clues].items():
            cells = sweep.rows[f"{nfe} NFE"]
            assert max(value for column, value in cells.items() if column.startswith(name)) == best


def test_numbers_that_the_paper_prints_twice_are_equal():
    short, long = results.papers_table("tab:language-results"), results.papers_table("tab:language-results-nfe")
    for method in ("FMLM", "DFM (PSD)", "DFM (ESD)", "DBTM", "DBTM + ril"):
        for nfe in (1, 2, 4):
            assert short.get(method, f"LM1B {nfe} NFE") == long.get(f"LM1B, {method}", f"{nfe} NFE")
    for method in ("DBTM", "DBTM + ril"):  # under OWT the short table has the linear backbone
        for nfe in (1, 2, 4):
            assert short.get(method, f"OWT {nfe} NFE") == long.get(f"OWT, {method} (lin)", f"{nfe} NFE")
    programs, reasoning = results.papers_table("tab:gsm8k-nfe-ril"), results.papers_table("tab:reasoning-results")
    for nfe in (1, 32):
        assert programs.get("DBTM + ril", f"{nfe} NFE") == reasoning.get(f"DBTM + ril, {nfe} NFE", "GSM8K")
    sweep = results.papers_table("tab:sudoku-threshold-sweep")
    for name in ("easy", "medium", "hard"):  # rounded there to one digit
        for nfe in (4, 16):
            printed = reasoning.get(f"DBTM + ril, {nfe} NFE", name)
            assert printed == pytest.approx(sweep.get(f"{nfe} NFE", f"{name} 0.999"), abs=0.051)


def test_the_papers_commitment_times_follow_from_its_vocabularies():
    table = results.papers_table("tab:optimal-anchor")
    for column in table.columns:
        V = table.get("vocabulary", column)
        assert table.get("optimal t_anchor", column) == pytest.approx(
            1 - 1 / (1 + math.sqrt(2 * math.log(V))), abs=1e-3
        )


def test_ours_has_the_papers_rows():
    """Settings that are computed stand beside the paper's: the same rows and columns."""
    from dbtm.service.reproduction.entries import settings

    computed = {
        "tab:optimal-anchor": settings.optimal_anchor(),
        "tab:ril-setup": settings.ril_setup(),
        "tab:hyperparameters": settings.hyperparameters(),
    }
    for label, rows in computed.items():
        paper = results.papers_table(label)
        assert list(rows) == list(paper.rows)
        assert all(list(cells) == list(paper.columns) for cells in rows.values())


def test_a_flow_map_is_told_of_the_methods_themselves():
    from dbtm.service.reproduction.entries.settings import times_and_teachers

    rows = times_and_teachers()
    assert (rows["time conditioning"]["DBTM"], rows["teacher"]["DBTM"]) == ("no", "no")


def test_rivals_are_those_that_exist():
    from dbtm.core.registry import METHODS
    from dbtm.service.reproduction.entries import runs
    from dbtm.service.reproduction.entries.rivals import RIVALS, trained
    from dbtm.service.reproduction.entry import TRIAL

    found, missing = trained((*RIVALS,), runs.base(TRIAL), runs.OURS, distilled=3)
    assert set(found) == set(RIVALS)
    assert missing == []
    for name, run in found.items():
        assert run.method == RIVALS[name]
        assert run.changes, "the size of our run"
        needs = METHODS.get(run.method).needs
        assert (run.init is not None) == ("teacher" in needs)
