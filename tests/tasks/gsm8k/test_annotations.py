"""Programs from worked solutions."""

import pytest

from dbtm.sandbox import Sandbox
from dbtm.tasks.gsm8k.annotations import program
from dbtm.tasks.gsm8k.answers import gold, verdict

SOLUTIONS = {  # written for this test
    "Half of 48 is 48/2 = <<48/2=24>>24 and together 48+24 = <<48+24=72>>72.\n#### 72": ["48/2", "48+s1"],
    "A day costs $<<1,200/3=400>>400, so two cost <<400*2=800>>800.\n#### $800": ["1200/3", "s1*2"],
    "He has <<2+2=4>>4, then <<8/2=4>>4, then <<4*.5=2>>2.\n#### 2": ["2+2", "8/2", "s2*.5"],  # the latest 4
    "It takes <<60*0.25=15>>15 minutes, which is <<15=15>>15.\n#### 15": ["60*0.25", "s1"],
    "That is <<14*10=140>>140, not 14, and 1400 is <<1400-140=1260>>1260.\n#### 1,260": ["14*10", "1400-s1"],
}


@pytest.mark.parametrize(("solution", "steps"), SOLUTIONS.items())
def test_steps_become_lines(solution, steps):
    lines = "".join(f"    s{n} = {step}\n" for n, step in enumerate(steps, 1))
    assert program(solution) == f"def simple_math_problem():\n{lines}    return s{len(steps)}"


def test_they_return_the_answers():
    with Sandbox(workers=1) as sandbox:
        for solution in SOLUTIONS:
            assert verdict(sandbox.run(program(solution)), gold(solution)) == "correct"


@pytest.mark.parametrize(
    "solution",
    [
        "No steps.\n#### 5",
        "The last step is <<2+2=4>>4, and 4+1 = 5 is not annotated.\n#### 5",
        "It is <<2+3=5>>5, or simply <<7=7>>7.\n#### 7",  # states it
        "It is <<2**3=8>>8.\n#### 8",  # not one of the four operations
        "It is <<5/0=1>>1.\n#### 1",
        "It is <<__import__('os')=1>>1.\n#### 1",
        "It is <<2+3=5>>5.\n#### five",
        "It is <<2+3=5>>5.",
        "It is <<" + "9" * 5000 + "+1=1>>1.\n#### 1",
    ],
)
def test_others_give_none(solution):
    assert program(solution) is None
