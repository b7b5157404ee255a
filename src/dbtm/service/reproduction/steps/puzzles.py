"""Sudoku: share of puzzles solved over settings, and one puzzle round by round."""

from dataclasses import dataclass
from typing import Any

from dbtm.evals.sweep import journal
from dbtm.service.progress import Progress
from dbtm.service.reproduction.steps.base import Resources, Step, Workspace
from dbtm.service.reproduction.steps.training import Train, checkpoint_of

SEED = 2_000_000  # of held-out puzzles


@dataclass(frozen=True, kw_only=True)
class Solved(Step):
    """Exact-solve rates by number of clues, budget and threshold."""

    model: "Train | str"
    clues: tuple[int, ...]
    n: int = 100
    budgets: tuple[int, ...] = ()
    """Empty: a method without a budget to choose."""
    kappas: tuple[float, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def title(self, resources: Resources) -> str:
        return f"solve-{self.model if isinstance(self.model, str) else self.model.title(resources)}"

    def about(self) -> str:
        model = self.model if isinstance(self.model, str) else self.model.about().removeprefix("training ")
        return f"solving puzzles with {model}"

    def run(self, space: Workspace, progress: Progress) -> dict[str, Any]:
        folder = space.folder(self)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "rows.jsonl"
        rows = [row for _, row in journal.read_records(path, cut_short=True)] if path.is_file() else []
        done = {(row["clues"], row["budget"]) for row in rows}
        model: dict[str, Any] = {}
        for clues in self.clues:
            for budget in self.budgets or (0,):
                if (clues, budget) not in done:
                    model = self._solve(space, clues, budget, path, progress)
        rows = [row for _, row in journal.read_records(path, cut_short=True)]
        return {"rows": sorted(rows, key=lambda row: (row["clues"], row["budget"])), "n": self.n, "model": model}

    def _solve(self, space: Workspace, clues: int, budget: int, path: Any, progress: Progress) -> dict[str, Any]:
        """One record per number of clues and budget: solved by threshold."""
        from dbtm.service.evaluation.sudoku import SudokuEvaluationRequest, evaluate_sudoku

        request = SudokuEvaluationRequest(
            checkpoint=checkpoint_of(space, self.model),
            clues=(clues,),
            n=self.n,
            seed=SEED,
            budgets=(budget,) if budget else None,
            kappas=self.kappas,
            options=dict(self.options),
            device=space.resources.device,
        )
        *_, result = evaluate_sudoku(request, progress)
        document = result.document()
        rates = {str(row.get("kappa")): 100 * row["rate"] for row in document["rows"]}
        nfe = document["rows"][0]["mean_nfe"]
        journal.append_record(path, {"clues": clues, "budget": budget, "rates": rates, "nfe": nfe})
        return document["model"]


@dataclass(frozen=True, kw_only=True)
class SolvedOne(Step):
    """The built-in hard puzzle, with the rounds in which it was solved."""

    model: "Train | str" = "sudoku"
    nfe: int = 4
    seed_: int = 0

    def title(self, resources: Resources) -> str:
        return "puzzle"

    def about(self) -> str:
        return "solving one hard puzzle"

    def run(self, space: Workspace, progress: Progress) -> dict[str, Any]:
        from dbtm.service.solving import SolveRequest, solve

        request = SolveRequest(
            checkpoint=checkpoint_of(space, self.model),
            options={"nfe": self.nfe},
            seed=self.seed_,
            device=space.resources.device,
        )
        result = solve(request, progress=progress)
        rounds = [
            {
                "values": state.values_C.tolist(),
                "committed": None if state.committed_C is None else state.committed_C.tolist(),
            }
            for state in result.rounds
        ]
        puzzle = result.puzzle_C.tolist()
        return {"puzzle": puzzle, "rounds": rounds, "nfe": result.nfe, "solved": result.solved}
