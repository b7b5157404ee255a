"""The training loop: it uses a Method and a Task, and nothing specific to DBTM."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from dbtm import config as configuration
from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.loading import refuse_misfit
from dbtm.checkpoint.lock import RunLock
from dbtm.checkpoint.migrate import read_config
from dbtm.checkpoint.together import SharedFolder
from dbtm.config import RunConfig, TrainConfig
from dbtm.core.allocator import keep_freed_memory
from dbtm.core.device import pick_device
from dbtm.core.errors import UsageError
from dbtm.core.signals import StopOnSignal
from dbtm.kernels.dispatch import no_compiling
from dbtm.methods.base import Examples, backward, method_of
from dbtm.sampling import Sampler
from dbtm.tasks.base import Task
from dbtm.train import layout as layouts
from dbtm.train import state
from dbtm.train.batches import Split, check_batch, micro_batches
from dbtm.train.callbacks import Callback, services
from dbtm.train.distributed import LostPeer, World, listening
from dbtm.train.ema import EMA
from dbtm.train.evaluating import together
from dbtm.train.graph import GraphedBackward
from dbtm.train.header import announce, header, slow_line, trainer_header, watched
from dbtm.train.metrics import Metrics
from dbtm.train.optim import build_optimizers, schedule, set_learning_rate, state_tensors
from dbtm.train.pace import OPEN, Pace
from dbtm.train.prefetch import Prefetch
from dbtm.train.steady import SteadyCheckpoint, ways_back
from dbtm.train.team import Team

Evaluate = Callable[[Sampler, int], dict[str, float]]  # (sampler, seed) to metrics; "score" selects the best checkpoint
Load = Callable[[Task, torch.device], object]  # loads what evaluations need, on all processes
ASK_EVERY = 8  # steps between agreements of several devices on whether to stop; each waits for the GPUs


class NonFiniteLoss(RuntimeError):
    """The loss became infinite or NaN; the checkpoints are unchanged."""


class Interrupted(RuntimeError):
    """A signal stopped the run and something that its step needed; earlier checkpoints are unchanged."""

    def __init__(self, signal: str, step: int, newest: Path | None):
        kept = f"the last checkpoint is {newest}" if newest else "no checkpoint had been written yet"
        super().__init__(f"{signal} stopped step {step + 1} before it finished: {kept}")


class Trainer:
    """One run: build, resume, step, save."""

    def __init__(
        self,
        config: RunConfig,
        out: Path,
        resume: bool = False,
        evaluate: Evaluate | None = None,
        callbacks: Sequence[Callback] = (),
        smaller: str = "",
        load: Load | None = None,
    ):
        self.config, self.out, self.evaluate, self.smaller = config, out, evaluate, smaller
        self.header: list[str] = []  # lines to print after all checks
        self.least = 0.0  # lower bound of the run's seconds, if shown in the header
        self.device = pick_device(config.train.device)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.world = World.join(self.device.type == "cuda", config.train.peer_timeout)
        if self.device.type == "cuda" and self.world.size > 1:
            self.device = torch.device("cuda", self.world.local_rank)
            torch.cuda.set_device(self.device)
        self.split = Split.of(config.train, self.world.rank, self.world.size)
        track = (*(["tensorboard"] if config.train.tensorboard else []), *config.train.track)
        self.callbacks = [*services(track), *callbacks] if self.world.first else []
        if out.exists() and not out.is_dir():
            raise UsageError(f"{out} is a file: a run needs a folder")
        if (out / checkpoint.MANIFEST).is_file():
            raise UsageError(f"{out} is a checkpoint or prepared data: choose another folder for the run")
        self.lock = RunLock(out)
        if self.world.first:
            self.lock.refuse_if_held()
        newest = self.newest = self._newest()
        if newest is not None and not resume:
            raise UsageError(f"{out} already holds a run: resume it, or choose another folder")
        check_batch(config.task)
        self.files, self.data_sha256 = config.task.files(), config.task.data_sha256()
        self.shared: SharedFolder | None = None
        self.team: Team | None = None
        if self.world.size > 1:
            self.shared = SharedFolder(self.world.on_cpus())
            self.team = Team(self.world.on_cpus(), config.train.peer_timeout, "train.peer_timeout=", LostPeer)
        with self.team.split() if self.team else nullcontext(True) as first:
            if first:
                if load is not None:
                    load(config.task, self.device)
                config.task.prepare_evaluation()
        if newest is not None:  # before allocating anything of the configured size
            refuse_misfit(method_of(read_config(newest)), checkpoint.read_shapes(newest, "model"), newest)
        self.method = method_of(config).start()
        if newest is None and config.train.init:
            state.start_from(self.method, checkpoint.find(config.train.init), self.files)
        self._place()
        self.step = 0
        if newest is not None:
            self._load(newest)
        self.method.check_start(newest is not None or bool(config.train.init))
        self.steady = SteadyCheckpoint(out)
        self._prepare()

    def _newest(self) -> Path | None:
        """The checkpoint to resume from: the newest one that the first process sees."""
        newest = checkpoint.latest(self.out)
        if self.world.size == 1:
            return newest
        seen = checkpoint.step_of(newest) if newest else -1
        step = self.world.same(seen, self.device)
        folders = {checkpoint.step_of(folder): folder for folder in checkpoint.all_in(self.out)}
        if step >= 0 and step not in folders:
            raise UsageError(f"process {self.world.rank} does not see the run's checkpoints: share {self.out} by all")
        return folders.get(step)

    def _place(self) -> None:
        """Place networks and optimizers on their devices."""
        config, frozen = self.config, self.method.frozen
        size = layouts.state_bytes(self.method.network, len(frozen), config.optim.name)
        self.layout = layouts.choose(config, self.world, self.device, size)
        self.model = self.layout.place(self.method.network).train()
        for module in frozen.values():
            self.layout.place(module)
        self.optimizers = build_optimizers(self.model, config.optim, fused=self.device.type == "cuda")
        twin = self.layout.twin(self.model, self.method.outline)
        self.ema = EMA(self.model, config.optim.ema, config.optim.ema_warmup, twin)

    def _prepare(self) -> None:
        """Set precision, compilation, and the computation of gradients."""
        train = self.config.train
        if train.precision == "bf16":
            for module in (self.model, self.ema.model, *self.method.frozen.values()):
                module.compute_dtype = torch.bfloat16
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        self.graphed = train.graph and self.device.type == "cuda" and not self.layout.sharded
        if train.graph and self.layout.sharded and self.world.first:
            print("warning: train.graph is ignored: FSDP2 cannot be recorded as a CUDA graph", file=sys.stderr)
        self.layout.ready(self.model, [*self.method.frozen.values()], self.graphed)
        for module in (self.model, *self.method.frozen.values()):
            module.trunk.recompute = train.recompute
        scale = 1 / self.split.micro_batches
        self.backward = (
            GraphedBackward(self.method, scale) if self.graphed else partial(backward, self.method, scale=scale)
        )
        if train.compile and not (why_not := no_compiling(self.device)):
            for module in (self.model, *self.method.frozen.values()):
                module.compile_layers(dynamic=False)
        elif train.compile and self.world.first:
            print(f"warning: training continues without train.compile, which is slower: {why_not}", file=sys.stderr)

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self, max_seconds: float | None = None, pace: Pace | None = None) -> Path:
        """Train to the end, or until time is up or a signal asks to stop; always saves. Returns the checkpoint.

        A `pace` updates the number of steps during the run to fit into its time.
        """
        if self.world.first:
            self.lock.take()
        try:
            if self.world.first and checkpoint.latest(self.out) != self.newest:
                raise UsageError(f"{self.out} was trained by another process just now: resume it, or choose another")
            with listening(lambda: f"in step {self.step + 1}", self.config.train.peer_timeout):
                return self._run(max_seconds, pace)
        finally:
            self.lock.release()

    def _run(self, max_seconds: float | None, pace: Pace | None) -> Path:
        train, started = self.config.train, time.monotonic()
        metrics = self._metrics() if self.world.first else None
        sums: dict[str, Tensor] = {}
        counted = 0
        saved: Path | None = None
        with (
            metrics or nullcontext(),
            StopOnSignal(None if metrics is None else metrics.stopping) as stop,
            Prefetch(self.batches(), self.device) as batches,
        ):
            if metrics:
                metrics.stop_at(max_seconds)
            while self.step < train.steps:
                try:
                    terms = self._step(next(batches))
                except Exception as error:
                    if stop.signal:  # a terminal's Ctrl-C also kills the compilers that this step waits for
                        raise Interrupted(stop.signal, self.step, checkpoint.latest(self.out)) from error
                    raise
                for name, value in terms.items():
                    sums[name] = sums[name] + value if name in sums else value
                counted += 1
                self.step += 1
                late = max_seconds is not None and time.monotonic() - started >= max_seconds
                late = late or (pace is not None and pace.over())
                asked = self.world.size == 1 or self.step % ASK_EVERY == 0
                stopping = asked and self.world.agree(bool(stop.signal) or late, self.device)
                ending = stopping or self.step == train.steps
                evaluating = self.step == train.steps or (
                    not stopping and train.evaluate_every and self.step % train.evaluate_every == 0
                )
                due = self.step % train.checkpoint_every == 0 or self.step in train.milestones
                saving = ending or evaluating or due
                if saving or self.step % train.log_every == 0:  # report first: it raises on a non-finite loss
                    self._report(metrics, sums, counted)
                    sums, counted = {}, 0
                    if pace is not None and not ending and not self._decaying():
                        train = self._set_steps(pace.steps(self.step), metrics)
                elif metrics:
                    metrics.glance(self.step, terms)
                if saving:
                    saved = self._save()
                if evaluating:
                    self._evaluate(metrics)
                if stopping and self.step < train.steps:
                    if metrics:
                        why = stop.signal or "the time is up"
                        metrics.say(f"stopped at step {self.step} ({why}); it can be resumed")
                    break
        self._settle()
        self.world.barrier()
        return saved or self._folder()

    def _metrics(self) -> Metrics:
        config = configuration.to_dict(self.config)
        steps, told = self.config.train.steps, (self.callbacks, config, self.smaller, self.header)
        return Metrics(self.out, steps, self.step, *told, least=self.least)

    def _decaying(self) -> bool:
        """Whether the learning rate already depends on the length of the run."""
        optim, steps = self.config.optim, self.config.train.steps
        return optim.schedule == "wsd" and self.step >= (1 - optim.decay_fraction) * steps

    def _set_steps(self, steps: int | None, metrics: Metrics | None) -> TrainConfig:
        """Set a new length of the run, the same on all devices. If a term would start later, save and end the run."""
        steps = self.world.most(steps or 0, self.device)
        if not steps:
            return self.config.train
        try:
            self.method.check_length(steps)
        except UsageError:
            self._save()
            raise
        train = replace(self.config.train, steps=max(steps, self.step))
        optim = replace(self.config.optim, warmup=min(self.config.optim.warmup, train.steps))
        self.config = replace(self.config, train=train, optim=optim)
        if metrics:
            metrics.steps = train.steps
        return train

    def _step(self, micro_batches: list[Examples]) -> dict[str, Tensor]:
        """Gradients of all micro-batches, clipping, optimizer, EMA. Returns the terms, still on the device."""
        set_learning_rate(self.optimizers, schedule(self.step, self.config.train.steps, self.config.optim))
        sums: dict[str, Tensor] = {}
        targets = micro_batches[0].targets
        assert targets is not None
        share = self.world.mean(targets)  # for the whole batch, over all devices
        self.layout.begin(self.method.phase(self.step))
        self.method.before_step(self.step)
        for examples in (replace(each, targets=share) for each in micro_batches):
            torch.manual_seed(examples.dropout_seed)  # belongs to the micro-batch, on any device
            for name, value in self.backward(examples).items():
                part = value / len(micro_batches)
                sums[name] = sums[name] + part if name in sums else part
        self.layout.finish()
        sums["grad_norm"] = self.layout.clip(self.config.optim.clip or math.inf)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=not self.graphed)
        self.ema.update(self.model, self.step + 1)
        self.method.after_step(self.step + 1, self.ema.model)
        return sums

    def batches(self) -> Iterator[list[Examples]]:
        """Micro-batches of every following step, on this process's device."""
        return micro_batches(self.config, self.method.prepare, self.split, self.step, self.device)

    # -- reporting and saving --------------------------------------------------------------------------------------

    def _report(self, metrics: Metrics | None, sums: dict[str, Tensor], counted: int) -> None:
        """Report means since the last report; a non-finite loss ends the run before anything is saved."""
        values = self.world.mean(torch.stack([v.float() for v in sums.values()]) / counted).tolist()
        terms = dict(zip(sums, values, strict=True))
        if not math.isfinite(terms["loss"]) or not math.isfinite(terms["grad_norm"]):
            raise NonFiniteLoss(
                f"the loss became non-finite by step {self.step}: {ways_back(self.out)}; lower optim.lr or raise "
                "optim.warmup"
            )
        self.steady.add(terms, counted)
        if metrics:
            factor = schedule(self.step - 1, self.config.train.steps, self.config.optim)
            metrics.progress(self.step, terms, lr=self.config.optim.lr * factor)

    def _evaluate(self, metrics: Metrics | None) -> None:
        """A quick evaluation of the averaged weights; it selects the best checkpoint."""
        if self.evaluate is None:
            return
        with self._whole_teachers(), metrics.evaluating() if metrics else nullcontext():
            sampler = self.method.sampler(self.layout.whole(self.ema.model))
            if self.team is None:
                values = self.evaluate(sampler, self.config.train.seed)
            else:
                with together(sampler, self.team) as shared:  # the others leave it after the evaluation
                    values = self.evaluate(shared, self.config.train.seed) if shared else {}
        if not values or not metrics:
            return
        metrics.evaluated(self.step, values)
        best, task = checkpoint.best(self.out), self.config.task
        measured = {name: getattr(task, name) for name in task.evaluation_settings}
        if best is not None and best.get("measured", measured) != measured:
            best = None  # its score was measured with other settings, before the run was resumed
        better = math.isfinite(values.get("score", math.nan)) and (best is None or values["score"] > best["score"])
        if better:
            self._settle()
            checkpoint.set_best(self.out, self._folder(), values["score"], measured)
            self._prune()  # delete the previous best

    @contextmanager
    def _whole_teachers(self) -> Iterator[None]:
        """A context with unsharded frozen networks: every process evaluates the objective on its own rows."""
        frozen = self.method.frozen
        placed = dict(frozen)
        frozen.update({name: self.layout.whole(module) for name, module in placed.items()})
        try:
            yield
        finally:
            frozen.update(placed)

    def _folder(self) -> Path:
        return self.out / f"step-{self.step:08d}"

    def _save(self) -> Path:
        folder = self._folder()
        tensors = {
            "model": self.model.state_dict(),
            "ema": self.ema.model.state_dict(),
            "optim": state_tensors(self.optimizers, self.model),
            **{name: module.state_dict() for name, module in self.method.frozen.items()},
        }
        counters = {"step": self.step, "samples": self.step * self.config.train.batch, "data": self.data_sha256}
        documents = {"config": configuration.dumps(self.config), "state": counters}
        if self.world.first:
            self.lock.check()
        if self.shared is None:
            checkpoint.write(folder, tensors, documents, self.files)
            self.steady.saved(folder)
            self._prune()
        else:
            self._settle()
            self.shared.write(folder, tensors, documents, self.files)
            if self.world.first:
                self.steady.saved(folder)
        return folder

    def _settle(self) -> None:
        """Wait until a checkpoint written by several processes is complete; then delete older ones."""
        if self.shared is not None:
            self.shared.wait()
            if self.world.first:
                self._prune()

    def _prune(self) -> None:
        checkpoint.prune(self.out, self.config.train.keep, self.config.train.milestones)

    def _load(self, folder: Path) -> None:
        share, networks = (self.world.rank, self.world.size), {"model": self.model, "ema": self.ema.model}
        checkpoint.verify(folder, share=share)
        self.config = state.resumed(self.config, folder, self.data_sha256)
        state.load_networks(folder, {**networks, **self.method.frozen}, self.layout.sharded)
        state.load_optimizers(folder, self.optimizers, self.model)
        self.step = state.step_of(folder, self.config)


def fit(
    config: RunConfig,
    out: str | Path,
    resume: bool = False,
    max_seconds: float | None = None,
    minutes: float | None = None,
    evaluate: Evaluate | None = None,
    callbacks: Sequence[Callback] = (),
    smaller: str = "",
    load: Load | None = None,
    least: float = 0.0,
) -> Path:
    """Train a run and return the folder of its last checkpoint.

    With `minutes`, train.steps is set to fit this time, by the speed measured during the run. `evaluate` runs during
    training, with what `load` has loaded before the first step; `callbacks` receive all metrics. `smaller` names a
    recipe to try if the run would take days, and `least` is a lower bound of its seconds, if known.
    """
    if minutes is not None:
        config = replace(config, train=replace(config.train, steps=OPEN))
    started = time.monotonic()
    first_lines = [*header(config, Path(out), minutes), *slow_line(least, config.train.steps, smaller)]
    said = watched()
    announce(first_lines if said else [])
    with listening(lambda: "before the first step", config.train.peer_timeout):
        trainer = Trainer(config, Path(out), resume, evaluate, callbacks, smaller, load)
    trainer.header, trainer.least = [*([] if said else first_lines), *trainer_header(trainer)], least
    pace = None if minutes is None else Pace(minutes - (time.monotonic() - started) / 60, trainer.step)
    try:
        folder = trainer.run(max_seconds, pace)
    except LostPeer:
        raise  # without leaving together: that would wait for the lost process
    except BaseException:
        trainer.world.leave()
        raise
    trainer.world.leave()
    return folder
