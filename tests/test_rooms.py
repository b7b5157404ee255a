"""The house: which room may import which. Imports inside functions and under TYPE_CHECKING count."""

import ast
from pathlib import Path

import dbtm

ROOT = Path(dbtm.__file__).parent
ORDER = (
    "core", "simplex", "kernels", "losses", "theory", "sandbox", "tasks", "config", "nn", "sampling", "methods",
    "checkpoint", "train", "evals", "viz", "recipes", "service", "bench", "studio", "cli", "__main__",
)  # fmt: skip
"""From the ground up: a room imports rooms before it in this list, and none after it."""
FORBIDDEN = {
    "core": {*ORDER},
    "theory": {*ORDER} - {"core", "simplex"},
    "tasks": {*ORDER} - {"core", "sandbox"},
    "studio": {*ORDER} - {"core", "viz", "service"},
    "cli": set(),
}
"""What a room must not import although it comes before it."""


def edges():
    """(importing module, line, room, imported room) of every import within the package."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:  # relative ones stay within their room
                names = [f"dbtm.{a.name}" for a in node.names] if node.module == "dbtm" else [node.module or ""]
            for name in names:
                there = name.split(".")[1:2]
                if name.startswith("dbtm.") and there[0] != parts[0] and there[0] != "__version__":
                    yield "/".join(parts), node.lineno, parts[0], there[0]


def test_every_import_points_down():
    wrong = [
        f"{module}.py:{line} imports {there}: {here} may not"
        for module, line, here, there in edges()
        if here != "__init__" and (ORDER.index(there) >= ORDER.index(here) or there in FORBIDDEN.get(here, ()))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_room_has_its_place():
    rooms = {p.name if p.is_dir() else p.stem for p in ROOT.iterdir() if p.suffix in ("", ".py")}
    assert rooms - {"__init__", "__pycache__", "models", "results", "py.typed", "py"} == {*ORDER}


def test_no_command_imports_another():
    shared = {"common", "console", "files", "options", "tables"}
    commands = {p.stem for p in (ROOT / "cli").glob("*.py")} - shared - {"__init__"}
    wrong = []
    for path in (ROOT / "cli").glob("*.py"):
        if path.stem == "__init__":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dbtm.cli"):
                names = [node.module.rpartition(".")[2], *(alias.name for alias in node.names)]
                wrong += [f"cli/{path.name}:{node.lineno} imports {name}" for name in names if name in commands]
    assert not wrong, "\n".join(wrong)


def test_nothing_but_the_method_and_its_tools_knows_the_map():
    """Trainer, loader, evaluations and commands know a Backbone and a Method."""
    may = ("methods/dbtm/", "__init__")
    wrong = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if "TransportMap" in path.read_text(encoding="utf-8")
        and not str(path.relative_to(ROOT).with_suffix("")).startswith(may)
    ]
    assert not wrong


def test_the_library_does_not_speak_of_flags():
    """Words of a command line, `--flag`, belong to cli/ alone (docstrings and comments left aside)."""
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0]
        if room in ("cli", "sandbox") or path.stem in ("smollm2", "provenance"):  # these call other programs
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
        for node in ast.walk(tree):
            words = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
            if words and any(w.startswith("--") and w[2:3].isalpha() for w in node.value.split()):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.value!r}")
    assert not wrong, "\n".join(wrong)
