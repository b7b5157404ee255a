"""Pages that replay results offline, and the texts that pages and terminals share."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dbtm.core.terminal import visible
from dbtm.sampling import Round
from dbtm.service.generation import ProgramsResult, SampleResult
from dbtm.service.solving import SolveResult
from dbtm.tasks.base import Task
from dbtm.tasks.text.task import Text
from dbtm.viz.spell import speller_of
from dbtm.viz.sudoku_page import sudoku_page
from dbtm.viz.token_page import text_document, token_page
from dbtm.viz.token_trace import Sample, sample_of, text_state

# -- Sudokus -----------------------------------------------------------------------------------------------------------


def solution_page(result: SolveResult, asked: Iterable[str] = ()) -> str:
    """One HTML file that replays the rounds of a solve, with the settings that were `asked` for."""
    meta = {
        "title": f"A Sudoku with {(result.puzzle_C > 0).sum()} clues, refined",
        "answer": result.violation or "solved",
        "network evaluations": result.evaluations,
        "time": result.duration,
        **result.shown_settings(asked),
    }
    return sudoku_page(result.puzzle_C, result.rounds, meta)


# -- samples -----------------------------------------------------------------------------------------------------------


def samples_page(result: SampleResult) -> str:
    """One HTML file that replays the rounds of samples."""
    samples, noun, settings = views_of(result), noun_of(result), dict(result.settings)
    budget = {"budget": f"{settings.pop('nfe')} network evaluations"} if "nfe" in settings else {}
    facts = {name.replace("_", " "): value for name, value in settings.items() if value is not None}
    count = f"{len(samples)} {noun}s" if len(samples) > 1 else f"A {noun}"
    return token_page(samples, {"title": f"{count}, refined", **budget, **facts}, code=noun == "program")


def views_of(result: SampleResult) -> list[Sample]:
    """The samples as the views show them; the question of a program is not repeated in every round."""
    spell, samples = speller_of(result.task), []
    for b, nfe in enumerate(result.trace.nfe):
        facts, more = {"network evaluations": str(nfe)}, {}
        if isinstance(result, ProgramsResult):
            facts["answer"] = verdict_of(result, b)
            more = {"question": result.questions[b], "first": int(result.trace.prompt[b].sum())}
        samples.append(sample_of(result.trace, b, spell, result.task.vocab, facts=facts, **more))
    return samples


def noun_of(result: SampleResult) -> str:
    """The noun for its samples."""
    if isinstance(result, ProgramsResult):
        return "program"
    return "text" if isinstance(result.task, Text) else "token sequence"


def verdict_of(result: ProgramsResult, b: int) -> str:
    """A program's answer in words, with the correct one if known."""
    outcome, correct = result.outcomes[b], result.correct(b)
    if outcome.kind != "value":
        return visible(f"no answer ({outcome.kind}{': ' if outcome.detail else ''}{outcome.detail})")
    returns = visible(f"returns {outcome.value}")
    if correct is None:
        return returns
    return f"{returns}, correct" if correct else f"{returns}, wrong: it is {result.answers[b]:g}"


# -- rounds as they happen ---------------------------------------------------------------------------------------------


class LiveSample:
    """The first of some samples in the viewer's format, while it is sampled."""

    def __init__(self, task: Task, tokens_L: np.ndarray, given_L: np.ndarray, first: int = 0):
        self.task, self.given_L, self.first = task, given_L, first
        self.spell: Callable[[np.ndarray], list[str]] = speller_of(task)
        self.tokens_L = np.where(given_L, tokens_L, -1)
        self.round = 0

    def start(self) -> dict[str, Any]:
        """The given tokens; `tokens` has null for positions to generate."""
        return {
            "given": self.given_L[self.first :].astype(int).tolist(),
            "free": int((~self.given_L).sum()),
            "parts": self.spell(self.tokens_L)[self.first :],
            "tokens": [token if token >= 0 else None for token in self.tokens_L.tolist()],
            "first": self.first,
            "question": "",
            "facts": [],
        }

    def document(self, state: Round, last: bool = False) -> dict[str, Any]:
        """A round; in the last one, every position without a commit flag is committed."""
        shown = text_state(state, 0, self.spell, self.task.vocab)
        sample = Sample(self.given_L, [shown], first=self.first)
        document = text_document(sample, shown.settled() if last else shown)
        return document if state.others is None else {**document, "others": self._others(state)}

    def _others(self, state: Round) -> list[list[list[Any]]]:
        """[spelling, probability] of the most likely tokens per open position."""
        assert state.others is not None
        tokens_LK, p_LK = state.others[0][0], state.others[1][0]
        return [
            [[self._alone(int(token)), round(float(p), 4)] for token, p in zip(*row, strict=True) if p > 0]
            for row in zip(tokens_LK[self.first :], p_LK[self.first :], strict=True)
        ]

    def _alone(self, token: int) -> str:
        return self.spell(np.array([token]))[0]
