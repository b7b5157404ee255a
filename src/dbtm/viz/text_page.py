"""The refinement of texts as one HTML file that replays it: no network, no fonts or scripts from elsewhere."""

import math
from collections.abc import Mapping, Sequence

from dbtm.viz.template import page
from dbtm.viz.text import Round, Sample, kinds


def text_page(samples: Sequence[Sample], meta: Mapping[str, object], code: bool = False) -> str:
    """The page of some samples.

    `meta["title"]` is the heading; everything else in `meta` is shown under it, in order. `code` is set in a fixed
    width. Opened as `page.html#3`, the page starts at round 3 of the first sample.
    """
    return page("text.html", "A text, refined", meta, _data(samples), CODE="code" if code else "prose")


def _data(samples: Sequence[Sample]) -> list[dict[str, object]]:
    return [
        {
            "question": sample.question,
            "facts": list(sample.facts.items()),
            "given": sample.given_L[sample.first :].astype(int).tolist(),
            "free": sample.free,
            "rounds": [_round(sample, now) for now in sample.rounds],
        }
        for sample in samples
    ]


def _round(sample: Sample, now: Round) -> dict[str, object]:
    """`kinds` holds the first letter of every token's kind."""
    shown = slice(sample.first, None)
    return {
        "parts": now.parts_L[shown],
        "kinds": "".join(kind[0] for kind in kinds(sample, now)[shown]),
        "committed": sample.done(now),
        "score": [round(float(s), 4) if math.isfinite(s) else None for s in now.score_L[shown]],
    }
