"""Text with the linear-time backbone (app:language-exp-details): delta-rule mixers, attention in every fourth block.

Everything else is from the attention recipe, so that a pair of runs differs only in the backbone.
"""

from dataclasses import replace

from dbtm.config import RunConfig
from dbtm.recipes import text


def owt_delta() -> RunConfig:
    """The paper's DBTM (lin) on OpenWebText, without refinement in the loop."""
    return _linear(text.owt(), "owt-delta")


def owt_delta_ril() -> RunConfig:
    """The paper's DBTM + ril (lin) on OpenWebText: its best numbers there."""
    return _linear(text.owt_ril(), "owt-delta-ril")


def text_delta() -> RunConfig:
    """`text` with the linear-time backbone, for long sequences."""
    return _linear(text.text(), "text-delta")


def _linear(base: RunConfig, name: str) -> RunConfig:
    return replace(base, recipe=name, model=replace(base.model, backbone="delta"))
