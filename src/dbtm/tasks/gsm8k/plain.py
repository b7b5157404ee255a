"""Programs without comments, docstrings and personal spacing: shorter, and the same whoever wrote them."""

import ast

from dbtm.tasks.gsm8k.arithmetic import parsed
from dbtm.tasks.gsm8k.data import Example


def plain(example: Example) -> Example | None:
    """The example with its program printed anew from its syntax tree; None where it is no program."""
    try:
        tree = parsed(example.code)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        return example._replace(code=ast.unparse(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
