"""The Python interface to a trained model.

model = dbtm.load("sudoku")
model.solve("850002400720000009004000000000107002305000900040000000000080070017000000000036040")

text = dbtm.load("text")
text.write(prompt="The river", nfe=4).texts
text.infill("The ____ of ____").texts
text.sample(8, nfe=4).texts
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from dbtm.checkpoint import loading
from dbtm.evals.cost import parameters
from dbtm.sampling import Round, Sampler, Trace
from dbtm.service import hub
from dbtm.service.generation import InfillRequest, SampleResult, infill
from dbtm.service.solving import SolveRequest, SolveResult, solve_with_tries
from dbtm.tasks.base import Task
from dbtm.tasks.sudoku.puzzle import check, parse
from dbtm.tasks.text import given

SHOWN = 5  # samples of a repr


@dataclass(frozen=True)
class Samples(Trace):
    """Samples of a model, with their texts."""

    task: Task | None = None

    @property
    def texts(self) -> list[str]:
        """Each sample as text."""
        task = self.task or Task()
        return [task.text(row) for row in self.tokens]

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        shown = [f"  {text!r}" for text in self.texts[:SHOWN]]
        more = [f"  ... and {len(self) - SHOWN} more"] if len(self) > SHOWN else []
        noun = "sample" if len(self) == 1 else "samples"
        return "\n".join([f"{len(self)} {noun}, {self.nfe.mean():g} network evaluations each:", *shown, *more])

    def _repr_html_(self) -> str:
        """A notebook's view: a sample per row."""
        rows = "".join(
            f"<tr><td>{number}</td><td style='text-align:left;white-space:pre-wrap'>{escape(text)}</td></tr>"
            for number, text in enumerate(self.texts, 1)
        )
        head = f"{len(self)} samples, {self.nfe.mean():g} network evaluations each"
        return f"<table><caption>{head}</caption>{rows}</table>"


@dataclass(frozen=True, repr=False)
class Solution:
    """A model's answer to a puzzle."""

    result: SolveResult
    tries: int = 1

    @property
    def solved(self) -> bool:
        return self.result.solved

    @property
    def puzzle(self) -> str:
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
        verdict = "solved" if self.solved else f"wrong: {self.result.violation}"
        tries = f", {self.tries} tries" if self.tries > 1 else ""
        return f"{verdict} ({self.nfe} network evaluations{tries})\n{self}"

    def _repr_html_(self) -> str:
        size = round(len(self.digits) ** 0.5)
        cells = []
        for at, (digit, clue) in enumerate(zip(self.digits, self.puzzle, strict=True)):
            cells.append("<tr>" if at % size == 0 else "")
            weight = "bold" if clue != "0" else "normal"
            cells.append(f"<td style='font-weight:{weight};text-align:center'>{digit}</td>")
            cells.append("</tr>" if at % size == size - 1 else "")
        caption = escape("solved" if self.solved else f"wrong: {self.result.violation}")
        return f"<table><caption>{caption}, {self.nfe} network evaluations</caption>{''.join(cells)}</table>"


class Model(Sampler):
    """A sampler with the methods of its task: `solve`, `write`, `infill`, and `sample` for all."""

    def __init__(self, sampler: Sampler, folder: Path):
        super().__init__(sampler.method, sampler.network, sampler.options, sampler.task, sampler.batch)
        self.folder = folder

    def __repr__(self) -> str:
        task = self.task.name if self.task else "no task"
        count, shape = parameters(self.network), self.network.shape
        return (
            f"Model({str(self.folder.name)!r}: {task} by {self.method.name}, {count:,} parameters, vocabulary "
            f"{shape.vocab:,}, length {shape.length:,}, {self.device.type})"
        )

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
        """As `Sampler.sample`; the result has its texts."""
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

    def _samples(self, drawn: Trace) -> Samples:
        return Samples(**{each.name: getattr(drawn, each.name) for each in fields(Trace)}, task=self.task)

    def write(self, prompt: str = "", suffix: str = "", *, n: int = 1, seed: int = 0, **options: Any) -> Samples:
        """Texts that begin with a prompt and end with a suffix, by a text model."""
        return self._fill(given.around(prompt, suffix), None, n, seed, options)

    def infill(self, text: str, *, hole: int | None = None, n: int = 1, seed: int = 0, **options: Any) -> Samples:
        """Fill the holes of a text (two or more underscores each) with `hole` tokens each, or as many as fit."""
        return self._fill(given.template(text), hole, n, seed, options)

    def _fill(
        self, parts: Sequence[str | None], hole: int | None, n: int, seed: int, options: dict[str, Any]
    ) -> Samples:
        request = InfillRequest(checkpoint=str(self.folder), parts=parts, hole=hole, n=n, seed=seed, options=options)
        result: SampleResult = infill(request, self._plain())
        return self._samples(result.trace)

    def solve(self, puzzle: str, *, tries: int = 1, seed: int = 0, **options: Any) -> Solution:
        """The answer to a Sudoku: 81 (or 16) digits in reading order, 0 or . for empty. While the answer breaks
        a rule, it tries again from new noise.
        """
        puzzle_C = parse(puzzle)
        check(puzzle_C)
        request = SolveRequest(checkpoint=str(self.folder), puzzle_C=puzzle_C, seed=seed, options=options)
        return Solution(*solve_with_tries(request, tries, self._plain()))

    def _plain(self) -> Sampler:
        """The name for the services."""
        plain = Sampler(self.method, self.network, self.options, self.task, self.batch)
        plain.replay = self.replay
        return plain

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write the averaged weights as a checkpoint folder with a model card, without optimizer state."""
        return hub.save(self.folder, Path(folder), hub.card(self.folder, repr(self)))

    def push_to_hub(self, repo: str, *, private: bool = False, token: str | None = None) -> str:
        """`save_pretrained` into a repository of the Hugging Face hub, 'org/name'; returns the commit's address."""
        return hub.push(self.folder, repo, hub.card(self.folder, repr(self), repo), private, token)


def load(path: str | Path, device: str = "auto") -> Model:
    """A checkpoint folder, a run (its newest checkpoint), a packaged model ('sudoku', 'text'), or a repository of the
    Hugging Face hub at a revision, 'hf://org/name@revision' (the only one that needs a network).
    """
    if str(path).startswith(hub.SCHEME):
        path = hub.fetch(str(path))
    return Model(loading.load(path, device), loading.find(path))
