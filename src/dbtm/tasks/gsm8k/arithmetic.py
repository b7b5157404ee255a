"""Straight-line arithmetic programs, parsed and computed without executing code."""

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

CANNOT = (SyntaxError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError, MemoryError)
"""The errors that reading or computing any other program raises."""
MOST_BITS = 1000  # of an intermediate whole number: repeated squares grow without bound
_OPERATIONS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable] = {"int": int, "float": float, "round": round, "abs": abs}

Swap = Mapping[int, int]


class Line(NamedTuple):
    """`name = expression`; what is returned has no name."""

    name: str
    expression: ast.expr

    @property
    def computes(self) -> bool:
        """True unless the expression is a single name or literal."""
        return not isinstance(self.expression, ast.Name | ast.Constant)


def parsed(code: str) -> ast.Module:
    """The syntax tree of a program, without Python's warnings about odd ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code)


def straight_lines(code: str) -> list[Line]:
    """The lines of a function that only assigns and returns; ValueError for any other program."""
    match parsed(code).body:
        case [ast.FunctionDef(body=body)]:
            return [_line(statement) for statement in body]
    raise ValueError("not a single function")


def _line(statement: ast.stmt) -> Line:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=expression):
            return Line(name, expression)
        case ast.Return(value=ast.expr() as expression):
            return Line("", expression)
    raise ValueError("neither an assignment nor a return")


def literals(*expressions: ast.expr) -> list[float]:
    """The numbers that stand in expressions."""
    nodes = (node for expression in expressions for node in ast.walk(expression))
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, int | float)]


def computed(lines: list[Line], swap: Swap) -> list[float]:
    """The values of the lines that compute something, in order, with some literals swapped."""
    known: dict[str, float] = {}
    values = []
    for line in lines:
        value = known[line.name] = _value(line.expression, known, swap)
        if isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise OverflowError(f"a number of more than {MOST_BITS} bits")
        if line.computes:
            values.append(value)
    return values


def _value(node: ast.expr, known: dict[str, float], swap: Swap) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return swap.get(value, value) if isinstance(value, int) else value
        case ast.Name(id=name):
            return known[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, known, swap)
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATIONS[type(op)](_value(left, known, swap), _value(right, known, swap))
        case ast.Call(func=ast.Name(id=name), args=[only], keywords=[]):
            return _FUNCTIONS[name](_value(only, known, swap))
    raise ValueError("not arithmetic")
