"""What the paper has and its recipes leave off is switched on by `dbtm train RECIPE --set ...`, and trains."""

import json

import pytest

SMALL = """
model.width=8 model.heads=2 model.depth=1 method.quality.width=8 method.quality.heads=2 method.quality.depth=1
task.pool=40 task.evaluate_n=4 train.steps=2 train.batch=4 train.log_every=1 train.evaluate_every=0 train.device=cpu
optim.warmup=1 method.ril.depths=[2]
"""


@pytest.mark.parametrize(
    ("changes", "terms"),
    [
        ([], set()),
        (["method.ril.later_fraction=1", "method.ril.semigroup=0.5"], {"semi_r"}),
        (["method.ril.later_fraction=1", "method.ril.semigroup=0.5", "method.ril.commit=false"], {"semi_r"}),
        (["method.ril.transport=0.5"], {"ril_transport", "ril_anchor"}),
        (["method.ril.anchor=0.5"], {"ril_anchor"}),
        (["method.ril.rounds=one"], set()),
        (["method.ril.samples=2"], set()),
        (["method.loss.anchor_context=true"], set()),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_setting_is_trained(command, tmp_path, changes, terms):
    words = [word for change in (*SMALL.split(), *changes) for word in ("--set", change)]
    code, _, said = command("train", "sudoku-mini", "--out", tmp_path / "run", *words)
    assert code == 0, said
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [record for record in records if "loss" in record]
    assert [record["step"] for record in steps] == [1, 2]
    optional = {"semi_r", "ril_transport", "ril_anchor"}
    for record in steps:
        assert record.keys() & optional == terms
        assert record["ril"] > 0
        assert all(record[name] >= 0 for name in terms)
    made = json.loads(next((tmp_path / "run").glob("step-*/config.json")).read_text())
    for change in changes:
        name, value = change.split("=")
        setting = made
        for key in name.split("."):
            setting = setting[key]
        assert json.dumps(setting).strip('"') in (value, f"{value}.0")
