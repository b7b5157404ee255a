"""Traces of texts as one HTML file that replays them: no network, no external fonts or scripts."""

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
    data = [sample_document(sample) for sample in samples]
    view = f'<div class="sheet {"code" if code else "prose"}" id="view"></div>'
    return fill_template("A text, refined", meta, data, view)


def sample_document(sample: Sample) -> dict[str, Any]:
    """A sample in the viewer's format."""
    return {
        "question": sample.question,
        "facts": list(sample.facts.items()),
        "given": sample.given_L[sample.first :].astype(int).tolist(),
        "free": sample.free,
        "rounds": [text_document(sample, state) for state in sample.settled_states()],
    }


def text_document(sample: Sample, state: TextState) -> dict[str, Any]:
    """A round in the viewer's format; `kinds` has the first letter of each token's kind."""
    score = scores(state.score_L)
    return {
        "parts": state.parts_L[sample.first :],
        "kinds": "".join(kind[0] for kind in kinds(sample, state)[sample.first :]),
        "committed": sample.committed(state),
        "score": None if score is None else score[sample.first :],
        "time": state.time,
    }
