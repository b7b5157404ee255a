"""Run one program in the confined process, and report the outcome.

Kinds of a report: `int`, `float` and `str` have a value; `parse`, `refused`, `missing`, `type`, `nonfinite`, `memory`
and `crash` are kinds of failure.
"""

import __future__

import _ast
import builtins
import sys
import unicodedata  # noqa: F401  (the compiler needs it after confinement, when nothing can be loaded)

from .allowlist import BUILTINS, MODULES, refusal

ENTRY = "simple_math_problem"
MOST_TEXT = 200  # characters of a report; the runner reads only so much


def run(source: bytes) -> tuple[str, str]:
    """(kind, text): the value as text, or the error."""
    try:
        flags = __future__.annotations.compiler_flag  # annotations are not evaluated
        text = source.decode("utf-8").removeprefix("\ufeff")  # with bytes, Python would follow `# coding: latin-1`
        tree = compile(text, "<program>", "exec", _ast.PyCF_ONLY_AST | flags, dont_inherit=True)
        reason = refusal(tree)
        if reason is not None:
            return "refused", reason[:MOST_TEXT]
        code = compile(tree, "<program>", "exec", flags, dont_inherit=True)
    except Exception as error:  # includes several errors of too deep nesting
        return "parse", describe(error)
    sys.addaudithook(_Refuse(code))
    return call(code, {"__name__": "__main__", "__builtins__": _builtins(), **MODULES}, last_function(tree))


def last_function(tree: _ast.Module) -> str:
    """The name of a module's last function, for a program without `simple_math_problem`."""
    names = [node.name for node in tree.body if isinstance(node, _ast.FunctionDef)]
    return names[-1] if names else ENTRY


def call(code, namespace: dict, last: str) -> tuple[str, str]:
    """Execute a module's code, then its function (`simple_math_problem`, or the last), and return the outcome.

    Only this function executes generated code: this process is already confined (`confine`), and the code has passed
    the allow-list.
    """
    try:
        exec(code, namespace)
        function = namespace.get(ENTRY) or namespace.get(last)
        if function is None:
            return "missing", "the program defines no function"
        return classify(function())
    except MemoryError:
        return "memory", "more memory than the limit"
    except BaseException as error:
        return "crash", describe(error)


def classify(value: object) -> tuple[str, str]:
    """A returned value as text. Only exact types count, so that reading the answer runs no code of the program."""
    if type(value) is int:
        try:
            float(value)
        except OverflowError:
            return "nonfinite", "an integer too large"
        return "int", str(value)
    if type(value) is float:
        return ("float", repr(value)) if value - value == 0 else ("nonfinite", repr(value))
    if type(value) is str:
        return ("str", value) if len(value) <= MOST_TEXT else ("type", f"returned a text of {len(value)} characters")
    return "type", f"returned {type(value).__name__}"


def describe(error: BaseException) -> str:
    """The exception in one line."""
    try:
        return f"{type(error).__name__}: {error}"[:MOST_TEXT]
    except BaseException:
        return "an exception that cannot be shown"


def _builtins() -> dict:
    return {name: getattr(builtins, name) for name in BUILTINS} | {
        "__import__": _import,
        "None": None,
        "True": True,
        "False": False,
    }


def _import(name, globals=None, locals=None, fromlist=(), level=0):
    """The two modules of the allow-list, which are already loaded."""
    if level or name not in MODULES:
        raise ImportError(f"{name} cannot be imported here")
    return MODULES[name]


class _Refuse:
    """A hook that refuses every event Python audits (files, imports, frames, code ...); it cannot be removed."""

    def __init__(self, code):
        self.code = code

    def __call__(self, event: str, arguments: tuple) -> None:
        if event == "exec" and arguments[0] is self.code:
            return
        raise PermissionError(f"{event} is not allowed")
