"""The refinement of texts as one HTML file that replays it: no network, no fonts or scripts from elsewhere."""

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from dbtm.viz.text import Round, Sample, kinds


def text_page(samples: Sequence[Sample], meta: Mapping[str, object], code: bool = False) -> str:
    """The page of some samples.

    `meta["title"]` is the heading; everything else in `meta` is shown under it, in order. `code` is set in a fixed
    width. Opened as `page.html#3`, the page starts at round 3 of the first sample.
    """
    facts = "".join(
        f"<div><dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in meta.items()
        if name != "title"
    )
    fields = {
        "TITLE": escape(str(meta.get("title", "A text, refined"))),
        "FACTS": facts,
        "CODE": "code" if code else "prose",
        "DATA": _data(samples),
    }
    # Split at the fields and join once, so that text such as @@DATA@@ inside a field stays what it is.
    pieces = files("dbtm.viz").joinpath("text.html").read_text(encoding="utf-8").split("@@")
    return "".join(fields[piece] if index % 2 else piece for index, piece in enumerate(pieces))


def _data(samples: Sequence[Sample]) -> str:
    """The samples as JSON that may stand inside a script element."""
    data = [
        {
            "question": sample.question,
            "facts": list(sample.facts.items()),
            "given": sample.given_L[sample.first :].astype(int).tolist(),
            "free": sample.free,
            "rounds": [_round(sample, now) for now in sample.rounds],
        }
        for sample in samples
    ]
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _round(sample: Sample, now: Round) -> dict[str, object]:
    """`kinds` holds the first letter of every token's kind."""
    shown = slice(sample.first, None)
    return {
        "parts": now.parts_L[shown],
        "kinds": "".join(kind[0] for kind in kinds(sample, now)[shown]),
        "committed": sample.done(now),
        "score": [round(float(s), 4) if math.isfinite(s) else None for s in now.score_L[shown]],
    }
