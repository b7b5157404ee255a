"""Text with the linear-time backbone (app:language-exp-details): delta-rule mixers, attention in every fourth block.

Everything else is the attention recipe's, so that a pair of runs differs in the backbone alone.
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
    """`text` with the linear-time backbone; it pays on sets of long sequences."""
    return _linear(text.text(), "text-delta")


def _linear(base: RunConfig, name: str) -> RunConfig:
    return replace(base, recipe=name, model=replace(base.model, backbone="delta"))
