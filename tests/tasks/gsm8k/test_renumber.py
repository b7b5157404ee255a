"""Other numbers: the same in question and program, and only where the program has them from the question."""

import re

import numpy as np
import pytest

from dbtm.errors import UsageError
from dbtm.tasks.gsm8k.data import Example
from dbtm.tasks.gsm8k.renumber import KNOWN, renumber
from dbtm.tasks.gsm8k.task import Gsm8k
from tests.tasks.gsm8k.conftest import LENGTH

STORY = "Tom has {} apples, buys {} more and gives {} to each friend."
CODE = "def simple_math_problem():\n    s1 = {}\n    s2 = s1 + {}\n    return s2 - {}"


def numbers(text: str) -> list[str]:
    return re.findall(r"\b\d+\b", text)


def told(*values) -> Example:
    return Example(STORY.format(*values), CODE.format(*values), None)


@pytest.mark.parametrize("values", [(48, 56, 5), (7, 120, 45), (4500, 31, 8)])
def test_question_and_program_get_the_same_other_numbers(values):
    seen = set()
    for key in range(40):
        new = renumber(told(*values), key)
        found = numbers(new.question)
        assert new == told(*found), "nothing but the numbers changes, and both have the same"
        assert list(map(len, found)) == [len(str(value)) for value in values]
        assert all(int(n) % 100 == 0 for n, value in zip(found, values, strict=True) if value == 4500)
        assert np.array_equal(np.argsort([int(n) for n in found]), np.argsort(values)), "more stays more"
        assert not KNOWN.intersection(found)
        assert new == renumber(told(*values), key)
        seen.add(new)
    assert len(seen) > 20


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("A dozen is 12, a tenth 10, an hour 60.", "x = 12 * 10 / 60"),  # what programs know by themselves
        ("Half of it, or 2 of them.", "x = 2"),  # a half has a 2 as well
        ("3 bags, then 3 boxes.", "x = 3"),  # which of them?
        ("6 bags.", "x = 6 * 6"),
        ("It costs 15.25 or 5,250 or 1.250.", "x = 15.25 + 5250 + 25 + 250"),  # parts of other numbers
        ("Take 41.", "s41 = 5; x_41 = s41"),  # parts of names
        ("Take 41 of 87.", "x = 4 * 1"),  # not in the program
        ("Forty-one.", "x = 41"),  # not in the question
        ("007 and 041", "x = 007 + 041"),
    ],
)
def test_numbers_from_elsewhere_stay(question, code):
    example = Example(question, code, 1.0)
    assert all(renumber(example, key) == example for key in range(20))


def test_numbers_beside_those_that_stay_are_never_made_equal_to_them():
    for key in range(300):
        first, second = numbers(renumber(Example("3 and 4", "x = 3 + 4 * 4", None), key).question)
        assert second == "4" != first


def test_a_share_of_the_examples_is_left_as_it_is():
    example = told(48, 56, 5)
    assert all(renumber(example, key, 0.0) == example for key in range(50))
    changed = np.mean([renumber(example, key, 0.5) != example for key in range(400)])
    assert 0.4 < changed < 0.6


def test_a_task_draws_with_other_numbers(folder):
    keys = np.arange(64, dtype=np.int64) * 0x9E3779B97F4A7C1
    plain = Gsm8k(data=str(folder), vocab=600, length=LENGTH)
    task = Gsm8k(data=str(folder), vocab=600, length=LENGTH, renumber=1.0)
    before, after = plain.kept(keys), task.kept(keys)
    assert after == task.kept(keys), "a function of the key"
    pairs = [(plain.layout.example(a), plain.layout.example(b)) for a, b in zip(before, after, strict=True)]
    assert any(old != new for old, new in pairs)
    for old, new in pairs:
        assert re.sub(r"\d", "0", old.question) == re.sub(r"\d", "0", new.question)
        assert re.sub(r"\d", "0", old.code) == re.sub(r"\d", "0", new.code)
    with pytest.raises(UsageError, match=r"task\.renumber=2 must be a share"):
        Gsm8k(renumber=2)
