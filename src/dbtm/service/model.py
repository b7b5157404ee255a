"""The Python interface to a trained model.

model = dbtm.load("sudoku")
model.solve("850002400720000009004000000000107002305000900040000000000080070017000000000036040")

text = dbtm.load("text")
text.write(prompt="The river", nfe=4).texts
text.infill("The ____ of ____").texts
text.sample(8, nfe=4).texts
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any, overload

import numpy as np

from dbtm.checkpoint import loading
from dbtm.core.errors import UsageError
from dbtm.evals.cost import parameters
from dbtm.sampling import Round, Sampler, Trace
from dbtm.service import hub
from dbtm.service.card import model_card
from dbtm.service.generation import InfillRequest, SampleResult, infill
from dbtm.service.solving import SolveRequest, SolveResult, solve_many
from dbtm.tasks.base import Task
from dbtm.tasks.sudoku.puzzle import Grid, check, parse
from dbtm.tasks.text import given

SHOWN = 5  # samples of a repr


def _count(n: float, noun: str) -> str:
    """`1 sample`, `2 samples`."""
    return f"{n:g} {noun}" if n == 1 else f"{n:g} {noun}s"


@dataclass(frozen=True)
class Samples(Trace):
    """Samples of a model, with their texts."""

    task: Task | None = None
    shown: int | None = None
    """How many tokens `texts` shows: those of a text with holes; None: all."""

    @property
    def texts(self) -> list[str]:
        """Each sample as text."""
        task = self.task or Task()
        return [task.text(row[: self.shown]) for row in self.tokens]

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        shown = [f"  {text!r}" for text in self.texts[:SHOWN]]
        more = [f"  ... and {len(self) - SHOWN} more"] if len(self) > SHOWN else []
        return "\n".join([f"{self._head()}:", *shown, *more])

    def _head(self) -> str:
        return f"{_count(len(self), 'sample')}, {_count(self.nfe.mean(), 'network evaluation')} each"

    def _repr_html_(self) -> str:
        """A notebook's view: a sample per row."""
        rows = "".join(
            f"<tr><td>{number}</td><td style='text-align:left;white-space:pre-wrap'>{escape(text)}</td></tr>"
            for number, text in enumerate(self.texts, 1)
        )
        return f"<table><caption>{self._head()}</caption>{rows}</table>"


@dataclass(frozen=True, repr=False)
class Solution:
    """A model's answer to a puzzle."""

    result: SolveResult
    tries: int = 1

    @property
    def solved(self) -> bool:
        """Whether the grid keeps the clues and all rules."""
        return self.result.solved

    @property
    def puzzle(self) -> str:
        """The puzzle in reading order, 0 for empty."""
        return "".join(map(str, self.result.puzzle_C))

    @property
    def digits(self) -> str:
        """The grid in reading order."""
        return "".join(map(str, self.result.solution_C))

    @property
    def nfe(self) -> int:
        """Network evaluations of the returned try."""
        return self.result.nfe

    def __str__(self) -> str:
        size = round(len(self.digits) ** 0.5)
        box = round(size**0.5)
        lines = []
        for at in range(size):
            row = self.digits[at * size : (at + 1) * size]
            lines.append(" | ".join(" ".join(row[i : i + box]) for i in range(0, size, box)))
            if (at + 1) % box == 0 and at + 1 < size:
                lines.append("-+-".join(["-" * (2 * box - 1)] * box))
        return "\n".join(lines)

    def __repr__(self) -> str:
        tries = f", {self.tries} tries" if self.tries > 1 else ""
        return f"{self._verdict} ({_count(self.nfe, 'network evaluation')}{tries})\n{self}"

    @property
    def _verdict(self) -> str:
        return "solved" if self.solved else f"wrong: {self.result.violation}"

    def _repr_html_(self) -> str:
        size = round(len(self.digits) ** 0.5)
        cells = []
        for at, (digit, clue) in enumerate(zip(self.digits, self.puzzle, strict=True)):
            cells.append("<tr>" if at % size == 0 else "")
            weight = "bold" if clue != "0" else "normal"
            cells.append(f"<td style='font-weight:{weight};text-align:center'>{digit}</td>")
            cells.append("</tr>" if at % size == size - 1 else "")
        caption = f"{escape(self._verdict)}, {_count(self.nfe, 'network evaluation')}"
        return f"<table><caption>{caption}</caption>{''.join(cells)}</table>"


class Model(Sampler):
    """A sampler with the methods of its task: `solve`, `write`, `infill`, and `sample` for all."""

    def __init__(self, sampler: Sampler, folder: Path):
        super().__init__(sampler.method, sampler.network, sampler.options, sampler.task, sampler.batch)
        self.folder = folder

    def _facts(self) -> dict[str, str]:
        shape = self.network.shape
        return {
            "task": self.task.name if self.task else "no task",
            "method": self.method.name,
            "parameters": f"{parameters(self.network):,}",
            "vocabulary": f"{shape.vocab:,}",
            "length": f"{shape.length:,}",
            "device": self.device.type,
        }

    def __repr__(self) -> str:
        facts = self._facts()
        return (
            f"Model({str(self.folder.name)!r}: {facts['task']} by {facts['method']}, {facts['parameters']} parameters, "
            f"vocabulary {facts['vocabulary']}, length {facts['length']}, {facts['device']})"
        )

    def _repr_html_(self) -> str:
        """A notebook's view: what the model is."""
        rows = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in self._facts().items())
        return f"<table><caption>{escape(self.folder.name)}</caption>{rows}</table>"

    def sample(
        self,
        n: int | None = None,
        *,
        tokens: np.ndarray | None = None,
        clean: np.ndarray | None = None,
        seed: int = 0,
        trace: bool = False,
        progress: Callable[[int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        on_round: Callable[[Round], None] | None = None,
        **options: Any,
    ) -> Samples:
        """Samples from nothing, or around given tokens.

        Args:
            n: the number of samples, if nothing is given.
            tokens: rows of tokens, (n, length), of which those in `clean` are given and the others generated.
            clean: booleans of the shape of `tokens`, true where a token is given.
            seed: same seed, same samples.
            trace: keep every round, in `rounds` of the result.
            progress: called with the number of samples done.
            cancelled: asked before every network evaluation; true ends the call.
            on_round: called with every round of every batch.
            **options: options of the method's sampler (`model.options`), such as nfe=4.
        """
        with _as_arguments():
            drawn = super().sample(
                n,
                tokens=tokens,
                clean=clean,
                seed=seed,
                trace=trace,
                progress=progress,
                cancelled=cancelled,
                on_round=on_round,
                **options,
            )
        return self._samples(drawn)

    def _samples(self, drawn: Trace, shown: int | None = None) -> Samples:
        of_trace = {each.name: getattr(drawn, each.name) for each in fields(Trace)}
        return Samples(**of_trace, task=self.task, shown=shown)

    def write(self, prompt: str = "", suffix: str = "", *, n: int = 1, seed: int = 0, **options: Any) -> Samples:
        """Texts of a text model that begin with a prompt and end with a suffix.

        Args:
            prompt: the beginning; empty: any.
            suffix: the end; empty: any.
            n: the number of texts.
            seed: same seed, same texts.
            **options: options of the method's sampler (`model.options`), such as nfe=4.
        """
        return self._fill(given.around(prompt, suffix), None, n, seed, options)

    def infill(self, text: str, *, hole: int | None = None, n: int = 1, seed: int = 0, **options: Any) -> Samples:
        """Fill the holes of a text, by a text model.

        Args:
            text: a text in which two or more underscores mark each hole.
            hole: tokens per hole (None: 3). The rest of the sequence continues the text: it is in `tokens`, but not in
                `texts`.
            n: the number of texts.
            seed: same seed, same texts.
            **options: options of the method's sampler (`model.options`), such as nfe=4.
        """
        return self._fill(given.template(text), given.HOLE_TOKENS if hole is None else hole, n, seed, options)

    def _fill(
        self, parts: Sequence[str | None], hole: int | None, n: int, seed: int, options: dict[str, Any]
    ) -> Samples:
        request = InfillRequest(checkpoint=str(self.folder), parts=parts, hole=hole, n=n, seed=seed, options=options)
        with _as_arguments():
            result: SampleResult = infill(request, self._plain())
        return self._samples(result.trace, result.shown)

    @overload
    def solve(self, puzzle: str, *, tries: int = 1, seed: int = 0, **options: Any) -> Solution: ...

    @overload
    def solve(
        self, puzzle: list[str] | tuple[str, ...], *, tries: int = 1, seed: int = 0, **options: Any
    ) -> list[Solution]: ...

    def solve(
        self,
        puzzle: str | list[str] | tuple[str, ...],
        *,
        tries: int = 1,
        seed: int = 0,
        **options: Any,
    ) -> Solution | list[Solution]:
        """The answer of a Sudoku model to a puzzle, or the answers to a list of puzzles, which are sampled together.

        Args:
            puzzle: 81 (or 16) digits in reading order, 0 or . for empty; or a list of puzzles.
            tries: while an answer breaks a rule, try again from new noise, up to this many times.
            seed: same seed, same answers. In a list, each puzzle also has noise of its own.
            **options: options of the method's sampler (`model.options`), such as nfe=4.
        """
        if isinstance(puzzle, str):
            return self._solve([_puzzle(puzzle)], tries, seed, options)[0]
        if not isinstance(puzzle, list | tuple) or not all(isinstance(each, str) for each in puzzle):
            raise UsageError("a puzzle is a string of 81 (or 16) digits: give one, or a list of them")
        return self._solve([_puzzle(each, number) for number, each in enumerate(puzzle, 1)], tries, seed, options)

    def _solve(self, puzzles: list[Grid], tries: int, seed: int, options: dict[str, Any]) -> list[Solution]:
        request = SolveRequest(checkpoint=str(self.folder), seed=seed, options=options)
        with _as_arguments():
            return [Solution(*found) for found in solve_many(request, puzzles, tries, self._plain())]

    def _plain(self) -> Sampler:
        """The name for the services."""
        plain = Sampler(self.method, self.network, self.options, self.task, self.batch)
        plain.replay = self.replay
        return plain

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write a checkpoint folder with the averaged weights and a model card, without optimizer state."""
        name = Path(folder).resolve().name or "model"
        return hub.save(self.folder, Path(folder), model_card(self.folder, parameters(self.network), name, name))

    def push_to_hub(self, repo: str, *, private: bool = False, token: str | None = None) -> str:
        """`save_pretrained` into a repository of the Hugging Face hub; returns the commit's address.

        Args:
            repo: 'org/name'; created if it does not exist.
            private: create it as a private one.
            token: an access token; None: that of `hf auth login`, or of the environment (HF_TOKEN).
        """
        card = model_card(self.folder, parameters(self.network), repo.rpartition("/")[2], f"{hub.SCHEME}{repo}@main")
        return hub.push(self.folder, repo, card, private, token)


def _puzzle(text: str, number: int = 0) -> Grid:
    """The cells of a puzzle with one solution; errors name its number in a list."""
    try:
        puzzle_C = parse(text)
        check(puzzle_C)
    except UsageError as error:
        raise UsageError(f"puzzle {number}: {error}" if number else str(error)) from None
    return puzzle_C


@contextmanager
def _as_arguments() -> Iterator[None]:
    """Errors name a sampler's option as the argument that it is here: nfe, not sample.nfe."""
    try:
        yield
    except UsageError as error:
        text = re.sub(r"(?<![\w.])sample\.(?=[a-z])", "", str(error))
        if text == str(error):
            raise
        raise UsageError(text) from error.__cause__


def load(path: str | Path, device: str = "auto") -> Model:
    """Load a trained model. Its weights are verified by their sha256; nothing is unpickled.

    Args:
        path: a checkpoint folder, a run (its newest checkpoint), a packaged model ('sudoku', 'text'), or a repository
            of the Hugging Face hub at a revision, 'hf://org/name@revision' (the only one that needs a network).
        device: auto, cpu, cuda or mps.
    """
    if str(path).startswith(hub.SCHEME):
        path = hub.fetch(str(path))
    return Model(loading.load(path, device), loading.find(path))
