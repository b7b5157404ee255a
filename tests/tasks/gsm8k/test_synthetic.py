"""Synthetic problems: right answers, variety, and nothing of what is held out."""

import ast
import operator
import re
from collections import Counter
from fractions import Fraction

import pytest

from dbtm.sandbox import Sandbox
from dbtm.tasks.gsm8k.synthetic import SCENES, held_out, is_held_out, problem, tell
from dbtm.tasks.gsm8k.synthetic.story import Quantity, Story

N = 4000
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


@pytest.fixture(scope="module")
def made():
    return [problem(key) for key in range(N)]


def value_of(code: str) -> Fraction:
    """An interpreter of our own for straight-line arithmetic, in exact fractions."""
    (function,) = ast.parse(code).body
    assert isinstance(function, ast.FunctionDef)
    assert function.name == "simple_math_problem"
    known: dict[str, Fraction] = {}

    def evaluate(node) -> Fraction:
        if isinstance(node, ast.Constant):
            return Fraction(node.value)
        if isinstance(node, ast.Name):
            return known[node.id]
        return OPERATORS[type(node.op)](evaluate(node.left), evaluate(node.right))

    *steps, last = function.body
    for step in steps:
        assert step.targets[0].id not in known, "every variable is set once"
        known[step.targets[0].id] = evaluate(step.value)
    return evaluate(last.value)


def test_answers_are_right(made):
    wrong = [example for example in made if value_of(example.code) != example.answer]
    assert wrong == []
    assert all(example.answer == int(example.answer) and example.answer >= 0 for example in made)


def test_the_sandbox_agrees(made):
    with Sandbox(workers=2) as sandbox:
        outcomes = list(sandbox.map(example.code for example in made[:60]))
    assert [outcome.value for outcome in outcomes] == [example.answer for example in made[:60]]


def test_every_number_of_the_program_is_in_the_text(made):
    """Or is one of the few that words stand for: twice, a third, per cent, both sides of a rectangle, a mean of n."""
    spelled = {"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}
    for example in made[:1000]:
        told = set(re.findall(r"\d+", example.question.replace(",", "")))
        if spelled & set(re.findall(r"[a-z]+", example.question.lower())):
            told |= {str(n) for n in range(13)}
        assert set(re.findall(r"\b\d+\b", example.code)) - told <= {"2", "3", "4", "5", "6", "100"}, example


def test_steps_operations_and_wordings_vary(made):
    steps = Counter(len(re.findall(r"^.*[-+*/].*$", example.code, re.MULTILINE)) for example in made)
    assert all(steps[n] > N // 100 for n in range(1, 6))
    for sign in "+-*/":
        assert sum(f" {sign} " in example.code for example in made) > N // 10
    nothing = re.compile(r"\d[\d,]*|\b[A-Z]\w+\b")
    shapes = {nothing.sub("#", example.question) for example in made}
    programs = {re.sub(r"\b[a-z_]+\b", "x", re.sub(r"\d+", "#", example.code)) for example in made}
    assert len(shapes) > 2000
    assert len(programs) > 100
    assert len({example.question for example in made}) > 0.99 * N


def test_all_scenes_are_told():
    stories = [Story(key) for key in range(500)]
    assert {story.pick(SCENES) for story in stories} == set(SCENES)


def test_a_key_gives_one_problem_for_ever():
    assert problem(-5) == problem(-5)
    assert problem(2**63) != problem(2**63 + 1)
    assert problem(7).question == (
        "A school has 420 students. 36 people are waiting at a bus stop nearby. 30% of the students ride a bike. Half "
        "of the others play chess. How many students play chess but do not ride a bike?"
    )
    assert problem(7).answer == 147


def test_held_out_programs_are_never_trained_on(made):
    """Neither their words nor their numbers."""
    kept = held_out(50)
    assert len({example.code for example in kept}) == 50
    assert all(is_held_out(example.code) for example in kept)
    assert not any(is_held_out(example.code) for example in made)
    assert held_out(50)[:20] == held_out(20)
    assert held_out(20, seed=1) != held_out(20)
    rate = sum(is_held_out(tell(key).code) for key in range(2000)) / 2000
    assert 0.04 < rate < 0.09, "one in sixteen"


def test_a_question_has_one_program():
    """What is said of programs is thereby said of questions."""
    programs: dict[str, str] = {}
    for key in range(20_000):
        example = tell(key)
        assert programs.setdefault(example.question, example.code) == example.code


def test_expressions_keep_their_parentheses():
    a, b, c = (Quantity(name, value) for name, value in (("a", 12), ("b", 4), ("c", 2)))
    cases = [
        a.minus(b.plus(c)),
        a.plus(b).times(c),
        a.times(b.minus(c)),
        a.over(b.times(c).minus(b)),
        a.times(b).over(c),
        a.minus(b.times(c)),
        a.over(b.over(c)),
    ]
    for quantity in cases:
        code = f"def simple_math_problem():\n    a = 12\n    b = 4\n    c = 2\n    return {quantity.text}"
        assert value_of(code) == quantity.value
