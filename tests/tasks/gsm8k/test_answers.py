"""Numbers as people write them, and when two are the same."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbtm.sandbox import KINDS, Outcome
from dbtm.tasks.gsm8k.answers import _NUMBER, gold, number, same, verdict


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18", 18),
        (" 70,000 ", 70000),
        ("$1,234.50", 1234.5),
        ("1,234,567", 1234567),
        ("-5", -5),
        ("-$5", -5),
        ("$-5", -5),
        ("−3", -3),
        ("+3", 3),
        (".5", 0.5),
        ("5.", 5),
        ("20%", 20),
        ("12€", 12),
        ("007", 7),
    ],
)
def test_numbers(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ten",
        "18 dollars",
        "1,23",
        "12,34,567",
        "1 2",
        "1e5",
        "nan",
        "inf",
        "0x10",
        "--5",
        "-$-5",
        "1/2",
        "١٢",
        "9" * 400,
        "-" + " " * 400 + "5",
    ],
)
def test_other_texts_are_no_numbers(text):
    assert number(text) is None


@pytest.mark.parametrize("text", ["-" + " " * 50_000 + "x", "$" + "1,000" * 50_000, "1" * 50_000 + " x"])
def test_no_text_takes_long(text):
    start = time.process_time()
    assert number(text) is None
    assert _NUMBER.fullmatch(text) is None, "not even without the bound on its length"
    assert time.process_time() - start < 1


@given(st.integers(-(10**12), 10**12), st.sampled_from(["", "$"]))
def test_written_with_commas_and_read_again(value, sign):
    assert number(f"{'-' if value < 0 else ''}{sign}{abs(value):,}") == value


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("He makes 9 * 2 = $<<9*2=18>>18 a day.\n#### 18", 18),
        ("First #### 3\n#### 1,000", 1000),
        ("72", 72),
        (72, 72),
        (0.25, 0.25),
        ("It is 18", None),
        ("#### many", None),
        (True, None),
        (None, None),
        (float("nan"), None),
        (10**400, None),
        ([18], None),
    ],
)
def test_gold(answer, value):
    assert gold(answer) == value


def test_same_up_to_rounding():
    assert same(0.1 + 0.2, 0.3)
    assert same(107.99999999999983, 108)
    assert same(0, 0)
    assert not same(33.33, 100 / 3)
    assert not same(18, 18.01)
    assert not same(0, 0.001)
    assert not same(2_000_001, 2_000_000), "whole numbers are told apart"
    assert not same(2**1000, 1.0)


def test_verdicts():
    assert verdict(Outcome("value", 18), 18.0) == "correct"
    assert verdict(Outcome("value", 18.0), 18.0) == "correct"
    assert verdict(Outcome("value", "$18.00"), 18.0) == "correct"
    assert verdict(Outcome("value", 19), 18.0) == "wrong"
    assert verdict(Outcome("value", "18 correct"), 18.0) == "type"
    for kind in KINDS:
        assert verdict(Outcome(kind, detail="18"), 18.0) == kind
