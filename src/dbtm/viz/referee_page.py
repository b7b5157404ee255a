"""The page of a comparison: one file, no requests; figures, tables, settings, and traces side by side."""

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from dbtm.core.terminal import visible
from dbtm.viz.states import GridState
from dbtm.viz.sudoku_page import grid_document
from dbtm.viz.template import as_script_data, digest, join_modules, read_asset
from dbtm.viz.theory.style import INK, RC, drawn
from dbtm.viz.token_page import sample_document
from dbtm.viz.token_trace import Sample

MODULES = ("dom.js", "player.js", "grid.js", "sheet.js", "referee.js")
STYLES = ("base.css", "viewer.css", "referee.css")


class Shown(NamedTuple):
    """One method's trace, for its view."""

    label: str
    facts: str
    document: dict[str, Any]


def grid_trace(label: str, facts: str, puzzle_C: Sequence[int], states: Sequence[GridState]) -> Shown:
    rounds = [grid_document(state) for state in (*states[:-1], states[-1].settled())]
    return Shown(label, facts, {"puzzle": [int(x) for x in puzzle_C], "rounds": rounds})


def text_trace(label: str, facts: str, sample: Sample) -> Shown:
    return Shown(label, facts, sample_document(sample))


class Words(NamedTuple):
    """A text table."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def referee_page(
    title: str,
    lead: Sequence[str],
    figures: Sequence[tuple[str, Figure]],
    tables: Sequence[Words],
    traces: Sequence[Shown],
    settings: Mapping[str, Any],
) -> str:
    """`lead` are the first lines; `figures` have a caption each."""
    style, script = "\n".join(map(read_asset, STYLES)), join_modules(MODULES)
    fields = {
        "TITLE": escape(title),
        "LEAD": "".join(f"<p>{escape(line)}</p>" for line in lead),
        "FIGURES": "".join(_figure(caption, figure) for caption, figure in figures),
        "TABLES": "".join(map(_table, tables)),
        "SETTINGS": escape(json.dumps(settings, indent=1)),
        "DATA": as_script_data([trace._asdict() for trace in traces]),
        "STYLE": style,
        "SCRIPT": script,
        "SCRIPT_SHA": digest(script),
    }
    parts = read_asset("referee.html").split("@@")
    return visible("".join(fields[part] if index % 2 else part for index, part in enumerate(parts)))


def inline_svg(figure: Figure) -> str:
    """The figure without a background, its lines in the colour of the page's text."""
    with mpl.rc_context(RC):
        data = drawn(figure, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = data.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text, count=3)
    for ink in (INK, "#000000"):
        text = text.replace(ink, "currentColor")
    return text


def _figure(caption: str, figure: Figure) -> str:
    drawn = f'<div class="wide">{inline_svg(figure)}</div>'
    return f'<figure class="card">{drawn}<figcaption>{escape(caption)}</figcaption></figure>'


def _table(table: Words) -> str:
    head = "".join(f'<th scope="col">{escape(word)}</th>' for word in table.head)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(word)}</td>" for word in row[1:])}</tr>'
        for row in table.rows
    )
    note = f'<p class="hint">{escape(table.note)}</p>' if table.note else ""
    inside = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    drawn = f'<div class="wide"><table class="numbers">{inside}</table></div>'
    return f'<section class="card"><h3>{escape(table.title)}</h3>{drawn}{note}</section>'
