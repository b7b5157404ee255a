"""The two views of a text's trace say what the trace says."""

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from dbtm.viz.text import Round, Sample, TextTrace, kinds, result
from dbtm.viz.text_page import text_page
from tests.viz.test_sudoku_views import Page

GIVEN = np.array([1, 0, 0, 0, 0, 0, 0], bool)
FIRST = Round(["The", " fox", "", "é", "\n", "x", "∎"], np.array([1, 1, 0, 1, 0, 0, 1], bool), np.linspace(0, 1, 7))
LAST = Round(["The", " old", "", "é", ".", "∎", "∎"], np.ones(7, bool), np.ones(7))


def sample(**changes) -> Sample:
    """Two rounds; in the first, the é has a token that is still refining."""
    return Sample(**{"given_L": GIVEN, "rounds": [FIRST, LAST]} | changes)


def printed(what, soft_wrap=False, **options) -> str:
    console = Console(file=io.StringIO(), **options)
    console.print(what, soft_wrap=soft_wrap)
    return console.file.getvalue()


def data_of(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])


def test_a_character_is_as_settled_as_the_least_of_its_tokens():
    assert kinds(sample(), FIRST) == ["given", "committed", "refining", "refining", "refining", "refining", "committed"]
    assert kinds(sample(), LAST)[1:] == ["committed"] * 6
    split = Round(["", "é"], np.array([1, 1], bool), np.ones(2))
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
    now = Round(["a", " b\n", "  ", "c", "\n"], np.array([1, 0, 0, 1, 0], bool), np.ones(5))
    text = printed(TextTrace(Sample(np.zeros(5, bool), [now])), width=80)
    assert text.splitlines()[1:3] == ["a ‹b›", "  c‹"]


def test_a_token_without_text_of_its_own_shows_nothing():
    now = Round(["a", "", "é", ""], np.array([0, 1, 0, 1], bool), np.ones(4))
    assert printed(TextTrace(Sample(np.zeros(4, bool), [now])), width=80).splitlines()[1] == "‹aé›"


def test_colours_replace_the_brackets():
    text = printed(TextTrace(sample()), width=80, force_terminal=True, color_system="truecolor")
    assert "\x1b[38;2;128;128;160mThe\x1b[0m\x1b[1;38;2;0;133;184m fox\x1b[0m\x1b[38;2;107;103;238mé\x1b[0m" in text
    assert not set("«»‹›") & set(text)
    assert "«The»" in printed(TextTrace(sample()), force_terminal=True, color_system="truecolor", no_color=True)


def test_many_marks_are_counted():
    now = Round([*"ab", *"∎▫▫▫▫▫", *"...."], np.ones(12, bool), np.ones(12))
    text = printed(TextTrace(Sample(np.zeros(12, bool), [now])), width=80)
    assert "ab∎▫×5...." in text
    assert text.splitlines()[-1].split("   ") == ["committed", "∎ end of text", "▫ padding"]


def test_lines_are_wrapped_at_words_in_a_terminal_only():
    now = Round(["word "] * 30, np.ones(30, bool), np.ones(30))
    long = Sample(np.zeros(30, bool), [now])
    assert max(map(len, printed(result(long), width=40).splitlines())) <= 40
    assert "word " * 30 in printed(result(long), soft_wrap=True, width=40)
    assert "word " * 30 in printed(TextTrace(long), soft_wrap=True, width=40)


def test_the_result_is_the_plain_text():
    assert printed(result(sample()), width=80) == "The oldé.∎∎\n"
    assert printed(result(sample(first=2)), width=80) == "é.∎∎\n"


def test_the_page_carries_the_trace():
    other = sample(question="How many?", first=1, facts={"answer": "returns 3"})
    first, second = data_of(text_page([sample(), other], {}))
    assert first["given"] == GIVEN.astype(int).tolist()
    assert [now["parts"] for now in first["rounds"]] == [FIRST.parts_L, LAST.parts_L]
    assert [now["kinds"] for now in first["rounds"]] == ["gcrrrrc", "gcccccc"]
    assert [now["committed"] for now in first["rounds"]] == [3, 6]
    assert np.allclose(first["rounds"][0]["score"], FIRST.score_L, atol=1e-4)
    assert (second["question"], second["facts"], second["free"]) == ("How many?", [["answer", "returns 3"]], 6)
    assert second["rounds"][1]["parts"] == LAST.parts_L[1:]
    assert len(second["given"]) == len(second["rounds"][0]["kinds"]) == len(second["rounds"][0]["score"]) == 6


def test_the_page_needs_nothing_from_elsewhere():
    text = text_page([sample()], {"title": "T"}, code=True)
    page = Page(text)
    assert page.open == []
    assert not {name for name, _ in page.attributes} & {"src", "href"}
    assert ("class", "sheet code") in page.attributes
    assert not re.search(r"https?:|@import|url\(|fetch\(|innerHTML", text)
    assert "@@" not in text


@pytest.mark.parametrize("hostile", ["</script><script>alert(1)</script>", "<!--<script>", "<b>&\"'", "@@DATA@@"])
def test_what_a_model_or_a_user_wrote_stays_text(hostile):
    now = Round([hostile], np.ones(1, bool), np.full(1, np.nan))
    shown = Sample(np.zeros(1, bool), [now], question=hostile, facts={hostile: hostile})
    text = text_page([shown], {"title": hostile, "note": hostile})
    page = Page(text)
    assert page.text["h1"] == [hostile]
    assert page.text["dd"] == [hostile]
    assert page.open == []
    assert len(page.text["script"]) == 2
    (found,) = data_of(text)
    assert found["rounds"] == [{"parts": [hostile], "kinds": "c", "committed": 1, "score": [None]}]
    assert (found["question"], found["facts"]) == (hostile, [[hostile, hostile]])
