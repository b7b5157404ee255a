"""Word problems: share of programs that return the answer, and one program round by round."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbtm.evals.sweep import journal
from dbtm.service.progress import Progress
from dbtm.service.reproduction.steps.base import Resources, Step, Workspace
from dbtm.service.reproduction.steps.training import Train, checkpoint_of


@dataclass(frozen=True, kw_only=True)
class Answered(Step):
    """Problems solved per budget; the programs run in the sandbox."""

    model: Train
    budgets: tuple[int, ...]
    """Empty: a method without a budget to choose."""
    n: int | None = 100
    """None: all of a file's."""
    data: str | None = None
    """A user's file by name; None: held-out synthetic problems."""
    at: int | None = None

    def title(self, resources: Resources) -> str:
        return f"answer-{self.model.title(resources)}"

    def about(self) -> str:
        return f"answering word problems with {self.model.about().removeprefix('training ')}"

    def run(self, space: Workspace, progress: Progress) -> dict[str, Any]:
        folder = space.folder(self)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "rows.jsonl"
        done = {row["budget"] for _, row in journal.read_records(path, cut_short=True)} if path.is_file() else set()
        for budget in self.budgets or (0,):
            if budget not in done:
                self._answer(space, budget, path, progress)
        rows = [row for _, row in journal.read_records(path, cut_short=True)]
        return {"rows": sorted(rows, key=lambda row: row["budget"]), "n": self.n}

    def _answer(self, space: Workspace, budget: int, path: Path, progress: Progress) -> None:
        from dbtm.service.evaluation.programs import ProgramsEvaluationRequest, evaluate_programs

        request = ProgramsEvaluationRequest(
            checkpoint=checkpoint_of(space, self.model, self.at),
            data=None if self.data is None else space.resources.find(self.data),
            n=self.n,
            budgets=(budget,) if budget else None,
            device=space.resources.device,
        )
        *_, result = evaluate_programs(request, progress)
        (score,) = result.scores
        rate = 100 * score.correct / score.total
        journal.append_record(path, {"budget": budget, "rate": rate, "correct": score.correct, "of": score.total})


@dataclass(frozen=True, kw_only=True)
class WrittenOne(Step):
    """One program, round by round: committed tokens and text."""

    model: Train
    nfe: int = 32
    number: int = 0
    """Index of the held-out problem."""
    kappa: float = 0.9
    at: int | None = None

    def title(self, resources: Resources) -> str:
        return f"write-{self.model.title(resources)}"

    def about(self) -> str:
        return f"writing a program in {self.nfe} rounds"

    def run(self, space: Workspace, progress: Progress) -> dict[str, Any]:
        from dbtm.service.generation import ProgramsRequest, write_programs

        options = {"nfe": self.nfe, "kappa": self.kappa, "scorer": "confidence"}
        request = ProgramsRequest(
            checkpoint=checkpoint_of(space, self.model, self.at),
            options=options,
            n=self.number + 1,
            trace=True,
            device=space.resources.device,
        )
        result = write_programs(request, progress=progress)
        b, task, trace = self.number, result.task, result.trace
        given_L = trace.prompt[b]
        words = task.layout.tokenizer  # type: ignore[attr-defined]
        rounds = []
        for state in trace.rounds:
            committed_L = given_L if state.committed is None else state.committed[b]
            pieces = [words.decode([int(token)], skip_special_tokens=False) for token in state.tokens[b][~given_L]]
            rounds.append({"pieces": pieces, "committed": committed_L[~given_L].tolist()})
        return {
            "question": result.questions[b],
            "program": result.programs[b],
            "correct": result.correct(b),
            "free": int((~given_L).sum()),
            "nfe": int(trace.nfe[b]),
            "rounds": rounds,
        }
