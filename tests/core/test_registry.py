"""Names to classes: the user's next to the package's, which are imported on demand."""

import subprocess
import sys

import pytest

from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS, TASKS, Registry


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    """A registry whose package has two classes in separate modules."""
    package = tmp_path / "shapes_for_test"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from dbtm.core.registry import Registry\n"
        "BUILT_IN = {'circle': 'shapes_for_test.circle', 'square': 'shapes_for_test.square'}\n"
        "SHAPES = Registry('shape', 'shapes_for_test')\n"
    )
    for name in ("circle", "square"):
        (package / f"{name}.py").write_text(
            f"from shapes_for_test import SHAPES\n@SHAPES.add\nclass Shape:\n    name = '{name}'\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    import shapes_for_test

    yield shapes_for_test.SHAPES
    for name in [name for name in sys.modules if name.startswith("shapes_for_test")]:
        del sys.modules[name]


def test_those_of_the_package_are_imported_on_demand(shapes):
    assert shapes.names() == ["circle", "square"]
    assert "shapes_for_test.circle" not in sys.modules
    found = shapes.get("circle")
    assert found.name == "circle"
    assert shapes.get("circle") is found
    assert "shapes_for_test.square" not in sys.modules


def test_ones_own_stand_beside_them(shapes):
    @shapes.add
    class Triangle:
        name = "triangle"

    assert shapes.get("triangle") is Triangle
    assert shapes.names() == ["circle", "square", "triangle"]
    assert "shapes_for_test.circle" not in sys.modules


def test_unknown_names_and_classes_without_one(shapes):
    with pytest.raises(UsageError, match=r"unknown shape 'sqare'; did you mean 'square'\?.*be imported") as e:
        shapes.get("sqare")
    assert "\n" not in str(e.value)
    with pytest.raises(UsageError, match="unknown shape 'xyz'; choose one of: circle, square"):
        shapes.get("xyz")

    class Nameless:
        name = ""

    with pytest.raises(UsageError, match="the shape Nameless needs a name"):
        shapes.add(Nameless)


@pytest.mark.parametrize("registry", [TASKS, METHODS], ids=["tasks", "methods"])
def test_every_name_of_the_package_is_a_class_of_that_name(registry: Registry):
    assert registry.built_in()
    for name in registry.built_in():
        assert registry.get(name).name == name


def test_a_run_imports_its_own_task_and_method_alone():
    code = (
        "import sys; from dbtm.recipes import recipe; recipe('simplex'); "
        "names = [n for n in sys.modules if n.startswith(('dbtm.tasks.', 'dbtm.methods.'))]; print(*sorted(names))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert {"dbtm.tasks.toy", "dbtm.methods.dbtm.training"} <= loaded
    assert not {"dbtm.tasks.own", "dbtm.tasks.sudoku", "dbtm.tasks.text"} & loaded
    assert not {"dbtm.methods.ar", "dbtm.methods.mdlm"} & loaded
