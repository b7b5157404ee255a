"""The trace of a text in the terminal, round by round; `token_page` shows the same in a browser.

Three kinds of text, in the paper's colours: given (gray), committed (turquoise) and still refining (purple). Without
colour, as in a pipe or under NO_COLOR, brackets distinguish them: «given» committed ‹refining›. A position without a
token has a mark. Of a trace of many rounds, such as one token per round, a dozen are shown.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from dbtm.sampling import Round, Trace
from dbtm.viz.spell import BLANK, END, PAD
from dbtm.viz.states import TextState, left_out, progress_of, spaced


@dataclass(frozen=True)
class Sample:
    """One text and its rounds."""

    given_L: np.ndarray
    """Which tokens were given."""
    states: Sequence[TextState]
    """At least one: the last is the result."""
    question: str = ""
    """The given text that is not repeated in every round: `first` tokens."""
    first: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """Number of generated tokens."""
        return int((~self.given_L).sum())

    def committed(self, state: TextState) -> int | None:
        """Number of committed generated tokens; None if the method has no commits."""
        return None if state.committed_L is None else int((state.committed_L & ~self.given_L).sum())

    def settled_states(self) -> list[TextState]:
        """The states; if the method has no commits, the last one is fully committed."""
        return [*self.states[:-1], self.states[-1].settled()]


# -- from a trace ------------------------------------------------------------------------------------------------------


def sample_of(trace: Trace, b: int, spell: Callable[[np.ndarray], list[str]], vocab: int, **more: Any) -> Sample:
    """Sample b of a trace, its tokens spelled; without saved rounds, the result is the only state.

    `more` are fields of the Sample.
    """
    return Sample(trace.prompt[b], [text_state(round_, b, spell, vocab) for round_ in rounds_of(trace, b)], **more)


def text_state(round_: Round, b: int, spell: Callable[[np.ndarray], list[str]], vocab: int) -> TextState:
    """Sample b after a round, its tokens spelled."""
    blank_L = blanks(round_, b, vocab)
    committed_L, score_L = (None if x is None else x[b] for x in (round_.committed, round_.score))
    return TextState(spell(np.where(blank_L, -1, round_.tokens[b])), committed_L, score_L, round_.time, blank_L)


def blanks(round_: Round, b: int, vocab: int) -> np.ndarray:
    """Positions of sample b without a token yet, (L,): ids outside 0..vocab - 1 mean none, and a method with commits
    but without scores has no tokens beyond the committed ones.
    """
    tokens_L = round_.tokens[b]
    blank_L = (tokens_L < 0) | (tokens_L >= vocab)
    return blank_L if round_.committed is None or round_.score is not None else blank_L | ~round_.committed[b]


def rounds_of(trace: Trace, b: int) -> list[Round]:
    """The rounds of sample b: as many as its network evaluations, up to its last change.

    Samples of one batch may finish early, or begin late after a longer prompt.
    """
    if not trace.rounds or not trace.nfe[b]:
        return [Round(trace.tokens, np.ones_like(trace.prompt))]
    rounds, count = trace.rounds, min(int(trace.nfe[b]), len(trace.rounds))
    end = len(rounds)
    while end > count and _same(rounds[end - 1], rounds[end - 2], b):
        end -= 1
    return rounds[end - count : end]


def _same(one: Round, other: Round, b: int) -> bool:
    pairs = ((one.tokens, other.tokens), (one.committed, other.committed))
    return all(x is None or y is None or np.array_equal(x[b], y[b]) for x, y in pairs)


# -- how it looks ------------------------------------------------------------------------------------------------------


class Look(NamedTuple):
    """The style of one kind of text; the brackets are for output without colour."""

    style: str
    opening: str = ""
    closing: str = ""


LOOKS = {
    "given": Look("#8080a0", "«", "»"),
    "committed": Look("bold #0085B8"),
    "refining": Look("#6B67EE", "‹", "›"),
    "noise": Look("dim"),
}
_MARKS = {END: "end of text", PAD: "padding", BLANK: "nothing yet"}
_MANY = re.compile(rf"([{END}{PAD}{BLANK}])\1{{3,}}")


def kinds(sample: Sample, state: TextState) -> list[str]:
    """The kind of each token, a key of `LOOKS`; a character has the kind of its least settled token."""
    order, nowhere = list(LOOKS), np.zeros(len(state.parts_L), bool)
    committed_L = nowhere if state.committed_L is None else state.committed_L
    blank_L = nowhere if state.blank_L is None else state.blank_L
    out, unfinished = [], 0
    for part, given, committed, blank in zip(state.parts_L, sample.given_L, committed_L, blank_L, strict=True):
        level = 3 if blank else 0 if given else 1 if committed else 2
        if part:
            level, unfinished = max(level, unfinished), 0
        else:
            unfinished = max(level, unfinished)
        out.append(order[level])
    return out


def runs(sample: Sample, state: TextState, end: int | None = None) -> Iterator[tuple[str, str]]:
    """(kind, text) of neighbours of one kind, before position `end`; repeated marks are counted."""
    tokens = list(zip(kinds(sample, state), state.parts_L, strict=True))[sample.first : end]
    for kind, group in groupby((token for token in tokens if token[1]), key=lambda token: token[0]):
        text = "".join(part for _, part in group)
        yield kind, _MANY.sub(lambda mark: f"{mark[1]}×{len(mark[0])}", text)


def has_colour(console: Console) -> bool:
    return console.color_system is not None and not console.no_color


def result_text(sample: Sample, end: int | None = None) -> Text:
    """The last state before position `end`; only the given text is highlighted."""
    last = runs(sample, sample.states[-1], end)
    return Text.assemble(*((text, LOOKS[kind].style if kind == "given" else "") for kind, text in last))


@dataclass(frozen=True)
class TextTrace:
    """The rounds of a sample as a rich renderable: `console.print(TextTrace(sample))`."""

    sample: Sample

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        colour, seen, states = has_colour(console), set(), self.sample.settled_states()
        for number in spaced(len(states)):
            state = states[number - 1]
            pieces = list(runs(self.sample, state))
            seen |= {kind for kind, _ in pieces} | {mark for mark in _MARKS for _, text in pieces if mark in text}
            progress = progress_of(self.sample.committed(state), self.sample.free, state.time)
            yield Text.assemble((f"round {number}", "bold"), progress)
            yield Text.assemble(*((_bracketed(kind, text, colour), LOOKS[kind].style) for kind, text in pieces))
            yield Text()
        if left_out(len(states)):
            yield Text(left_out(len(states)), "dim")
        yield legend(seen, colour)


def legend(seen: set[str], colour: bool) -> Text:
    """The legend of the kinds of text and the marks present, in one line."""
    kinds_seen = [kind for kind in LOOKS if kind in seen and kind != "noise"]
    looks = [Text(_bracketed(kind, kind, colour), LOOKS[kind].style) for kind in kinds_seen]
    marks = [Text(f"{mark} {meaning}") for mark, meaning in _MARKS.items() if mark in seen]
    return Text("   ").join([*looks, *marks])


def _bracketed(kind: str, text: str, colour: bool) -> str:
    """Put brackets around the visible text: white space at the ends stays outside and shapes the lines."""
    if colour:
        return text
    core, look = text.strip() or text, LOOKS[kind]
    lead, _, tail = text.partition(core)
    return f"{lead}{look.opening}{core}{look.closing}{tail}"
