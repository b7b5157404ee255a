"""Traces of texts as one HTML file that replays them: no network, no fonts or scripts from elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any

from dbtm.viz.states import TextState, scores
from dbtm.viz.template import fill_template
from dbtm.viz.token_trace import Sample, kinds


def token_page(samples: Sequence[Sample], meta: Mapping[str, object], code: bool = False) -> str:
    """The page of some samples.

    `meta["title"]` is the heading; everything else in `meta` is shown under it, in order. `code` is set in a fixed
    width. Opened as `page.html#3`, the page starts at round 3 of the first sample.
    """
    data = [_sample(sample) for sample in samples]
    return fill_template("token_trace.html", "A text, refined", meta, data, CODE="code" if code else "prose")


def _sample(sample: Sample) -> dict[str, Any]:
    return {
        "question": sample.question,
        "facts": list(sample.facts.items()),
        "given": sample.given_L[sample.first :].astype(int).tolist(),
        "free": sample.free,
        "rounds": [_round(sample, state) for state in sample.settled_states()],
    }


def _round(sample: Sample, state: TextState) -> dict[str, Any]:
    """`kinds` holds the first letter of every token's kind."""
    score = scores(state.score_L)
    return {
        "parts": state.parts_L[sample.first :],
        "kinds": "".join(kind[0] for kind in kinds(sample, state)[sample.first :]),
        "committed": sample.committed(state),
        "score": None if score is None else score[sample.first :],
        "time": state.time,
    }
