"""The refinement of a text in the terminal, round by round; `text_page` shows the same in a browser.

Three kinds of text, in the paper's colours: given (gray), committed (turquoise) and still refining (purple). Without
colour, as in a pipe or under NO_COLOR, brackets tell them apart: «given» committed ‹refining›.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from dbtm.viz.spell import END, PAD


class Round(NamedTuple):
    """A text after one network evaluation, token by token."""

    parts_L: list[str]
    """Every token's part of the text (dbtm.viz.spell)."""
    committed_L: np.ndarray
    score_L: np.ndarray


@dataclass(frozen=True)
class Sample:
    """One text and how it came about."""

    given_L: np.ndarray
    """Which tokens were given."""
    rounds: Sequence[Round]
    """At least one: the last is the result."""
    question: str = ""
    """What was given and is not shown again in every round: `first` tokens."""
    first: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return int((~self.given_L).sum())

    def done(self, now: Round) -> int:
        """How many of the generated tokens are committed."""
        return int((now.committed_L & ~self.given_L).sum())


class Look(NamedTuple):
    """How one kind of text is drawn; the brackets where there is no colour."""

    style: str
    opening: str = ""
    closing: str = ""


LOOKS = {
    "given": Look("#8080a0", "«", "»"),
    "committed": Look("bold #0085B8"),
    "refining": Look("#6B67EE", "‹", "›"),
}
_MARKS = {END: "end of text", PAD: "padding"}
_MANY = re.compile(rf"([{END}{PAD}])\1{{3,}}")


def kinds(sample: Sample, now: Round) -> list[str]:
    """The kind of every token, a key of `LOOKS`; a character is only as settled as the least of its tokens."""
    order = list(LOOKS)
    out, unfinished = [], 0
    for part, given, committed in zip(now.parts_L, sample.given_L, now.committed_L, strict=True):
        settled = 0 if given else 1 if committed else 2
        if part:
            settled, unfinished = max(settled, unfinished), 0
        else:
            unfinished = max(settled, unfinished)
        out.append(order[settled])
    return out


def runs(sample: Sample, now: Round) -> Iterator[tuple[str, str]]:
    """(kind, text) of neighbours of one kind; marks that repeat are counted."""
    tokens = list(zip(kinds(sample, now), now.parts_L, strict=True))[sample.first :]
    for kind, group in groupby((token for token in tokens if token[1]), key=lambda token: token[0]):
        text = "".join(part for _, part in group)
        yield kind, _MANY.sub(lambda mark: f"{mark[1]}×{len(mark[0])}", text)


def has_colour(console: Console) -> bool:
    return console.color_system is not None and not console.no_color


def result(sample: Sample) -> Text:
    """The last round; only what was given stands out."""
    last = runs(sample, sample.rounds[-1])
    return Text.assemble(*((text, LOOKS[kind].style if kind == "given" else "") for kind, text in last))


@dataclass(frozen=True)
class TextTrace:
    """What rich prints for the rounds of a sample: `console.print(TextTrace(sample))`."""

    sample: Sample

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        colour, seen = has_colour(console), set()
        for number, now in enumerate(self.sample.rounds, start=1):
            found = list(runs(self.sample, now))
            seen |= {kind for kind, _ in found} | {mark for mark in _MARKS for _, text in found if mark in text}
            counts = f"  {self.sample.done(now)}/{self.sample.free} committed"
            yield Text.assemble((f"round {number}", "bold"), counts)
            yield Text.assemble(*((_bracketed(kind, text, colour), LOOKS[kind].style) for kind, text in found))
            yield Text()
        yield legend(seen, colour)


def legend(seen: set[str], colour: bool) -> Text:
    """One line that explains the kinds of text and the marks that are there."""
    looks = [Text(_bracketed(kind, kind, colour), LOOKS[kind].style) for kind in LOOKS if kind in seen]
    marks = [Text(f"{mark} {meaning}") for mark, meaning in _MARKS.items() if mark in seen]
    return Text("   ").join([*looks, *marks])


def _bracketed(kind: str, text: str, colour: bool) -> str:
    """Brackets go around what can be seen: white space at the ends stays outside, where it shapes the lines."""
    if colour:
        return text
    core, look = text.strip() or text, LOOKS[kind]
    lead, _, tail = text.partition(core)
    return f"{lead}{look.opening}{core}{look.closing}{tail}"
