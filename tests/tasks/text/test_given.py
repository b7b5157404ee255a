"""Prompts, suffixes and holes: the text given stands where it should, and every other position is free."""

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.tasks.text.borders import Borders
from dbtm.tasks.text.given import HOLE, around, extent, place, template
from dbtm.tasks.text.task import Text

LENGTH = 16


@pytest.fixture(scope="module")
def task(words, tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "tokenizer.json"
    path.write_text(words.to_str(), encoding="utf-8")
    return Text(vocab=300, length=LENGTH, tokenizer=str(path))


def shown(task, tokens_L, clean_L) -> str:
    """The text with a _ for every free position."""
    spans, given = [], []
    for token, clean in zip(tokens_L, clean_L, strict=True):
        if clean:
            given.append(token)
        else:
            spans += [task.text(np.array(given, int)), "_"]
            given = []
    return "".join([*spans, task.text(np.array(given, int))])


def n_tokens(task, text):
    return len(task.encode(text))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("The ____ of ____", ["The ", HOLE, " of ", HOLE, ""]),
        ("__", ["", HOLE, ""]),
        ("a_b __ c_", ["a_b ", HOLE, " c_"]),
    ],
)
def test_two_or_more_underscores_are_a_hole(text, parts):
    assert template(text) == parts


@pytest.mark.parametrize("text", ["", "no hole", "snake_case"])
def test_a_text_without_a_hole_is_refused(text):
    with pytest.raises(UsageError, match="has no hole"):
        template(text)


@pytest.mark.parametrize(("prompt", "suffix"), [("the fox", ""), ("", "a dog"), ("the fox ", "the dog."), ("", "")])
def test_prompt_and_suffix_stand_at_the_ends(task, prompt, suffix):
    tokens_L, clean_L = place(task, around(prompt, suffix))
    end = f" {suffix}" if suffix else ""
    free = LENGTH - n_tokens(task, prompt.rstrip()) - n_tokens(task, end)
    assert shown(task, tokens_L, clean_L) == prompt.rstrip() + "_" * free + end
    assert len(tokens_L) == LENGTH


def test_underscores_of_a_prompt_are_text(task):
    assert shown(task, *place(task, around("a__b", ""))).startswith("a__b_")


@pytest.mark.parametrize("text", ["the {} dog", "{}the {} dog", "{}the {} dog{}"])
def test_holes_share_what_the_text_leaves(task, text):
    free, holes = LENGTH - n_tokens(task, "the") - n_tokens(task, " dog"), text.count("{}")
    widths = [free // holes + (i < free % holes) for i in range(holes)]
    found = shown(task, *place(task, template(text.replace("{}", "____"))))
    assert found == text.replace(" {}", "{}").format(*("_" * width for width in widths))


def test_holes_of_a_size_leave_the_rest_behind(task):
    free = LENGTH - n_tokens(task, "the") - n_tokens(task, " dog")
    assert shown(task, *place(task, template("the ____ dog"), hole=2)) == f"the__ dog{'_' * (free - 2)}"
    assert shown(task, *place(task, template("the ____ dog ____"), hole=2)) == f"the__ dog{'_' * (free - 2)}"


def test_the_text_ends_behind_its_last_part(task):
    edged = Text(vocab=300, length=LENGTH, tokenizer=task.tokenizer)
    edged.__dict__["borders"] = Borders(7, 9, around=True)
    for text, holes in (("the ____ dog", 1), ("the ____ dog ____", 2), ("____", 1)):
        tokens = 2 * holes + sum(n_tokens(task, part.rstrip(" ")) for part in template(text) if part)
        assert extent(task, template(text), 2) == tokens
        assert extent(edged, template(text), 2) == tokens + (text != "____")


def test_a_line_end_before_a_hole_is_kept(task):
    assert shown(task, *place(task, ["the \n", HOLE])).startswith("the \n_")


def test_borders_stand_around_what_is_given(task):
    edged = Text(vocab=300, length=LENGTH, tokenizer=task.tokenizer)
    edged.__dict__["borders"] = Borders(7, 9, around=True)
    tokens_L, clean_L = place(edged, around("the fox", ""))
    n = 1 + n_tokens(task, "the fox")
    assert (tokens_L[0], tokens_L[-1]) == (7, 9)
    assert task.text(tokens_L[1:n]) == "the fox"
    assert clean_L.tolist() == [True] * n + [False] * (LENGTH - n - 1) + [True]
    assert not place(edged, around("", ""))[1].any(), "from nothing, the model writes its borders itself"


def test_what_does_not_fit_is_refused_with_the_numbers(task):
    prompt = "fox " * LENGTH
    n = n_tokens(task, prompt.rstrip())
    with pytest.raises(
        UsageError,
        match=f"^{n} given and at least 1 generated tokens do not fit into this model's sequences of {LENGTH}: ",
    ):
        place(task, around(prompt, ""))
    with pytest.raises(UsageError, match=f"at least 18 generated tokens .* {LENGTH}: .* or smaller holes"):
        place(task, template("____ fox ____"), hole=9)
    just = "a" * (LENGTH - 1)
    assert n_tokens(task, just) == LENGTH - 1, "the test needs a letter a token"
    assert place(task, around(just, ""))[1].sum() == LENGTH - 1
    with pytest.raises(UsageError):
        place(task, around(just + "a", ""))


def test_bytes_that_are_no_text_are_refused(task):
    with pytest.raises(UsageError, match="not UTF-8"):
        place(task, around("a\udcff", ""))
