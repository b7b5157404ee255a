"""Samples of a trained model: unconditional or with given tokens, texts with holes, and programs for questions."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_COUNT
from dbtm.evals.drawing import fitting_batch
from dbtm.sampling import Round, Sampler, Trace
from dbtm.sandbox import Outcome, Sandbox
from dbtm.service.progress import Cancelled, Progress
from dbtm.service.request import ModelRequest
from dbtm.tasks.base import Task
from dbtm.tasks.gsm8k.answers import verdict
from dbtm.tasks.gsm8k.synthetic import held_out
from dbtm.tasks.gsm8k.task import Gsm8k
from dbtm.tasks.text.given import HOLE, HOLE_TOKENS, around, check_utf8, extent, place, template
from dbtm.tasks.text.task import Text

OnRound = Callable[[Round], None]


# -- requests and results ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class GenerationRequest(ModelRequest):
    """n samples of a checkpoint."""

    n: int = 1
    trace: bool = False
    """Keep every round."""
    others: int = 0
    """Number of the most likely tokens that each round reports, if the method can."""

    def __post_init__(self):
        if not 1 <= self.n <= MOST_COUNT:
            raise UsageError(f"{self.n} samples: the number must be from 1 to {MOST_COUNT}")


@dataclass(frozen=True, kw_only=True)
class SampleRequest(GenerationRequest):
    """Samples of any model, unconditional or around given tokens."""

    tokens: Sequence[int | None] | None = None
    """One row for all samples, None where to generate (prompt, suffix, infilling); None: nothing is given."""


@dataclass(frozen=True, kw_only=True)
class InfillRequest(GenerationRequest):
    """A text whose holes a text model fills; `dbtm.tasks.text.given` splits a text into parts."""

    parts: Sequence[str | None]
    """Given text, and None per hole."""
    hole: int | None = None
    """Tokens per hole; the rest of the sequence continues the text, as context that `texts` leaves out. None: the holes
    share all of the rest."""


@dataclass(frozen=True, kw_only=True)
class ProgramsRequest(GenerationRequest):
    """n programs for one question; or one program each for n held-out problems."""

    question: str | None = None
    run: bool = True
    """Run the programs in the sandbox."""


@dataclass(frozen=True)
class SampleResult:
    """Samples, and their settings."""

    task: Task
    trace: Trace
    settings: dict[str, Any]
    shown: int | None = field(default=None, kw_only=True)
    """How many tokens `texts` shows: those of a text with holes; None: all."""

    def texts(self) -> list[str]:
        """The samples as text."""
        return [self.task.text(row[: self.shown]) for row in self.trace.tokens]

    def document(self) -> dict[str, Any]:
        """The JSON: tokens, texts, and the kept rounds."""
        return {
            "tokens": self.trace.tokens.tolist(),
            "given": self.trace.prompt.tolist(),
            "text": self.texts(),
            "nfe": self.trace.nfe.tolist(),
            "rounds": [_round_document(state) for state in self.trace.rounds],
            "settings": self.settings,
        }


@dataclass(frozen=True)
class ProgramsResult(SampleResult):
    """Programs, and their results."""

    questions: list[str]
    answers: list[float | None]
    """The correct answers, if known."""
    programs: list[str]
    outcomes: list[Outcome]

    def correct(self, b: int) -> bool | None:
        """Whether program b returns the correct answer; None if unknown."""
        answer = self.answers[b]
        return None if answer is None else verdict(self.outcomes[b], answer) == "correct"

    def document(self) -> dict[str, Any]:
        about = {"questions": self.questions, "answers": self.answers, "programs": self.programs}
        return {**super().document(), **about, "outcomes": [vars(outcome) for outcome in self.outcomes]}


def _round_document(state: Round) -> dict[str, Any]:
    """Null for what the method does not have."""
    arrays = {"tokens": state.tokens, "committed": state.committed, "score": state.score}
    return {name: None if x is None else x.tolist() for name, x in arrays.items()} | {"time": state.time}


# -- the services ------------------------------------------------------------------------------------------------------


def sample(
    request: SampleRequest,
    sampler: Sampler | None = None,
    progress: Progress = Progress(),
    on_round: OnRound | None = None,
) -> SampleResult:
    """Draw samples, unconditional or around given tokens."""
    sampler = request.sampler(sampler)
    trace, settings = _draw(request, sampler, given_tokens(request, sampler), progress, on_round)
    return SampleResult(_task(sampler), trace, settings)


def given_tokens(request: SampleRequest, sampler: Sampler) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, mask of the given ones), (n, L) each."""
    task = _task(sampler)
    row = (None,) * task.length if request.tokens is None else tuple(request.tokens)
    if len(row) != task.length:
        raise UsageError(f"{len(row)} tokens are given, but the model's sequences have {task.length}: give as many")
    tokens_L = np.array([0 if token is None else token for token in row])
    clean_L = np.array([token is not None for token in row])
    sampler.method.check_given(sampler.given(tokens_L[None], clean_L[None]))
    return _copies(tokens_L, clean_L, request.n)


def infill(
    request: InfillRequest,
    sampler: Sampler | None = None,
    progress: Progress = Progress(),
    on_round: OnRound | None = None,
) -> SampleResult:
    """Fill the holes of a text."""
    sampler = request.sampler(sampler)
    given = given_parts(request, sampler)
    trace, settings = _draw(request, sampler, given, progress, on_round)
    task = _task(sampler)
    assert isinstance(task, Text)
    shown = None if request.hole is None else extent(task, request.parts, request.hole)
    return SampleResult(task, trace, settings, shown=shown)


def parts_of(prompt: str = "", suffix: str = "", infill: str | None = None) -> Sequence[str | None]:
    """The parts of a text: a hole between a prompt and a suffix, or a text with holes marked by underscores."""
    return around(prompt, suffix) if infill is None else template(infill)


def hole_size(infill: str | None, hole: int | None) -> int | None:
    """Tokens per hole of a text with holes, HOLE_TOKENS by default; None for the hole between a prompt and a suffix."""
    return hole or (None if infill is None else HOLE_TOKENS)


def given_parts(request: InfillRequest, sampler: Sampler) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, mask of the given ones), (n, L) each, of a text with holes."""
    task = _task(sampler)
    if not isinstance(task, Text):
        raise UsageError(f"only text models write text and fill holes, but this one was trained on '{task.name}'")
    tokens_L, clean_L = place(task, request.parts, request.hole)
    if request.parts[-1] in (HOLE, "") and task.borders.around:
        clean_L = _open_end(sampler, tokens_L, clean_L)
    return _copies(tokens_L, clean_L, request.n)


def write_programs(
    request: ProgramsRequest,
    sampler: Sampler | None = None,
    progress: Progress = Progress(),
    on_round: OnRound | None = None,
) -> ProgramsResult:
    """Write programs for questions, and run them if requested."""
    sampler = request.sampler(sampler)
    questions, answers, given = given_questions(request, sampler)
    trace, settings = _draw(request, sampler, given, progress, on_round)
    task = sampler.task
    assert isinstance(task, Gsm8k)
    programs = task.programs(trace.tokens, trace.prompt)
    outcomes = _run(programs, progress) if request.run else [_not_run("as asked")] * len(programs)
    return ProgramsResult(task, trace, settings, questions, answers, programs, outcomes)


# -- drawing -----------------------------------------------------------------------------------------------------------


def _task(sampler: Sampler) -> Task:
    if sampler.task is None:
        raise UsageError("this sampler has no task, so its tokens have no meaning: load a checkpoint")
    return sampler.task


def _copies(tokens_L: np.ndarray, clean_L: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.tile(tokens_L, (n, 1)), np.tile(clean_L, (n, 1))


def _open_end(sampler: Sampler, tokens_L: np.ndarray, clean_L: np.ndarray) -> np.ndarray:
    """The given tokens, without the final end of text if the method cannot take a given end."""
    try:
        sampler.method.check_given(sampler.given(tokens_L[None], clean_L[None]))
    except UsageError:
        return np.where(np.arange(len(clean_L)) < len(clean_L) - 1, clean_L, False)
    return clean_L


def _draw(
    request: GenerationRequest,
    sampler: Sampler,
    given: tuple[np.ndarray, np.ndarray],
    progress: Progress,
    on_round: OnRound | None,
) -> tuple[Trace, dict[str, Any]]:
    """The samples, in batches small enough to show progress, and their settings."""
    settings = request.settings(sampler, request.options)
    fits = fitting_batch(sampler)
    sampler.evaluator()  # built once, for this and later requests
    in_batches = copy.copy(sampler)  # leaves the batch size of the caller's sampler unchanged
    in_batches.batch = min(sampler.batch, fits if sampler.device.type == "cuda" else max(1, fits // 16))
    progress.stage("sampling", len(given[0]))
    trace = in_batches.sample(
        tokens=given[0],
        clean=given[1],
        seed=request.seed,
        trace=request.trace,
        progress=progress.advance,
        cancelled=progress.cancelled,
        on_round=on_round,
        others=request.others,
        **request.options,
    )
    return trace, settings


# -- programs ----------------------------------------------------------------------------------------------------------


Questions = tuple[list[str], list[float | None], tuple[np.ndarray, np.ndarray]]


def given_questions(request: ProgramsRequest, sampler: Sampler) -> Questions:
    """Checked questions; their answers, if known; and (tokens, mask of the given ones), (n, L) each."""
    task = _task(sampler)
    if not isinstance(task, Gsm8k):
        raise UsageError(f"only models of 'gsm8k' write programs, but this one was trained on '{task.name}'")
    answers: list[float | None] = [None] * request.n
    if request.question is None:
        questions, answers = _problems(task, request.n, request.seed)
    else:
        _check_question(task, request.question)
        questions = [request.question] * request.n
    given, _ = task.given(questions)
    return questions, answers, (given["tokens"], given["clean"])


def _problems(task: Gsm8k, n: int, seed: int) -> tuple[list[str], list[float | None]]:
    """Questions and answers of held-out synthetic problems that are short enough."""
    made = held_out(4 * n, seed)
    _, fits_B = task.given([example.question for example in made])
    short = [example for example, fits in zip(made, fits_B) if fits][:n]
    if len(short) < n:
        raise UsageError(f"the built-in problems are too long for {task.length} tokens: give your own question")
    return [example.question for example in short], [example.answer for example in short]


def _check_question(task: Gsm8k, question: str) -> None:
    """Refuse a question that is empty, or leaves no room for a program."""
    if not question.strip():
        raise UsageError("the question is empty: give one that a program should answer")
    check_utf8(question)
    n = len(task.layout.prompts([question])[0])
    if n >= task.length:
        raise UsageError(
            f"{n} given and at least 1 generated tokens do not fit into this model's sequences of {task.length}: "
            "shorten the question"
        )


def _run(programs: list[str], progress: Progress) -> list[Outcome]:
    """The outcomes of the programs, also if none can be run."""
    try:
        with Sandbox() as sandbox:
            if sandbox.missing:
                progress.note(sandbox.weakness)
            outcomes: list[Outcome] = []
            progress.stage("running programs", len(programs))
            for outcome in sandbox.map(programs):
                if progress.cancelled():
                    raise Cancelled
                outcomes.append(outcome)
                progress.advance(len(outcomes))
            return outcomes
    except UsageError as error:
        return [_not_run(str(error))] * len(programs)


def _not_run(why: str) -> Outcome:
    return Outcome("not run", detail=why)
