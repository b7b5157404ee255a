"""Samples of a text model at many settings, judged: the work behind every table of perplexities."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dbtm.evals.judges import load_judge
from dbtm.evals.judges.base import Judge
from dbtm.evals.sweep.studies import Cell
from dbtm.service.progress import Progress
from dbtm.service.reproduction.steps.base import Resources, Step, Workspace
from dbtm.service.reproduction.steps.training import Train, checkpoint_of

Setting = tuple[str, str, tuple[tuple[str, Any], ...]]
"""Row, column, and the sampler options of a cell."""


def setting(row: str, column: str, **options: Any) -> Setting:
    return row, column, tuple(sorted(options.items()))


@lru_cache(maxsize=1)
def _judge(name: str, device: str) -> Judge:
    """One judge serves all steps of a plan."""
    return load_judge(name, device)


@dataclass(frozen=True, kw_only=True)
class Judged(Step):
    """n samples per setting: perplexity under the judge and entropy."""

    model: "Train | str"
    settings: tuple[Setting, ...]
    n: int = 64
    at: int | None = None
    """Training step of the sampled checkpoint; None: the last."""
    judge: str = "smollm2"
    """The default judge."""
    real: bool = False
    """Judge real held-out text too, if the model has its data."""

    def identity(self, resources: Resources) -> dict[str, Any]:
        return {**super().identity(resources), "judge": self.judged_by(resources)}

    def judged_by(self, resources: Resources) -> str:
        return resources.judge or self.judge

    def title(self, resources: Resources) -> str:
        return f"judge-{self.model if isinstance(self.model, str) else self.model.title(resources)}"

    def about(self) -> str:
        model = self.model if isinstance(self.model, str) else self.model.about().removeprefix("training ")
        return f"judging {len(self.settings)} x {self.n} samples of {model}"

    def run(self, space: Workspace, progress: Progress) -> dict[str, Any]:
        from dbtm.evals.perplexity import measure
        from dbtm.evals.samples import key
        from dbtm.service.sweeping import SweepRequest, run_sweep

        name = self.judged_by(space.resources)
        cells = tuple(Cell("reproduction", row, column, dict(options)) for row, column, options in self.settings)
        result = run_sweep(
            SweepRequest(
                folder=space.folder(self) / "sweep",
                checkpoint=checkpoint_of(space, self.model, self.at),
                studies=(),
                cells=cells,
                judge=None if name == "none" else name,
                n=self.n,
                references=self.real,
                data=self.model.data_path(space) if self.real and isinstance(self.model, Train) else None,
                device=space.resources.device,
            ),
            progress,
            None if name == "none" else _judge(name, space.resources.device),
        )
        plan = result.folder.plan
        assert plan is not None
        sets = list(result.folder.sets())
        measured = list(result.rows.values()) or [measure(each, None).document() for each in sets]
        scores = {key(score["settings"]): score for score in measured if score["kind"] == "sample"}
        texts = {key(each.settings): each.texts for each in sets if each.kind == "sample"}
        rows = []
        for cell in plan.cells:
            score = scores[key(cell.settings)]
            rows.append(
                {
                    "row": cell.row,
                    "column": cell.column,
                    "perplexity": score["perplexity"],
                    "entropy": score["entropy"],
                    "low": score.get("perplexity_low"),
                    "high": score.get("perplexity_high"),
                    "nfe": score["nfe"],
                    "settings": cell.settings,
                    "text": texts[key(cell.settings)][0],
                }
            )
        real = next((score for score in measured if score["kind"] == "real"), None)
        compared = None if real is None else [real["perplexity"], real["entropy"]]
        return {"rows": rows, "real": compared, "n": self.n, "judge": name, "origin": plan.origin}
