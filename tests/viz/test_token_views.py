"""The two views of a text's trace say what the trace says."""

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from dbtm.sampling import Round, Trace
from dbtm.viz.states import TextState
from dbtm.viz.token_page import token_page
from dbtm.viz.token_trace import Sample, TextTrace, kinds, result_text, rounds_of, sample_of
from tests.viz.test_sudoku_views import Page

GIVEN = np.array([1, 0, 0, 0, 0, 0, 0], bool)
FIRST = TextState(["The", " fox", "", "é", "\n", "x", "∎"], np.array([1, 1, 0, 1, 0, 0, 1], bool), np.linspace(0, 1, 7))
LAST = TextState(["The", " old", "", "é", ".", "∎", "∎"], np.ones(7, bool), np.ones(7))


def sample(**changes) -> Sample:
    """Two rounds; in the first, the é has a token that is still refining."""
    return Sample(**{"given_L": GIVEN, "states": [FIRST, LAST]} | changes)


def printed(what, soft_wrap=False, **options) -> str:
    console = Console(file=io.StringIO(), **options)
    console.print(what, soft_wrap=soft_wrap)
    return console.file.getvalue()


def data_of(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])


def test_a_character_is_as_settled_as_the_least_of_its_tokens():
    assert kinds(sample(), FIRST) == ["given", "committed", "refining", "refining", "refining", "refining", "committed"]
    assert kinds(sample(), LAST)[1:] == ["committed"] * 6
    split = TextState(["", "é"], np.array([1, 1], bool), np.ones(2))
    assert kinds(Sample(np.array([False, True]), [split]), split) == ["committed", "committed"]


def test_without_colour_brackets_tell_the_kinds_apart():
    lines = [line.rstrip() for line in printed(TextTrace(sample()), width=80).splitlines()]
    assert lines == [
        "round 1  3/6 committed",
        "«The» fox‹é",
        "x›∎",
        "",
        "round 2  6/6 committed",
        "«The» oldé.∎∎",
        "",
        "«given»   committed   ‹refining›   ∎ end of text",
    ]


def test_white_space_stays_outside_the_brackets():
    now = TextState(["a", " b\n", "  ", "c", "\n"], np.array([1, 0, 0, 1, 0], bool), np.ones(5))
    text = printed(TextTrace(Sample(np.zeros(5, bool), [now])), width=80)
    assert text.splitlines()[1:3] == ["a ‹b›", "  c‹"]


def test_a_token_without_text_of_its_own_shows_nothing():
    now = TextState(["a", "", "é", ""], np.array([0, 1, 0, 1], bool), np.ones(4))
    assert printed(TextTrace(Sample(np.zeros(4, bool), [now])), width=80).splitlines()[1] == "‹aé›"


def test_colours_replace_the_brackets():
    text = printed(TextTrace(sample()), width=80, force_terminal=True, color_system="truecolor")
    assert "\x1b[38;2;128;128;160mThe\x1b[0m\x1b[1;38;2;0;133;184m fox\x1b[0m\x1b[38;2;107;103;238mé\x1b[0m" in text
    assert not set("«»‹›") & set(text)
    assert "«The»" in printed(TextTrace(sample()), force_terminal=True, color_system="truecolor", no_color=True)


def test_many_marks_are_counted():
    now = TextState([*"ab", *"∎▫▫▫▫▫", *"...."], np.ones(12, bool), np.ones(12))
    text = printed(TextTrace(Sample(np.zeros(12, bool), [now])), width=80)
    assert "ab∎▫×5...." in text
    assert text.splitlines()[-1].split("   ") == ["committed", "∎ end of text", "▫ padding"]


def test_lines_are_wrapped_at_words_in_a_terminal_only():
    now = TextState(["word "] * 30, np.ones(30, bool), np.ones(30))
    long = Sample(np.zeros(30, bool), [now])
    assert max(map(len, printed(result_text(long), width=40).splitlines())) <= 40
    assert "word " * 30 in printed(result_text(long), soft_wrap=True, width=40)
    assert "word " * 30 in printed(TextTrace(long), soft_wrap=True, width=40)


def test_the_result_is_the_plain_text():
    assert printed(result_text(sample()), width=80) == "The oldé.∎∎\n"
    assert printed(result_text(sample(first=2)), width=80) == "é.∎∎\n"


def test_the_page_carries_the_trace():
    other = sample(question="How many?", first=1, facts={"answer": "returns 3"})
    first, second = data_of(token_page([sample(), other], {}))
    assert first["given"] == GIVEN.astype(int).tolist()
    assert [now["parts"] for now in first["rounds"]] == [FIRST.parts_L, LAST.parts_L]
    assert [now["kinds"] for now in first["rounds"]] == ["gcrrrrc", "gcccccc"]
    assert [now["committed"] for now in first["rounds"]] == [3, 6]
    assert np.allclose(first["rounds"][0]["score"], FIRST.score_L, atol=1e-4)
    assert (second["question"], second["facts"], second["free"]) == ("How many?", [["answer", "returns 3"]], 6)
    assert second["rounds"][1]["parts"] == LAST.parts_L[1:]
    assert len(second["given"]) == len(second["rounds"][0]["kinds"]) == len(second["rounds"][0]["score"]) == 6


def test_the_page_needs_nothing_from_elsewhere():
    text = token_page([sample()], {"title": "T"}, code=True)
    page = Page(text)
    assert page.open == []
    assert not {name for name, _ in page.attributes} & {"src", "href"}
    assert ("class", "sheet code") in page.attributes
    assert not re.search(r"https?:|@import|url\(|fetch\(|innerHTML", text)
    assert "@@" not in text


@pytest.mark.parametrize("hostile", ["</script><script>alert(1)</script>", "<!--<script>", "<b>&\"'", "@@DATA@@"])
def test_what_a_model_or_a_user_wrote_stays_text(hostile):
    now = TextState([hostile], np.ones(1, bool), np.full(1, np.nan))
    shown = Sample(np.zeros(1, bool), [now], question=hostile, facts={hostile: hostile})
    text = token_page([shown], {"title": hostile, "note": hostile})
    page = Page(text)
    assert page.text["h1"] == [hostile]
    assert page.text["dd"] == [hostile]
    assert page.open == []
    assert len(page.text["script"]) == 2
    (found,) = data_of(text)
    assert found["rounds"] == [{"parts": [hostile], "kinds": "c", "committed": 1, "score": [None], "time": None}]
    assert (found["question"], found["facts"]) == (hostile, [[hostile, hostile]])


# -- what a method has no notion of ------------------------------------------------------------------------------------


def test_without_commits_nothing_is_settled_until_the_last_round():
    states = [FIRST._replace(committed_L=None, score_L=None, time=0.5), LAST._replace(committed_L=None, score_L=None)]
    plain = sample(states=states)
    assert printed(TextTrace(plain), width=80).splitlines()[:6] == [
        "round 1  t = 0.5",
        "«The» ‹foxé",
        "x∎›",
        "",
        "round 2  6/6 committed",
        "«The» oldé.∎∎",
    ]
    (data,) = data_of(token_page([plain], {}))
    assert [(now["kinds"], now["committed"]) for now in data["rounds"]] == [("grrrrrr", None), ("gcccccc", 6)]
    assert [(now["score"], now["time"]) for now in data["rounds"]] == [(None, 0.5), (None, None)]


def test_what_is_not_written_yet_is_a_mark():
    blank = np.array([0, 0, 1, 1, 1, 1, 1], bool)
    parts = ["The", " fox", *"░░░░░"]
    begun = TextState(parts, np.array([1, 1, 0, 0, 0, 0, 0], bool), blank_L=blank)
    text = printed(TextTrace(sample(states=[begun, LAST])), width=80)
    assert text.splitlines()[:2] == ["round 1  1/6 committed", "«The» fox░×5"]
    assert text.splitlines()[-1] == "«given»   committed   ∎ end of text   ░ nothing yet"
    assert data_of(token_page([sample(states=[begun])], {}))[0]["rounds"][0]["kinds"] == "gcnnnnn"


def test_of_many_rounds_a_dozen_are_shown():
    states = [LAST._replace(committed_L=np.arange(7) <= r, time=r / 40) for r in range(40)]
    text = printed(TextTrace(sample(states=states)), width=80)
    assert text.count("round ") == 12
    assert text.splitlines()[-2] == "12 of 40 rounds, evenly spaced"
    assert len(data_of(token_page([sample(states=states)], {}))[0]["rounds"]) == 40, "a page has them all"


# -- from a trace ------------------------------------------------------------------------------------------------------


def letters(tokens_L):
    return ["░" if token < 0 else "abc"[token] for token in tokens_L]


def of_rounds(tokens_RBL, committed_RBL, nfe):
    """A trace of rounds (R, B, L)."""
    rounds = [Round(np.array(t), np.array(c, bool)) for t, c in zip(tokens_RBL, committed_RBL, strict=True)]
    return Trace(rounds[-1].tokens, np.array(nfe), np.zeros_like(rounds[-1].tokens, bool), rounds)


def test_a_sample_has_the_rounds_that_it_took_part_in():
    """The first finishes early; the second begins late, behind a longer prompt; the third has nothing to do."""
    tokens = [[[1, 0], [2, 0], [1, 1]], [[1, 2], [2, 0], [1, 1]], [[1, 2], [2, 1], [1, 1]]]
    committed = [[[1, 0], [1, 0], [1, 1]], [[1, 1], [1, 0], [1, 1]], [[1, 1], [1, 1], [1, 1]]]
    trace = of_rounds(tokens, committed, [2, 1, 0])
    number = {id(state): number for number, state in enumerate(trace.rounds)}
    assert [[number[id(state)] for state in rounds_of(trace, b)] for b in (0, 1)] == [[0, 1], [2]]
    (only,) = sample_of(trace, 2, letters, 3).states
    assert (only.parts_L, only.committed_L.all()) == (["b", "b"], True)


def test_rounds_that_change_nothing_still_count():
    trace = of_rounds([[[1, 1]]] * 4, [[[0, 0]], [[0, 0]], [[0, 0]], [[0, 0]]], [3])
    assert len(rounds_of(trace, 0)) == 3


def test_what_a_trace_says_reaches_the_view():
    """Ids outside the vocabulary are no tokens; commits without scores mean that nothing else is proposed."""
    scored = Round(np.array([[0, 3, -1]]), np.array([[True, False, False]]), np.array([[1.0, 0.5, 0.5]]), time=0.25)
    unscored = Round(np.array([[0, 1, 2]]), np.array([[True, False, False]]))
    free = Round(np.array([[0, 1, 2]]))
    trace = Trace(free.tokens, np.array([3]), np.zeros((1, 3), bool), [scored, unscored, free])
    one, two, three = sample_of(trace, 0, letters, 3, facts={"a": "b"}).states
    assert (one.parts_L, one.blank_L.tolist(), one.time) == (["a", "░", "░"], [False, True, True], 0.25)
    assert (one.score_L.tolist(), two.score_L) == ([1.0, 0.5, 0.5], None)
    assert (two.parts_L, three.parts_L, three.committed_L) == (["a", "░", "░"], ["a", "b", "c"], None)


def test_without_a_trace_the_result_is_the_only_state():
    trace = Trace(np.array([[0, 2]]), np.array([3]), np.array([[True, False]]))
    drawn = sample_of(trace, 0, letters, 3)
    assert [state.parts_L for state in drawn.states] == [["a", "c"]]
    assert kinds(drawn, drawn.states[0]) == ["given", "committed"]
