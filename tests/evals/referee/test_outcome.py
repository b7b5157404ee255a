"""Numbers of several runs put together, and who is best."""

import pytest
from scipy.stats import t as student

from dbtm.evals.intervals import wilson
from dbtm.evals.referee.measures import METRICS
from dbtm.evals.referee.outcome import at_equal_sample_cost, best, pooled
from dbtm.evals.referee.tables import losses, verdict

TV, SOLVED = METRICS["markov"], METRICS["sudoku"]


def row(value, low=None, high=None, n=100, **more):
    return {"value": value, "value_low": low, "value_high": high, "n": n, "used": 2.0, "flops_per_sample": 10.0,
            "seconds_per_sample": 0.1, **more}  # fmt: skip


def entry(label, method, value_by_budget, spread=0.0, flops=10.0):
    budgets = {}
    for name, value in value_by_budget.items():
        rows = [row(value + d, value - 0.001, value + 0.001) for d in (-spread, 0, spread)]
        budgets[name] = pooled(rows, TV) | {"flops_per_sample": flops * (int(name) if name.isdigit() else 1)}
    return {"label": label, "method": method, "budgets": budgets}


def test_the_interval_covers_seeds_and_samples():
    found = pooled([row(0.10, 0.09, 0.11), row(0.14, 0.13, 0.15), row(0.12, 0.11, 0.13)], TV)
    assert found["value"] == pytest.approx(0.12)
    half = student.ppf(0.975, 2) * 0.02 / 3**0.5
    assert (found["seeds_low"], found["seeds_high"]) == (pytest.approx(0.12 - half), pytest.approx(0.12 + half))
    assert found["samples_high"] - found["value"] == pytest.approx(0.01 / 3**0.5)
    assert (found["low"], found["high"]) == (found["seeds_low"], found["seeds_high"])


def test_shares_are_pooled_by_their_counts_and_stay_shares():
    found = pooled([row(1.0), row(1.0), row(0.97)], SOLVED)
    assert (found["samples_low"], found["samples_high"]) == wilson(297, 300)
    assert found["high"] == 1.0
    same = pooled([row(1.0), row(1.0)], SOLVED)
    assert same["low"] == wilson(200, 200)[0], "runs that agree are no certainty"


def test_a_run_without_a_number_is_left_out():
    assert pooled([row(None)], TV)["value"] is None
    assert pooled([row(0.02, 0.01, 0.03), row(0.2, 0.19, 0.21)], TV)["low"] == 0, "a distance is not negative"
    assert pooled([row(None), row(0.2, 0.1, 0.3)], TV)["values"] == [0.2]


def test_who_is_best_and_whether_dbtm_loses():
    entries = [
        entry("dbtm", "dbtm", {"1": 0.1, "4": 0.3}, 0.01),
        entry("dbtm-paper", "dbtm", {"1": 0.2, "4": 0.25}, 0.01),
        entry("mdlm", "mdlm", {"1": 0.4, "4": 0.1}, 0.01),
    ]
    one, four = best(entries, (1, 2, 4), TV)
    assert (one["best"], one["dbtm"], one["rival"], one["dbtm_loses"]) == ("dbtm", "dbtm", "mdlm", False)
    assert (four["best"], four["dbtm"], four["rival"], four["dbtm_loses"]) == ("mdlm", "dbtm-paper", "mdlm", True)
    assert four["p"] < 0.05
    document = {"metric": vars(TV), "best": [one, four], "equal_sample_cost": []}
    (said,) = losses(document)
    assert said.startswith("At 4 NFE dbtm-paper")
    assert "loses to mdlm" in said
    assert "ahead of mdlm" in verdict(one, vars(TV))


def test_where_runs_differ_by_chance_nothing_is_called_a_loss():
    entries = [entry("dbtm", "dbtm", {"1": 0.12}, 0.05), entry("mdlm", "mdlm", {"1": 0.11}, 0.05)]
    document = {"metric": vars(TV), "best": best(entries, (1,), TV), "equal_sample_cost": []}
    assert losses(document) == ["Behind, but not separably (p >= 0.05): at 1 NFE."]


def test_a_method_without_a_budget_is_met_at_equal_cost():
    entries = [
        entry("dbtm", "dbtm", {"1": 0.3, "2": 0.2, "4": 0.05}, 0.01, flops=100.0),
        entry("ar", "ar", {"all": 0.1}, 0.01, flops=250.0),
    ]
    (record,) = at_equal_sample_cost(entries, TV)
    assert (record["dbtm_nfe"], record["dbtm_value"]) == (2, pytest.approx(0.2))
    assert record["dbtm_loses"]
    (cheap,) = at_equal_sample_cost([entries[0], entry("ar", "ar", {"all": 0.1}, flops=50.0)], TV)
    assert "dbtm" not in cheap
