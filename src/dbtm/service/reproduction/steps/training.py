"""Training a model, and the synthetic text for small ones."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

from dbtm.checkpoint import folder as checkpoint
from dbtm.config import RunConfig
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.service.progress import Cancelled, Progress
from dbtm.service.reproduction.steps.base import Resources, Step, Workspace
from dbtm.tasks.folder import MANIFEST

TICKS = 20  # progress reports per run, at which it can be cancelled


@dataclass(frozen=True, kw_only=True)
class Corpus(Step):
    """Synthetic English stories of two sentences. A user's prepared text replaces them."""

    documents: int = 6_000
    vocab: int = 400
    length: int = 24

    def identity(self, resources: Resources) -> dict[str, Any]:
        if "text" in resources.data:
            return {"step": "text of the user", "sha256": _manifest(resources.data["text"])}
        return super().identity(resources)

    def title(self, resources: Resources) -> str:
        return "text"

    def about(self) -> str:
        return f"preparing text: {self.documents:,} made-up stories, V = {self.vocab}, L = {self.length}"

    def run(self, space: Workspace, progress: Progress) -> dict[str, Any]:
        if "text" in space.resources.data:
            return {"whose": "yours"}
        from dbtm.service.reproduction.steps.sentences import story
        from dbtm.tasks.text import tokenizer as tokenizers
        from dbtm.tasks.text.prepare import Layout, assigned, prepare
        from dbtm.tasks.text.sources import Piece

        def documents() -> Iterator[Piece]:
            return (Piece(story(key), True) for key in range(self.documents))

        out, layout = self.path(space), Layout(self.length, validation=0.05)
        texts = (item.text for item in assigned([(None, documents())], layout) if item.split == "train")
        words = tokenizers.train(texts, self.vocab)
        prepare([(None, documents())], words, out, layout, about={"source": ["made-up stories"]})
        return {"whose": "made up"}

    def path(self, space: Workspace) -> Path:
        """Path of the prepared text in the workspace."""
        return space.resources.data.get("text", space.folder(self) / "data")


@dataclass(frozen=True, kw_only=True)
class Problems(Step):
    """Synthetic word problems with their programs, prepared for the recipe `gsm-small`."""

    examples: int = 2_000
    vocab: int = 512
    length: int = 96

    def title(self, resources: Resources) -> str:
        return "problems"

    def about(self) -> str:
        return f"preparing {self.examples:,} made-up word problems with programs, V = {self.vocab}, L = {self.length}"

    def run(self, space: Workspace, progress: Progress) -> dict[str, Any]:
        from dbtm.tasks.gsm8k import prepared
        from dbtm.tasks.gsm8k.layout import train_tokenizer
        from dbtm.tasks.gsm8k.synthetic import problem

        made = [problem(key) for key in range(self.examples)]
        words = train_tokenizer((f"{each.question}\n{each.code}" for each in made), self.vocab)
        source = prepared.Source({"synthetic": self.examples}, iter(made))
        manifest = prepared.write(self.path(space), words, self.length, [source])
        return {"examples": manifest["examples"], "too_long": manifest["too_long"]}

    def path(self, space: Workspace) -> Path:
        return space.folder(self) / "data"


@dataclass(frozen=True, kw_only=True)
class Train(Step):
    """A training run, resumed automatically."""

    recipe: str
    changes: tuple[str, ...] = ()
    method: str | None = None
    init: "Train | None" = None
    """A run whose averaged weights it starts from."""
    data: "Corpus | Problems | str | None" = None
    """A step that makes the data, or the name of a user's data."""
    evaluations: int = 1
    """Quick evaluations during the run, the last at the end."""
    small: bool = True
    """A long run prints its losses as `dbtm train` does; a short one prints nothing."""

    def identity(self, resources: Resources) -> dict[str, Any]:
        values = super().identity(resources)
        if isinstance(self.data, str) and self.data in resources.data:
            values["data"] = [self.data, _manifest(resources.data[self.data])]
        return values

    def title(self, resources: Resources) -> str:
        return f"train-{self.recipe}" + (f"-{self.method}" if self.method else "")

    def about(self) -> str:
        return f"training {self.recipe}" + (f" by {self.method}" if self.method else "")

    def configuration(self, space: Workspace | None = None) -> RunConfig:
        """The configuration; without a workspace only the recipe and its changes."""
        from dbtm.service.training import TrainRequest, configuration

        if space is None:
            return configuration(TrainRequest(self.recipe, self.method, self.changes))
        init = None if self.init is None else self.init.run_folder(space)
        request = TrainRequest(self.recipe, self.method, self.changes, self.run_folder(space), resume=True, init=init)
        return configuration(replace(request, data=self.data_path(space)))

    def run_folder(self, space: Workspace) -> Path:
        return space.folder(self) / "run"

    def data_path(self, space: Workspace) -> Path | None:
        """Path of its data."""
        if isinstance(self.data, str):
            return space.resources.find(self.data)
        return None if self.data is None else self.data.path(space)

    def run(self, space: Workspace, progress: Progress) -> dict[str, Any]:
        config = self.configuration(space)
        steps, device = config.train.steps, space.resources.device
        ticks = max(1, steps // TICKS)
        config = replace(config, train=replace(config.train, device=device, evaluate_every=ticks))
        out = self.run_folder(space)
        progress.stage(self.about(), steps)
        with ExitStack() as stack:
            if self.small:
                stack.enter_context(redirect_stderr(StringIO()))
            last = self._fit(config, out, ticks, progress)
        if checkpoint.read_state(last)["step"] < steps:
            raise Cancelled  # a signal ended the loop, which has saved a checkpoint
        return {"run": "run", "steps": steps, "batch": config.train.batch, "curve": list(_curve(out))}

    def _fit(self, config: RunConfig, out: Path, ticks: int, progress: Progress) -> Path:
        from dbtm.evals import quick
        from dbtm.train import loop

        steps, newest = config.train.steps, checkpoint.latest(out)
        done = 0 if newest is None else checkpoint.read_state(newest)["step"]
        wanted = {round(steps * i / self.evaluations) // ticks for i in range(1, self.evaluations + 1)}
        progress.advance(done)

        def evaluate(sampler: Any, seed: int) -> dict[str, float]:
            nonlocal done
            done = min(steps, (done // ticks + 1) * ticks)
            progress.advance(done)
            if progress.cancelled():
                raise Cancelled
            return quick.evaluate(sampler, seed) if done // ticks in wanted or done == steps else {}

        return loop.fit(config, out, resume=True, evaluate=evaluate)


def _curve(out: Path) -> Iterator[dict[str, float]]:
    """The quick evaluations of a run."""
    for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        values = {name.removeprefix("eval/"): value for name, value in record.items() if name.startswith("eval/")}
        if values:
            yield {"step": record["step"], **values}


def _manifest(path: Path) -> str:
    """The digest of a prepared set."""
    manifest = path / MANIFEST if path.is_dir() else path
    if not manifest.is_file():
        raise UsageError(f"{path} is not prepared data: make it with `dbtm data`")
    return sha256(manifest)


def checkpoint_of(space: Workspace, model: "Train | str", at: int | None = None) -> str:
    """The checkpoint to sample from: a packaged model by name, or a run's last one or the one at a step."""
    if isinstance(model, str):
        return model
    run = model.run_folder(space)
    return str(run if at is None else run / f"step-{at:08d}")
