"""`dbtm plot`: figures of runs; and `dbtm train --dry-run`."""

import json

import pytest


@pytest.fixture
def runs(tmp_path):
    folders = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        records = [{"step": s, "loss": 3 / s, "steps_per_second": 2.0} for s in range(1, 6)]
        records += [{"step": 5, "eval/validation": 1.5, "eval/solved_4": 0.25, "eval/score": 1.0}]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
        folders.append(folder)
    return folders


@pytest.mark.parametrize(("name", "start"), [("c.svg", b"<?xml"), ("c.png", b"\x89PNG"), ("c.pdf", b"%PDF")])
def test_runs_are_drawn_together(command, runs, tmp_path, name, start):
    code, out, err = command("plot", *runs, "--out", tmp_path / name)
    assert (code, out.strip()) == (0, str(tmp_path / name)), err
    assert (tmp_path / name).read_bytes().startswith(start)


def test_the_panels_are_loss_validation_and_headlines(runs):
    from dbtm.viz.curves import draw_training, read_run

    figure = draw_training([read_run(run) for run in runs])
    titles = [ax.get_title() or ax.get_title("left") for ax in figure.axes if ax.axison]
    assert len(titles) == 3
    lines = list(figure.axes[0].get_lines())
    assert [list(line.get_ydata()) for line in lines] == [[3.0, 1.5, 1.0, 0.75, 0.6]] * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "is not a run"),
        (["--out", "x.gif", "nowhere"], "must end in .svg"),
    ],
)
def test_what_cannot_be_drawn_is_a_line(command, words, message):
    code, _, err = command("plot", *words)
    assert (code, message in err, err.count("\n")) == (2, True, 1)


def test_an_unknown_number_is_named(command, runs, tmp_path):
    code, _, err = command("plot", runs[0], "--name", "los", "--out", tmp_path / "c.svg")
    assert (code, "did you mean 'loss'" in err) == (2, True)


def test_a_dry_run_says_what_a_run_takes_and_writes_nothing(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sets = ["model.width=16", "model.depth=1", "model.heads=2", "train.device=cpu", "train.batch=8"]
    code, out, err = command("train", "markov", "--dry-run", *(w for s in sets for w in ("--set", s)))
    assert code == 0, err
    assert "markov by dbtm, 800 steps of 8 rows, into runs/markov" in out
    assert "step/s" in out
    assert "800 steps take" in out
    assert list(tmp_path.iterdir()) == []
