"""Figure `learned`: its drawing from given curves, and the training runs behind it."""

import pytest

from dbtm.service import theory
from dbtm.simplex.phase import commitment_time
from dbtm.viz.theory.learned import LearnedMaps, TrainingCurve, draw_learned


def curve(agreement: float) -> TrainingCurve:
    return TrainingCurve([10, 20], [0.5, agreement], [0.4, 1 - agreement])


def test_every_curve_is_drawn_and_numbered() -> None:
    maps = LearnedMaps(20, 0.6, {None: curve(0.7), 0.3: curve(0.9)}, {2: curve(0.8), 5: curve(0.75)})
    figure, numbers = draw_learned(maps)
    A, B, C = figure.axes
    assert [line.get_ydata()[-1] for line in A.lines] == [0.7, 0.9]
    assert [line.get_ydata()[-1] for line in B.lines] == pytest.approx([0.3, 0.1])
    assert [line.get_label() for line in A.lines] == ["no anchor", "$t_{anchor}=0.3$"]
    assert list(C.lines[0].get_ydata()) == [0.8, 0.75]
    assert numbers["t_{anchor}=0.3"] == {"step": [10, 20], "agreement": [0.5, 0.9], "total_variation": [0.4, 1 - 0.9]}
    assert numbers["by V"] == {"V": [2, 5], "agreement": [0.8, 0.75], "total_variation": [1 - 0.8, 0.25]}


def test_the_figure_trains_one_map_per_anchor_time_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each curve of the figure is that of its own run, and progress counts the runs."""
    runs, reports = [], []

    def train_curve(p: tuple[float, ...], t_anchor: float | None) -> TrainingCurve:
        runs.append((p, t_anchor))
        return curve(0.5 + len(runs) / 100)

    monkeypatch.setattr(theory, "train_curve", train_curve)
    request = theory.FigureRequest("learned", p=(0.6, 0.4))
    numbers = theory.draw_figure(request, lambda done, total: reports.append((done, total))).drawing.numbers
    assert reports == [(done, 10) for done in range(11)]
    assert [t for _, t in runs] == [None, 0.15, 0.3, 0.45, 0.6, 0.8, *(commitment_time(V) for V in (2, 3, 5, 10))]
    assert all(p == (0.6, 0.4) for p, _ in runs[:6])
    assert runs[7][0] == pytest.approx((6 / 11, 3 / 11, 2 / 11))
    assert numbers["t_star"] == commitment_time(2)
    assert numbers["no anchor"]["agreement"][-1] == 0.51
    assert numbers["t_{anchor}=0.8"]["agreement"][-1] == 0.56
    assert numbers["by V"]["agreement"] == pytest.approx([0.57, 0.58, 0.59, 0.6])


def test_progress_can_cancel_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cancelled(Exception):
        pass

    def cancel_after_two(done: int, total: int) -> None:
        if done == 2:
            raise Cancelled

    runs = []
    monkeypatch.setattr(theory, "train_curve", lambda p, t_anchor: runs.append(t_anchor) or curve(0.9))
    with pytest.raises(Cancelled):
        theory.train_maps((0.5, 0.5), cancel_after_two)
    assert len(runs) == 2


def test_a_short_run_learns_more_than_chance() -> None:
    """A real run of the recipe; a map that ignores its input agrees with the exact one at most half of the time."""
    curve = theory.train_curve((0.5, 0.3, 0.2), 0.3, steps=100, evaluations=1)
    assert curve.step == [100]
    assert curve.agreement[-1] > 0.8
    assert curve.total_variation[-1] < 0.2


def test_a_run_that_a_signal_ends_early_is_no_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop saves and returns on Ctrl-C: the study must stop too, rather than go on with half a curve."""

    def stopped(config, folder, evaluate):
        with open(f"{folder}/metrics.jsonl", "w") as file:
            file.write('{"step": 100, "eval/agreement": 0.9, "eval/total_variation": 0.1}\n')

    monkeypatch.setattr("dbtm.train.loop.fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        theory.train_curve((0.5, 0.5), 0.3, steps=200)
