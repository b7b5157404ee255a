"""The two views of a Sudoku trace say what the trace says."""

import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

from dbtm.viz.states import GridState, spaced
from dbtm.viz.sudoku_page import sudoku_page
from dbtm.viz.sudoku_trace import SudokuTrace

PUZZLE = np.array([1, 0, 0, 0, 0, 0, 3, 0, 0, 4, 0, 0, 0, 0, 0, 2], np.uint8)
SOLUTION = np.array([1, 3, 2, 4, 4, 2, 3, 1, 2, 4, 1, 3, 3, 1, 4, 2], np.uint8)


def trace():
    """Two rounds: in the first, cells 1 and 2 are committed, cell 5 is unknown and the first clue is copied wrongly."""
    values = SOLUTION.copy()
    values[0], values[5] = 2, 0
    committed = np.isin(np.arange(16), [1, 2])
    return [GridState(values, committed, np.linspace(0, 1, 16)), GridState(SOLUTION, np.ones(16, bool), np.ones(16))]


def printed(states=None, **options):
    console = Console(file=io.StringIO(), **options)
    console.print(SudokuTrace(PUZZLE, states or trace()))
    return console.file.getvalue()


def test_without_colour_every_kind_of_cell_has_its_mark():
    lines = [line.rstrip() for line in printed(width=80).splitlines()]
    assert lines == [
        "round 1  2/12 committed   round 2  12/12 committed",
        "┌──────┬──────┐           ┌──────┬──────┐",
        "│ 2! 3'│ 2' 4?│           │ 1  3'│ 2' 4'│",
        "│ 4? ·?│ 3  1?│           │ 4' 2'│ 3  1'│",
        "├──────┼──────┤           ├──────┼──────┤",
        "│ 2? 4 │ 1? 3?│           │ 2' 4 │ 1' 3'│",
        "│ 3? 1?│ 4? 2 │           │ 3' 1'│ 4' 2 │",
        "└──────┴──────┘           └──────┴──────┘",
        "",
        "5 clue   5' committed   5? refining   5! wrong clue",
    ]


def test_colours_replace_the_stroke():
    text = printed(width=80, force_terminal=True, color_system="truecolor")
    assert "\x1b[1;38;2;0;133;184m 3 \x1b[0m" in text  # committed: bold turquoise
    assert "\x1b[38;2;107;103;238m 4?\x1b[0m" in text  # refining: purple
    assert "'" not in text


def test_no_color_is_respected():
    assert "3'" in printed(width=80, force_terminal=True, color_system="truecolor", no_color=True)


def test_a_narrow_terminal_stacks_the_rounds():
    lines = printed(width=40).splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.startswith("round") for line in lines) == 2


def test_without_commits_nothing_is_settled_until_the_last_round():
    """The method's clock is shown. Where nothing is written yet, clues stay and other cells are empty."""
    begun = np.where(np.arange(16) < 6, SOLUTION, 0)
    lines = [
        line.rstrip()
        for line in printed([GridState(begun, time=0.5), GridState(SOLUTION, time=1)], width=80).splitlines()
    ]
    assert lines == [
        "round 1  t = 0.5   round 2  12/12 committed  t = 1",
        "┌──────┬──────┐    ┌──────┬──────┐",
        "│ 1  3?│ 2? 4?│    │ 1  3'│ 2' 4'│",
        "│ 4? 2?│ 3  · │    │ 4' 2'│ 3  1'│",
        "├──────┼──────┤    ├──────┼──────┤",
        "│ ·  4 │ ·  · │    │ 2' 4 │ 1' 3'│",
        "│ ·  · │ ·  2 │    │ 3' 1'│ 4' 2 │",
        "└──────┴──────┘    └──────┴──────┘",
        "",
        "5 clue   5' committed   5? refining",
    ]


def test_a_clue_that_was_committed_as_nothing_is_wrong():
    values = np.where(np.arange(16) == 0, 0, SOLUTION)
    assert "│ ·! 3'│" in printed([GridState(values, np.ones(16, bool), np.ones(16))], width=80)


def test_of_many_rounds_a_dozen_are_shown():
    states = [GridState(SOLUTION, np.arange(16) < r, time=r / 90) for r in range(1, 91)]
    text = printed(states, width=80)
    assert text.count("round ") == 12
    assert "12 of 90 rounds, evenly spaced" in text
    assert "rounds, evenly" not in printed(states[:12], width=80)
    assert len(data_of(sudoku_page(PUZZLE, states, {}))["rounds"]) == 90, "a page has them all"


@pytest.mark.parametrize("rounds", [1, 2, 11, 12, 13, 14, 23, 24, 90, 180, 1024])
def test_rounds_that_are_shown_are_evenly_spaced(rounds):
    numbers = spaced(rounds)
    gaps = np.diff(numbers)
    assert (numbers[0], numbers[-1]) == (1, rounds)
    assert len(numbers) == min(rounds, 12)
    assert rounds == 1 or (gaps.min() >= 1 and gaps.max() - gaps.min() <= 1)


class Page(HTMLParser):
    """Collects text by element, open elements, and every attribute."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.attributes = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"unbalanced {tag}"

    def handle_data(self, data):
        self.text.setdefault(self.open[-1] if self.open else "", []).append(data)


def data_of(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])


def test_the_page_carries_the_trace():
    data = data_of(sudoku_page(PUZZLE, trace(), {}))
    assert data["puzzle"] == PUZZLE.tolist()
    assert [now["values"] for now in data["rounds"]] == [now.values_C.tolist() for now in trace()]
    assert [now["committed"] for now in data["rounds"]] == [now.committed_C.astype(int).tolist() for now in trace()]
    assert np.allclose(data["rounds"][0]["score"], trace()[0].score_C, atol=1e-4)


def test_the_page_needs_nothing_from_elsewhere():
    text = sudoku_page(PUZZLE, trace(), {"title": "T"})
    page = Page(text)
    assert page.open == []
    assert not {name for name, _ in page.attributes} & {"src", "href"}
    assert not re.search(r"https?:|@import|url\(|fetch\(", text)
    assert "@@" not in text


@pytest.mark.parametrize("hostile", ["</script><script>alert(1)</script>", "<b>&\"'", "@@DATA@@"])
def test_what_the_user_wrote_stays_text(hostile):
    page = Page(sudoku_page(PUZZLE, trace(), {"title": hostile, "note": hostile}))
    assert page.text["h1"] == [hostile]
    assert page.text["dd"] == [hostile]
    assert page.open == []


def test_scores_that_are_no_number_are_left_out():
    rounds = [GridState(SOLUTION, np.ones(16, bool), np.full(16, np.nan))]
    assert data_of(sudoku_page(PUZZLE, rounds, {}))["rounds"][0]["score"] == [None] * 16


def test_the_page_says_what_a_method_has_no_notion_of():
    first, last = data_of(sudoku_page(PUZZLE, [GridState(SOLUTION, time=0.25), GridState(SOLUTION)], {}))["rounds"]
    assert (first["committed"], first["score"], first["time"]) == (None, None, 0.25)
    assert (last["committed"], last["score"], last["time"]) == ([1] * 16, None, None)


def test_a_digit_that_is_not_confirmed_is_taken_back():
    """Cell 3 is committed, then not any more: marked in the round that gives it up, and refining in the next."""
    all_but = [np.ones(16, bool), np.arange(16) != 3, np.arange(16) != 3, np.ones(16, bool)]
    rounds = [GridState(SOLUTION, committed, np.ones(16)) for committed in all_but]
    text = printed(rounds, width=120)
    rows = next(line for line in text.splitlines() if line.count("3'") == 4)
    assert [part for part in ("4'", "4~", "4?") if part in rows] == ["4'", "4~", "4?"]
    assert [rows.index(mark) for mark in ("4'", "4~", "4?")] == sorted(rows.index(mark) for mark in ("4'", "4~", "4?"))
    assert "5~ taken back" in text
    assert "11/12 committed" in text
