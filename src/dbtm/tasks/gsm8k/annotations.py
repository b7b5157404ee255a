"""Programs from GSM8K's own worked solutions, whose steps are annotated: `48/2 = <<48/2=24>>24 clips in May`."""

import ast
import re

from dbtm.tasks.gsm8k.answers import gold, number, same
from dbtm.tasks.gsm8k.arithmetic import CANNOT, computed, straight_lines

_STEP = re.compile(r"<<([^<>=]+)=([^<>=]+)>>")
_NUMBER = re.compile(r"\d+\.?\d*|\.\d+")


def program(solution: str) -> str | None:
    """The annotated steps as a function, one line each; None if it does not compute the solution's answer.

    A number equal to an earlier step's result is read as that step's variable (the latest such step).
    """
    lines: list[str] = []
    names: dict[float, str] = {}
    for n, (expression, result) in enumerate(_STEP.findall(solution), 1):
        named = _NUMBER.sub(lambda match: names.get(float(match[0]), match[0]), expression.replace(",", ""))
        lines.append(f"    s{n} = {named}\n")
        if (value := number(result)) is not None:
            names[value] = f"s{n}"
    code = f"def simple_math_problem():\n{''.join(lines)}    return s{len(lines)}"
    answer = gold(solution)
    return code if answer is not None and _computes(code, answer) else None


def _computes(code: str, answer: float) -> bool:
    """Whether the program computes the answer, and does not only state it in its last step."""
    try:
        *_, step, _ = lines = straight_lines(code)
        return not isinstance(step.expression, ast.Constant) and same(computed(lines, {})[-1], answer)
    except (*CANNOT, IndexError):
        return False
