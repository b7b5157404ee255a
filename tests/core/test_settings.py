"""Settings: strict reading, with one line per mistake; writing gives the same values; every field is explained."""

import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import ClassVar, Literal

import pytest

from dbtm.config import OptimConfig, TrainConfig
from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS, TASKS
from dbtm.core.settings import Section, changed_keys, meanings, read, read_value, to_dict
from dbtm.recipes import RECIPES, recipe


@dataclass(frozen=True)
class Inner(Section):
    section: ClassVar[str] = "outer.inner"

    share: float = 0.5
    """A share."""

    def __post_init__(self):
        self.in_range(0, 1, "share")


@dataclass(frozen=True)
class Outer(Section):
    section: ClassVar[str] = "outer"

    count: int
    """How many."""
    kind: Literal["plain", "fancy"] = "plain"
    """Which."""
    name: str = ""
    """Its name, in a string
    of two lines.
    """
    switch: bool = False
    """On or off."""
    limit: float | None = None
    """At most this; null: no limit."""
    pair: tuple[int, float] = (1, 2.0)
    """Two numbers."""
    table: tuple[tuple[int, float], ...] = ()
    """Any number of pairs."""
    inner: Inner = field(default_factory=Inner)
    """A section within."""

    def __post_init__(self):
        self.positive("count")


FULL = {
    "count": 3,
    "kind": "fancy",
    "name": "x",
    "switch": True,
    "limit": 2.5,
    "pair": [4, 5.0],
    "table": [[1, 0.5], [2, 0.25]],
    "inner": {"share": 0.75},
}


def test_plain_values_and_back():
    made = read(Outer, FULL, "outer")
    assert made == Outer(3, "fancy", "x", True, 2.5, (4, 5.0), ((1, 0.5), (2, 0.25)), Inner(0.75))
    assert to_dict(made) == FULL
    assert read(Outer, {"count": 1}) == Outer(1)


def test_whole_numbers_are_taken_for_real_ones_and_not_the_other_way_round():
    assert isinstance(read(Outer, {"count": 1, "limit": 2}).limit, float)
    assert read(Outer, {"count": 1, "limit": None}).limit is None
    with pytest.raises(UsageError, match=r"count=1.0 must be of type int"):
        read(Outer, {"count": 1.0})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "missing key 'outer.count'"),
        ({"count": 1, "knid": "plain"}, "unknown key 'outer.knid'; did you mean 'kind'?"),
        ({"count": 1, "inner": {"shore": 1}}, "unknown key 'outer.inner.shore'; did you mean 'share'?"),
        ({"count": 1, 5: 1}, "unknown key 'outer.5'; choose one of: count, inner, kind"),
        ({"count": True}, "outer.count=True must be of type int"),
        ({"count": None}, "outer.count=None must be of type int"),
        ({"count": "1"}, "outer.count='1' must be of type int"),
        ({"count": [1]}, "outer.count=[1] must be of type int"),
        ({"count": 10**30}, "outer.count is an integer of"),
        ({"count": 0}, "outer.count=0 must be positive"),
        ({"count": 1, "kind": "plian"}, "outer.kind='plian' is not a choice; did you mean 'plain'?"),
        ({"count": 1, "kind": ["plain"]}, "outer.kind=['plain'] is not a choice"),
        ({"count": 1, "name": 5}, "outer.name=5 must be of type str"),
        ({"count": 1, "switch": 1}, "outer.switch=1 must be of type bool"),
        ({"count": 1, "switch": "true"}, "outer.switch='true' must be of type bool"),
        ({"count": 1, "limit": True}, "outer.limit=True must be of type float"),
        ({"count": 1, "limit": math.nan}, "outer.limit=nan must be a finite number"),
        ({"count": 1, "limit": -math.inf}, "outer.limit=-inf must be a finite number"),
        ({"count": 1, "pair": 4}, "outer.pair=4 must be a list, such as [1,2]"),
        ({"count": 1, "pair": "12"}, "outer.pair='12' must be a list"),
        ({"count": 1, "pair": [1]}, "outer.pair=[1] must have 2 entries"),
        ({"count": 1, "pair": [1.5, 2]}, "outer.pair[0]=1.5 must be of type int"),
        ({"count": 1, "table": [[1, 0.5], [2]]}, "outer.table[1]=[2] must have 2 entries"),
        ({"count": 1, "table": [[1, "x"]]}, "outer.table[0][1]='x' must be of type float"),
        ({"count": 1, "inner": 3}, "outer.inner must be a JSON object, not 3"),
        ({"count": 1, "inner": {"share": 2}}, "outer.inner.share=2.0 must be between 0 and 1"),
        ([1], "outer must be a JSON object, not [1]"),
        (None, "outer must be a JSON object, not None"),
    ],
    ids=str,
)
def test_every_kind_of_mistake_is_one_line_that_names_it(values, message):
    with pytest.raises(UsageError) as caught:
        read(Outer, values, "outer")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_section_without_a_name_is_the_configuration():
    with pytest.raises(UsageError, match="the configuration must be a JSON object, not 5"):
        read(Outer, 5)
    assert read_value(int, 4, "count") == 4


@pytest.mark.parametrize(
    ("check", "arguments", "message"),
    [
        ("positive", ("share",), "outer.inner.share=0.0 must be positive"),
        ("not_negative", ("share",), None),
        ("in_range", (0.5, 1, "share"), "outer.inner.share=0.0 must be between 0.5 and 1"),
        ("up_to_one", ("share",), "outer.inner.share=0.0 must be above 0 and at most 1"),
    ],
)
def test_checks_of_sections(check, arguments, message):
    section = Inner(share=0.0)
    if message is None:
        getattr(section, check)(*arguments)
        object.__setattr__(section, "share", -1.0)
        message = "outer.inner.share=-1.0 must not be negative"
    with pytest.raises(UsageError, match=message.replace(".", r"\.")):
        getattr(section, check)(*arguments)


def test_meanings_are_the_strings_below_the_fields():
    assert meanings(Outer)["count"] == "How many."
    assert meanings(Outer)["name"] == "Its name, in a string of two lines."
    assert meanings(Outer).keys() == {f.name for f in fields(Outer)}

    @dataclass(frozen=True)
    class More(Outer):
        extra: int = 1
        """Of the subclass."""
        bare: int = 2

    assert meanings(More)["count"] == "How many."
    assert meanings(More)["extra"] == "Of the subclass."
    assert "bare" not in meanings(More)


def test_changed_keys_are_dotted_names():
    old, new = to_dict(Outer(1)), to_dict(Outer(2, inner=Inner(0.25), pair=(1, 3.0)))
    assert changed_keys(old, new) == ["count", "pair", "inner.share"]
    assert changed_keys(old, new, "a", skip={"a.count"}.__contains__) == ["a.pair", "a.inner.share"]
    assert changed_keys(old, old) == []
    assert changed_keys({"a": {"b": 1}}, {"c": 2}) == ["a", "c"]


def sections_of(settings):
    """The classes of a section and of all its subsections."""
    yield type(settings)
    for f in fields(settings):
        if is_dataclass(getattr(settings, f.name)):
            yield from sections_of(getattr(settings, f.name))


def all_sections():
    """Every section of any run of this package."""
    for name in RECIPES:
        run = recipe(name)
        for part in (run.task, run.model, run.optim, run.train):
            yield from sections_of(part)
    for name in METHODS.built_in():
        yield from sections_of(METHODS.get(name).Config())
        yield from sections_of(METHODS.get(name).Options())
    for name in TASKS.built_in():
        yield from sections_of(TASKS.get(name)())


SECTIONS = sorted(set(all_sections()), key=lambda cls: f"{cls.__module__}.{cls.__qualname__}")


def test_all_of_them_are_looked_at():
    modules = {cls.__module__ for cls in SECTIONS}
    assert {OptimConfig, TrainConfig} <= set(SECTIONS)
    assert {"dbtm.methods.ar", "dbtm.methods.mdlm", "dbtm.methods.dbtm.config", "dbtm.tasks.own.task"} <= modules
    assert len(SECTIONS) >= 16


@pytest.mark.parametrize("cls", SECTIONS, ids=lambda cls: f"{cls.__module__}.{cls.__qualname__}")
def test_every_setting_says_what_it_means(cls):
    silent = [f.name for f in fields(cls) if not meanings(cls).get(f.name)]
    assert not silent, f"{cls.__qualname__}: a string below {', '.join(silent)} should explain the setting"
    assert all(meaning.endswith((".", ")", ":")) for meaning in meanings(cls).values())
