"""The allowed parts of a program. Anything else is refused before the program runs.

It lists what is allowed, never what is forbidden: arithmetic, functions, loops, conditions, containers, some built-in
functions, and imports of two modules written in C. Allowed attributes are those of numbers, strings and containers that
give access to nothing else: no underscores, no `format`, no frames, no classes, no modules within modules.
"""

import _ast
import builtins
import itertools
import math

MODULES = {"math": math, "itertools": itertools}
PUBLIC = {name: frozenset(n for n in dir(module) if not n.startswith("_")) for name, module in MODULES.items()}

BUILTINS = frozenset(
    """abs all any bin bool chr complex dict divmod enumerate filter float format frozenset hex int isinstance iter len
    list map max min next oct ord pow print range repr reversed round set slice sorted str sum tuple zip
    ArithmeticError AssertionError Exception IndexError KeyError LookupError NameError NotImplementedError OverflowError
    RecursionError RuntimeError StopIteration TypeError UnboundLocalError ValueError ZeroDivisionError""".split()  # noqa: SIM905
)
METHODS = frozenset(
    """add append as_integer_ratio bit_length capitalize clear copy count difference discard endswith extend find get
    index insert intersection is_integer isalpha isdecimal isdigit isnumeric issubset issuperset items join keys lower
    lstrip pop popitem remove replace reverse rfind rstrip setdefault sort split splitlines startswith strip
    symmetric_difference title union update upper values zfill""".split()  # noqa: SIM905
)
ATTRIBUTES = METHODS.union(*PUBLIC.values())
NODES = frozenset(
    """Module FunctionDef Lambda arguments arg Return Assign AugAssign AnnAssign For While If IfExp Pass Break Continue
    Expr Raise Try ExceptHandler Assert Global Nonlocal Import ImportFrom alias
    Constant Name Load Store Attribute Subscript Slice Starred Call keyword NamedExpr JoinedStr FormattedValue
    List Tuple Set Dict ListComp SetComp DictComp GeneratorExp comprehension
    BinOp UnaryOp BoolOp Compare Add Sub Mult Div FloorDiv Mod Pow MatMult LShift RShift BitOr BitXor BitAnd
    UAdd USub Not Invert And Or Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn""".split()  # noqa: SIM905
)
DUNDER_NAMES = frozenset({"__name__"})  # `if __name__ == "__main__":` is harmless and common


def refusal(tree: _ast.AST) -> str | None:
    """Why the program is refused, or None if it may run."""
    bound: set[str] = set()
    loaded: set[str] = set()
    for node in walk(tree):
        reason = _refuse(node)
        if reason is not None:
            return f"line {getattr(node, 'lineno', '?')}: {reason}"
        if isinstance(node, _ast.Name):
            (loaded if isinstance(node.ctx, _ast.Load) else bound).add(node.id)
        elif isinstance(node, _ast.FunctionDef):
            bound.add(node.name)
        elif isinstance(node, _ast.arg):
            bound.add(node.arg)
        elif isinstance(node, _ast.alias):
            bound.add(node.asname or node.name)
        elif isinstance(node, _ast.ExceptHandler) and node.name is not None:
            bound.add(node.name)
    # A program may bind its own `input`. Unbound names would raise NameError; this message is clearer.
    reached = sorted((loaded - bound - BUILTINS) & set(dir(builtins)) - DUNDER_NAMES)
    return f"the built-in {reached[0]}" if reached else None


def walk(tree: _ast.AST) -> list[_ast.AST]:
    """All nodes, in order, without recursion, since a hostile tree may be deep."""
    refused: list[_ast.AST] = []
    left: list[object] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left.extend(reversed(node))
        elif isinstance(node, _ast.AST):
            refused.append(node)
            left.extend(getattr(node, field, None) for field in reversed(node._fields))
    return refused


def _refuse(node: _ast.AST) -> str | None:
    """Why a single node is refused, or None."""
    kind = type(node).__name__
    if kind not in NODES:
        return f"the construct {kind}"
    if getattr(node, "decorator_list", None) or getattr(node, "type_params", None):
        return "decorators or type parameters"
    for name in _identifiers(node):
        if name.startswith("__") and not (kind == "Name" and name in DUNDER_NAMES):
            return f"the name {name}"
    if isinstance(node, _ast.Attribute) and (node.attr not in ATTRIBUTES or not isinstance(node.ctx, _ast.Load)):
        return f"the attribute {node.attr}"
    if isinstance(node, _ast.Import):
        return next((f"import {alias.name}" for alias in node.names if alias.name not in MODULES), None)
    if isinstance(node, _ast.ImportFrom):
        public = PUBLIC.get(node.module or "", frozenset()) if not node.level else frozenset()
        return next(
            (f"import of {alias.name} from {node.module}" for alias in node.names if alias.name not in public), None
        )
    return None


def _identifiers(node: _ast.AST) -> list[str]:
    """Every name in a node, except the text of constants."""
    if isinstance(node, _ast.Constant):
        return []
    values = [getattr(node, field, None) for field in node._fields]
    items = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return [item for item in items if isinstance(item, str)]
