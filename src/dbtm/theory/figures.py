"""The figures of the theory lab by name: what each one shows, which options it reads, and how it is saved.

A figure is a function Setting -> Drawing: a `draw_*` module and an entry in FIGURES.
"""

import importlib
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from dbtm.core.atomic import write_bytes
from dbtm.core.errors import UsageError, nearest
from dbtm.theory.style import RC


class Setting(NamedTuple):
    """One position: target p, prior scale sigma, schedule exponent a."""

    p: tuple[float, ...]
    sigma: float = 1.0
    a: float = 1.0


class Drawing(NamedTuple):
    """A figure and every number in it, as JSON-ready values."""

    figure: Figure
    numbers: dict[str, Any]


class Entry(NamedTuple):
    """A figure of the catalogue. `V` is the number of vertices it can draw, None for any."""

    about: str
    draw: str  # module:function, imported when it is drawn
    default: Setting
    reads: frozenset[str]
    V: int | None = None


_TRIANGLE = Setting((0.5, 0.3, 0.2))
_ALL = frozenset({"p", "sigma", "a"})

FIGURES: dict[str, Entry] = {
    "simplex": Entry(
        "the autonomous field and its transport map on the 2-simplex",
        "draw_simplex:simplex",
        _TRIANGLE,
        _ALL,
        V=3,
    ),
    "dynamics": Entry(
        "autonomous and time-dependent flow, panels A-H",
        "draw_dynamics:dynamics",
        _TRIANGLE,
        _ALL,
        V=3,
    ),
    "straightness": Entry(
        "path over chord against V, for both flows",
        "draw_straightness:straightness",
        _TRIANGLE,
        frozenset({"sigma"}),
    ),
    "vertex": Entry(
        "speed of arrival at a vertex (a jump for a = 1, continuous for a > 1) and hitting times",
        "draw_vertex:vertex",
        _TRIANGLE,
        frozenset({"p", "sigma"}),
    ),
    "basins": Entry(
        "attractors of b_t on four vertices and their basins",
        "draw_basins:basins",
        Setting((0.4, 0.38, 0.2, 0.02)),
        _ALL,
        V=4,
    ),
    "births": Entry(
        "when the attractors of b_t appear, against the formula",
        "draw_births:births",
        _TRIANGLE,
        frozenset({"sigma"}),
    ),
    "phase": Entry(
        "argmax recovery around the commitment time t*",
        "draw_phase:phase",
        _TRIANGLE,
        frozenset({"sigma", "a"}),
    ),
    "learned": Entry(
        "the trained one-step map against the exact one, by anchor time and V (trains for a few minutes)",
        "draw_learned:learned",
        _TRIANGLE,
        frozenset({"p"}),
    ),
}


def find(name: str) -> Entry:
    """The entry of that name, or one line that names the closest."""
    if name not in FIGURES:
        raise UsageError(f"there is no theory figure '{name}'{nearest(name, FIGURES)}")
    return FIGURES[name]


def setting_for(
    name: str, p: tuple[float, ...] | None = None, sigma: float | None = None, a: float | None = None
) -> Setting:
    """The setting of a figure with the given options in place of its own, or a UsageError that says what is wrong."""
    entry = find(name)
    given: dict[str, Any] = {key: value for key, value in (("p", p), ("sigma", sigma), ("a", a)) if value is not None}
    for key in sorted(set(given) - entry.reads):
        raise UsageError(f"figure '{name}' does not read --{key}; it reads {_options(entry.reads)}")
    setting = check_setting(entry.default._replace(**given))
    if entry.V is not None and len(setting.p) != entry.V:
        raise UsageError(f"figure '{name}' draws {entry.V} vertices; --p gives {len(setting.p)} probabilities")
    return setting


def check_setting(setting: Setting) -> Setting:
    """The setting, its probabilities scaled to sum to exactly one; UsageError where it makes no sense."""
    p, sigma, a = setting
    if len(p) < 2 or not all(np.isfinite(p)) or min(p) <= 0:
        raise UsageError(f"--p needs at least two positive probabilities, got {', '.join(f'{v:g}' for v in p)}")
    if abs(sum(p) - 1.0) > 1e-6:
        raise UsageError(f"--p must sum to one, got {sum(p):g}")
    if not (np.isfinite(sigma) and sigma > 0):
        raise UsageError(f"--sigma must be positive, got {sigma:g}")
    if not (np.isfinite(a) and a >= 1):
        raise UsageError(f"--a must be at least one, got {a:g}")
    return Setting(tuple(v / sum(p) for v in p), sigma, a)


def draw(name: str, setting: Setting | None = None) -> Drawing:
    """Draw a figure of the catalogue, at its own setting unless told otherwise (see `setting_for`)."""
    module, function = find(name).draw.split(":")
    make: Callable[[Setting], Drawing] = getattr(importlib.import_module(f"dbtm.theory.{module}"), function)
    with mpl.rc_context(RC):
        return make(find(name).default if setting is None else setting)


def save(name: str, drawing: Drawing, setting: Setting, out: Path) -> list[Path]:
    """Write NAME.png, NAME.svg and NAME.json under `out`, each complete or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    record = {"figure": name, "setting": setting._asdict(), "numbers": drawing.numbers}
    with mpl.rc_context(RC):
        # No date in the SVG: the same setting gives the same bytes.
        forms: dict[str, dict[str, Any]] = {"png": {"dpi": 200}, "svg": {"metadata": {"Date": None}}}
        files = {form: _drawn(drawing.figure, format=form, **options) for form, options in forms.items()}
    files["json"] = (json.dumps(record, indent=1, default=_plain, allow_nan=False) + "\n").encode()
    paths = [out / f"{name}.{form}" for form in files]
    for path, data in zip(paths, files.values(), strict=True):
        write_bytes(path, data)
    return paths


def _drawn(figure: Figure, **options: Any) -> bytes:
    data = BytesIO()
    figure.savefig(data, **options)
    return data.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _options(names: frozenset[str]) -> str:
    return ", ".join(f"--{name}" for name in sorted(names))
