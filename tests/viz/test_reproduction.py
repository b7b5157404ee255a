"""The figures hold what they are given."""

from dbtm.viz.reproduction import draw_curves, draw_grids, draw_texts


def words(figure) -> list[str]:
    return [text.get_text() for ax in figure.axes for text in [*ax.texts, ax.title, *_left(ax)]]


def _left(ax):
    return [ax._left_title]


def test_curves_have_their_points_and_names():
    figure = draw_curves({"solved": {"with": ([1, 2], [3, 4]), "without": ([1, 2], [0, 1])}}, "steps", "%")
    (ax,) = figure.axes
    assert [line.get_ydata().tolist() for line in ax.lines] == [[3, 4], [0, 1]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["with", "without"]


def test_a_grid_for_every_round_with_its_commits():
    puzzle = [1, 0, 0, 0] * 4
    rounds = [
        {"values": [1, 2, 3, 4] * 4, "committed": [True, True, False, False] * 4},
        {"values": [1, 2, 3, 4] * 4, "committed": [True] * 16},
    ]
    figure = draw_grids(puzzle, rounds)
    assert [ax.get_title() for ax in figure.axes] == [
        "round 1: 4 of 12 cells committed",
        "round 2: 12 of 12 cells committed",
    ]
    colours = {text.get_color() for text in figure.axes[0].texts}
    assert len(colours) == 3


def test_texts_are_whole_and_wrapped():
    long = " ".join(["word"] * 100)
    shown = words(draw_texts({"16 NFE": ([long], None)}))
    assert " ".join(shown[1:]).split().count("word") == 100
    pieces = ["def", " f", "\n", "x", "<pad>", "<pad>", "<pad>"]
    shown = words(draw_texts({"round 1": (pieces, [True, False, True, True, True, True, True])}))
    assert [text for text in shown if text] == ["round 1", "def", " f", "x", "<pad>"]
