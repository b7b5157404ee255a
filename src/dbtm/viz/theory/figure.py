"""Common part of the theory's figures: the setting, the drawing with its numbers, and its files."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from dbtm.core.atomic import write_bytes
from dbtm.core.errors import UsageError
from dbtm.viz.theory.style import RC


class Setting(NamedTuple):
    """One position on the simplex."""

    p: tuple[float, ...]  # target probabilities of the V vertices
    sigma: float = 1.0  # scale of the prior
    a: float = 1.0  # exponent of the schedule alpha_t = (1 - t)^a


class Drawing(NamedTuple):
    """A figure and every number in it, as JSON-ready values."""

    figure: Figure
    numbers: dict[str, Any]


def check_setting(setting: Setting) -> Setting:
    """Return the setting with probabilities scaled to sum to exactly one; raise UsageError if it is invalid."""
    p, sigma, a = setting
    if len(p) < 2 or not all(np.isfinite(p)) or min(p) <= 0:
        raise UsageError(f"p needs at least two positive probabilities, got {', '.join(f'{v:g}' for v in p)}")
    if abs(sum(p) - 1.0) > 1e-6:
        raise UsageError(f"p must sum to one, got {sum(p):g}")
    if not (np.isfinite(sigma) and sigma > 0):
        raise UsageError(f"sigma must be positive, got {sigma:g}")
    if not (np.isfinite(a) and a >= 1):
        raise UsageError(f"a must be at least one, got {a:g}")
    return Setting(tuple(v / sum(p) for v in p), sigma, a)


def save_drawing(name: str, drawing: Drawing, setting: Setting, folder: Path) -> list[Path]:
    """Write NAME.png, NAME.svg and NAME.json in `folder`, each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {"figure": name, "setting": setting._asdict(), "numbers": drawing.numbers}
    with mpl.rc_context(RC):
        files = {
            "png": _image(drawing.figure, format="png", dpi=200),
            # No date in the SVG: the same setting gives the same bytes.
            "svg": _image(drawing.figure, format="svg", metadata={"Date": None}),
        }
    files["json"] = (json.dumps(record, indent=1, default=_to_json, allow_nan=False) + "\n").encode()
    paths = [folder / f"{name}.{suffix}" for suffix in files]
    for path, data in zip(paths, files.values(), strict=True):
        write_bytes(path, data)
    return paths


def _image(figure: Figure, **options: Any) -> bytes:
    data = BytesIO()
    figure.savefig(data, **options)
    return data.getvalue()


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")
