"""Other numbers: the same in question and program, and only where the program has them from the question."""

import re

import numpy as np
import pytest

from dbtm.sandbox import Sandbox
from dbtm.tasks.gsm8k.arithmetic import computed, straight_lines
from dbtm.tasks.gsm8k.data import Example
from dbtm.tasks.gsm8k.renumber import KNOWN, copies

STORY = "Tom has {} apples, buys {} more and gives {} to each friend."
CODE = "def simple_math_problem():\n    s1 = {} + {}\n    s2 = s1 - {}\n    return s2"


def told(*values) -> Example:
    return Example(STORY.format(*values), CODE.format(*values), None)


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\b\d+\b", text)]


@pytest.fixture(scope="module")
def run():
    """The answer of a program, by Python itself."""
    with Sandbox(workers=1) as sandbox:
        yield lambda code: sandbox.run(code).value


def program(*lines: str) -> str:
    return "\n    ".join(["def simple_math_problem():", *lines])


@pytest.mark.parametrize("values", [(48, 56, 5), (8, 120, 45), (4500, 33, 9)])
def test_question_and_program_get_the_same_other_numbers(values, run):
    found = list(copies(told(*values), 40))
    assert len(found) > 20
    assert len({new.code for new in found} | {told(*values).code}) == len(found) + 1, "all different"
    for new in found:
        got = numbers(new.question)
        assert (new.question, new.code) == (STORY.format(*got), CODE.format(*got)), "nothing but numbers changes"
        assert [len(str(n)) for n in got] == [len(str(value)) for value in values]
        assert all(n % 100 == 0 for n, value in zip(got, values, strict=True) if value == 4500)
        assert np.array_equal(np.argsort(got), np.argsort(values)), "more stays more"
        assert not KNOWN.intersection(got)
        assert run(new.code) == got[0] + got[1] - got[2]
    assert found == list(copies(told(*values), 40)) != list(copies(told(*values), 40, seed=1))


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        ("A dozen is 12, a tenth 10, an hour 60.", ["return 12 * 10 / 60"]),  # what programs know by themselves
        ("Half of it, or 2 of them.", ["return 2 * 5"]),  # a half has a 2 as well
        ("3 bags, then 3 boxes.", ["return 3 + 1"]),  # which of them?
        ("6 bags.", ["return 6 * 6"]),
        ("It costs 15.25 or 5,250 or 1.250, from 7:45 on.", ["return 25 + 250 + 45"]),  # parts of other numbers
        ("Take 41 of them.", ["s41 = 5", "return s41"]),  # parts of names
        ("It does 25 laps.", ["in_25_laps = 25", "return in_25_laps * 2"]),
        ("Take 41 of 87.", ["return 4 * 1"]),  # not in the program
        ("Forty-one.", ["return 41 * 2"]),  # not in the question
        ("It is 90km at 90 km/h.", ["return 90 / 90"]),  # the same in another spelling
        ("They pay $20.00 and 20 more.", ["return 20 + 20.0"]),
        ("An 80% share of $80.", ["return 0.8 * 80"]),  # a per cent of the same value
        ("35% off the 35 dollars.", ["return 0.65 * 35"]),
        ("The four of them, and 4 more.", ["return 4 + 4"]),  # in words
        ("$75 for 15 hours, and $1125 more.", ["s1 = 15 * 75", "return s1 + s1"]),  # s1 stands for another number
        ("48 and half of 4000.", ["s1 = 1600", "return s1 + 48"]),  # 1600 was worked out in the head
        ("3 times, less 4, and 92 both.", ["s1 = 24", "return 3 * s1 - 4"]),  # so was this 24
        ("48 of them.", ["for i in range(48):", "    x = i", "return x"]),  # no straight line
        ("48 of them.", ["return max(48, 2)"]),
        ("48 of them.", ["return 48 / 0"]),
        ("48 of them.", ["return 48 **"]),
        ("Its number is " + "9" * 5000 + ", 48 of them.", ["return 48 * 3"]),  # too long for Python to read
        (f"{3 << 1022} of them.", [f"return {3 << 1022} / {3 << 1022}"]),  # too large for others to be drawn
    ],
)
def test_what_is_in_doubt_stays(question, lines):
    assert list(copies(Example(question, program(*lines), 1.0), 20)) == []


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        ("Ann walked 18 km, twice as far as Bob. How far did both?", ["s1 = 9 + 18", "return s1"]),  # 18 / 2
        ("There are 24 kids, 4 times as many boys as girls.", ["girls = 24 / 5", "return 4 * girls"]),  # 4 + 1
        ("He runs 4 miles, doubles it, and triples that.", ["s1 = 4 + 8 + 24", "return s1"]),  # 2 * 4
        ("26 points in each of 15 games, of 20.", ["s1 = 26 * 15", "s2 = s1 / 5", "return s2"]),  # 20 - 15
        ("5 rows of 6, 2 blue ones under each.", ["s1 = 5 * 6", "s2 = 60 + s1", "return s2"]),  # 2 * s1
        ("200 and 20 % more, less a fourth.", ["s1 = 200 * 20 / 100", "s2 = 200 + s1", "s3 = s2 - 60", "return s3"]),
        ("40 % of 350 are old, the others new.", ["s1 = 350 * 40", "s2 = 350 * 60", "return s2 - s1"]),  # 100 - 40
    ],
)
def test_what_may_have_been_worked_out_in_the_head_stays(question, lines):
    """A number of the program that is not told would stay while the one that it comes from changes."""
    assert list(copies(Example(question, program(*lines), 1.0), 20)) == []


def test_what_a_program_knows_by_itself_is_no_reason_to_stay():
    example = Example("45 minutes for 8 miles.", program("hours = 45 / 60", "speed = 8 / hours", "return speed"), None)
    assert len(list(copies(example, 4))) == 4


def test_numbers_that_grow_without_end_are_not_waited_for():
    squares = [f"x{i + 1} = x{i} * x{i}" for i in range(40)]
    example = Example("48 of them.", program("x0 = 48", *squares, "return x40"), None)
    assert list(copies(example, 4)) == []


def test_values_on_the_way_keep_their_sign_and_stay_whole(run):
    example = Example("15 of 24 are left, for 3 children.", program("s1 = 24 - 15", "s2 = s1 / 3", "return s2"), None)
    found = list(copies(example, 30))
    assert found
    for new in found:
        left, of, children = numbers(new.question)
        assert of == 24, "what programs know without being told stays"
        assert left < of, "more stays more, also beside a number that stays"
        assert (of - left) % children == 0
        assert run(new.code) == (of - left) / children > 0


def test_straight_lines_compute_what_python_does(run):
    code = program("a = 7 * 6", "b = a", "c = -(a - 50) / 4 + round(2.6) % 2", "d = int(c) // 3", "return d + abs(-5)")
    values = computed(straight_lines(code), {})
    assert values == [42, 3.0, 1, run(code)]
    assert computed(straight_lines(code), {50: 54})[1] == 4.0
