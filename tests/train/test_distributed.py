"""Several processes train like one: same batches and noise, and the same weights up to the order of sums."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import pytest
import torch

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint import weights as averaged
from dbtm.config import override
from dbtm.core.errors import UsageError
from dbtm.evals.judges import load_judge
from dbtm.evals.judges.gguf import GGUFJudge
from dbtm.evals.validation import validation_loss
from dbtm.methods.base import Examples
from dbtm.methods.dbtm import Config, DistillConfig, PathConfig, PosteriorConfig, QualityConfig, ReflowConfig
from dbtm.nn import Backbone
from dbtm.recipes import recipe
from dbtm.tasks.base import Batch, register
from dbtm.tasks.toy import Markov
from dbtm.train.loop import ASK_EVERY, Trainer
from tests.evals.judges import gguf_writer
from tests.train import workers
from tests.train.test_resume import tiny_run

pytest.importorskip("resource", reason="processes are forked")


@register
@dataclass(frozen=True)
class UnequalPrompts(Markov):
    """0 to 4 tokens of a row are given: ranks have different numbers of targets, but need one common denominator."""

    name = "unequal-prompts-for-test"

    def batch(self, index):
        tokens = super().batch(index).tokens
        return Batch(tokens, np.arange(self.length) < (np.asarray(index) % 5)[:, None])


@pytest.fixture
def doubles():
    """float64 throughout, so that results differ only by the order of sums."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def run_config(layout="auto", micro_batch=4, clip=1.0, **train):
    base = replace(tiny_run(), task=UnequalPrompts(vocab=5, length=6))
    train = replace(base.train, micro_batch=micro_batch, layout=layout, **train)
    return replace(base, train=train, optim=replace(base.optim, clip=clip))


def whole(tensor):
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().clone()


def state(trainer):
    """The complete state of a run between steps, unsharded."""
    modules = {"model": trainer.model, "ema": trainer.ema.model, **trainer.method.frozen}
    out = {f"{name}.{key}": whole(value) for name, m in modules.items() for key, value in m.state_dict().items()}
    for number, optimizer in enumerate(trainer.optimizers):
        for p, slots in optimizer.state.items():
            key = next(name for name, q in trainer.model.named_parameters() if q is p)
            out |= {f"optim{number}.{key}.{slot}": whole(torch.as_tensor(v)) for slot, v in slots.items()}
    return out


def take_steps(config, out, steps):
    """A trainer after so many steps, and the averaged gradients of each step."""
    trainer, gradients = Trainer(config, out), []
    clip, batches = trainer.layout.clip, trainer.batches()

    def keep(most):
        named = trainer.model.named_parameters()
        gradients.append({name: whole(p.grad) for name, p in named if p.grad is not None})
        return clip(most)

    trainer.layout.clip = keep
    for _ in range(steps):
        trainer._step(next(batches))
        trainer.step += 1
    return trainer, gradients


# -- batches, noise and gradients ------------------------------------------------------------------------------------


def seen(out, layout, micro_batch=4):
    """One step's batches, noise and gradients."""
    trainer = Trainer(replace(run_config(layout, micro_batch), method=tiny_run(distill=DistillConfig()).method), out)
    with mock.patch.object(UnequalPrompts, "batch", autospec=True, side_effect=UnequalPrompts.batch) as read:
        examples = next(trainer.batches())
    asked = np.concatenate([call.args[1] for call in read.call_args_list]).tolist()
    drawn = [(e.tokens, e.sample_key, trainer.method.draw_noise(e).dense()) for e in examples]
    gradients = take_steps(trainer.config, out, 1)[1][0]
    return {"rows": asked, "seen": drawn, "gradients": gradients, "targets": [int((~e.prompt).sum()) for e in examples]}


@pytest.mark.parametrize("size", [2, 8])
def test_ranks_equal_accumulation_steps(tmp_path, doubles, size):
    """With different prompts: eight devices with a row each have the gradients of one device."""
    micro = 8 // size
    one = seen(tmp_path / "one", "auto", micro)
    assert len(one["seen"]) == size
    assert len(set(one["targets"])) > 1
    ranks = workers.run(size, seen, tmp_path / "many", "replicate", micro, folder=tmp_path)
    for m, rank in enumerate(ranks):
        assert rank["rows"] == list(range(micro * m, micro * (m + 1))), "each reads only its own rows"
        for mine, theirs in zip(one["seen"][m], rank["seen"][0], strict=True):
            assert torch.equal(mine, theirs), "same batches and noise exactly"
    assert one["gradients"]
    for name, gradient in one["gradients"].items():
        for rank in ranks:
            torch.testing.assert_close(rank["gradients"][name], gradient, rtol=1e-10, atol=1e-13)


def first_gradients(out, layout, micro_batch):
    """The gradients of a step in which only the denominator depends on the split of the batch."""
    base = run_config(layout, micro_batch)
    method = replace(base.method, path=PathConfig(coupling="independent"), distill=DistillConfig())
    method = replace(method, loss=replace(method.loss, boundary_fraction=1.0))  # not a share per micro-batch
    config = replace(base, method=method, model=replace(base.model, dropout=0.0))
    return take_steps(config, out, 1)[1][0]


def test_one_denominator_however_the_batch_is_cut(tmp_path, doubles):
    """With different prompts: eight micro-batches of one row, and eight devices with one row each, have the gradients
    of one batch of eight.
    """
    whole, cut = (first_gradients(tmp_path / f"of-{size}", "auto", size) for size in (8, 1))
    ranks = workers.run(8, first_gradients, tmp_path / "ranks", "replicate", 1, folder=tmp_path)
    assert whole
    for name, gradient in whole.items():
        for other in (cut, *ranks):
            torch.testing.assert_close(other[name], gradient, rtol=1e-6, atol=1e-9, msg=name)


# -- layouts -----------------------------------------------------------------------------------------------------------

LAYOUTS = {"replicate": 4, "shard": 4, "hybrid": 2, "hybrid, recomputed": 2}  # processes per node


def in_every_layout(out):
    """Weights, averages, teacher and optimizers after three steps, and this process's bytes of them."""
    found = {}
    for name, in_node in LAYOUTS.items():
        os.environ["LOCAL_WORLD_SIZE"] = str(in_node)
        config = run_config(name.split(",")[0], micro_batch=2, recompute="recomputed" in name)
        trainer, gradients = take_steps(config, out / name, 3)
        kept = [v for o in trainer.optimizers for s in o.state.values() for v in s.values() if torch.as_tensor(v).ndim]
        held = {"weights": [*trainer.model.parameters()], "average": [*trainer.ema.model.parameters()]}
        held |= {"frozen": [*trainer.method.frozen["teacher"].parameters()], "optimizer": kept}
        size = {key: sum(_local(x).nbytes for x in tensors) for key, tensors in held.items()}
        found[name] = {"state": state(trainer), "gradients": gradients, "bytes": size}
    return found


def _local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def test_four_processes_in_every_layout_train_what_one_does(tmp_path, doubles):
    """With every term of the objective, dropout, a refreshed teacher, Muon and Adam; 2 x 2 as two nodes."""
    from dbtm.service.planning.memory import state_memory
    from dbtm.service.planning.work import Work

    trainer, gradients = take_steps(run_config(micro_batch=2), tmp_path / "one", 3)
    expected, work = state(trainer), Work(run_config())
    ranks = workers.run(4, in_every_layout, tmp_path, folder=tmp_path)
    for name, in_node in LAYOUTS.items():
        for rank in ranks:
            for mine, theirs in zip(gradients, rank[name]["gradients"], strict=True):
                assert mine.keys() == theirs.keys()
                for key in mine:
                    torch.testing.assert_close(theirs[key], mine[key], rtol=1e-10, atol=1e-13)
            assert rank[name]["state"].keys() == expected.keys()
            for key, value in expected.items():
                torch.testing.assert_close(rank[name]["state"][key], value, rtol=1e-9, atol=1e-11)
        planned = state_memory(work, 1 if name == "replicate" else in_node, frozen=1)
        for part in ("weights", "average", "frozen", "optimizer"):
            held = sum(rank[name]["bytes"][part] for rank in ranks) / 4
            assert held == pytest.approx(2 * planned[part], rel=0.01), "planned in float32, held in float64"


def bits(out, layout):
    return state(take_steps(run_config(layout, clip=0.0).by("mdlm"), out, 3)[0])


@pytest.mark.parametrize("size", [1, 2])
def test_where_sums_have_one_order_the_bits_are_the_same(tmp_path, size):
    """For sums of two gradients, with one part of the objective per micro-batch. Clipping is off, because shards sum
    the norm in another order.
    """
    expected = bits(tmp_path / "one", "auto")
    for layout in ("shard",) if size == 1 else ("replicate", "shard"):
        folder = tmp_path / f"{layout}-results"
        folder.mkdir()
        for rank in workers.run(size, bits, tmp_path / layout, layout, folder=folder):
            assert rank.keys() == expected.keys()
            assert all(torch.equal(rank[key], value) for key, value in expected.items())


TAUGHT = {"mdlm-di4c": "mdlm", "duo-di4c": "duo", "mdlm-sdtt": "mdlm", "duo-dcd": "duo"}  # student: teacher
REFLOW = "reflow"


def by_method(name, layout, **train):
    base = run_config(layout, **train)
    return replace(base.by(name), train=base.train, model=base.model, optim=base.optim)


def with_reflow(layout):
    """DBTM with reflow from the second step on, from a copy that every step renews."""
    base = run_config(layout)
    reflow, quality = ReflowConfig(weight=0.5, start=1, rounds=3, refresh=1), QualityConfig(enabled=False)
    return replace(base, method=Config(posterior=PosteriorConfig(weight=1.0), reflow=reflow, quality=quality))


def taught(out, teachers, layout):
    """Gradients, weights and optimizers of the first steps, by method."""
    found = {}
    for name, teacher in [*TAUGHT.items(), (REFLOW, "")]:
        config = by_method(name, layout, init=str(teachers / teacher)) if teacher else with_reflow(layout)
        if name.endswith("di4c"):  # in the second step, at a small time, one process has a zero loss
            config = replace(config, method=replace(config.method, small_share=0.4, delta=0.2, latents=4))
        trainer, gradients = take_steps(config, out / name, 3)
        found[name] = {"gradients": gradients, "state": state(trainer)}
    return found


def test_methods_with_a_teacher_train_in_two_shards_what_one_process_does(tmp_path, doubles):
    """Muon too, which amplifies differences in bfloat16 rounding: see `muon._whole`."""
    teachers = tmp_path / "teachers"
    for name in sorted({*TAUGHT.values()}):
        Trainer(by_method(name, "auto", steps=3), teachers / name).run()
    expected = taught(tmp_path / "one", teachers, "auto")
    for rank in workers.run(2, taught, tmp_path / "two", teachers, "shard", folder=tmp_path):
        for name in (*TAUGHT, REFLOW):
            for mine, theirs in zip(expected[name]["gradients"], rank[name]["gradients"], strict=True):
                assert mine.keys() == theirs.keys()
                for key in mine:
                    torch.testing.assert_close(theirs[key], mine[key], rtol=1e-9, atol=1e-12, msg=f"{name} {key}")
            for key, value in expected[name]["state"].items():
                torch.testing.assert_close(rank[name]["state"][key], value, rtol=1e-9, atol=1e-11, msg=f"{name} {key}")


def test_recomputed_activations_change_nothing(tmp_path):
    plain, again = (
        state(take_steps(run_config(recompute=recompute), tmp_path / str(recompute), 3)[0])
        for recompute in (False, True)
    )
    assert all(torch.equal(again[key], value) for key, value in plain.items())


def compiled_and_recomputed(out):
    """Weights after two steps of one sharded process; a backend that needs no compiler."""
    plain = Backbone.compile_layers
    Backbone.compile_layers = lambda self, **options: plain(self, backend="aot_eager", **options)
    return state(take_steps(run_config("shard", recompute=True, compile=True), out, 2)[0])


def test_sharded_blocks_are_compiled_alike_for_both_passes(tmp_path):
    """The recomputed pass must save what the first one saved: compiled for other kinds of input, it would not."""
    expected = state(take_steps(run_config(recompute=True), tmp_path / "plain", 2)[0])
    (found,) = workers.run(1, compiled_and_recomputed, tmp_path / "compiled", folder=tmp_path)
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=1e-3, atol=1e-5, msg=key)


def sent_early(out):
    """The number of buckets already sent when the last backward pass ended, by step."""
    trainer, early = Trainer(run_config("replicate", micro_batch=2), out), []
    averaging, batches = trainer.layout.averaging, trainer.batches()
    finish = averaging.finish

    def count():
        early.append(averaging.next)
        finish()

    averaging.finish = count
    for _ in range(4):
        trainer._step(next(batches))
        trainer.step += 1
    return {"early": early, "buckets": len(averaging.buckets)}


def test_gradients_are_sent_within_the_backward_pass(tmp_path, monkeypatch):
    """From the second step of a phase on; self-distillation starts a new phase after two steps, and refreshes."""
    monkeypatch.setattr("dbtm.train.averaging.BUCKET", 4096)
    for rank in workers.run(2, sent_early, tmp_path / "run", folder=tmp_path):
        assert rank["buckets"] > 3
        assert rank["early"] == [0, rank["buckets"], 0, rank["buckets"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["train.layout=shard"], r"train.layout=shard is for several processes: start them with torchrun"),
        (["train.layout=hybrid"], r"train.layout=hybrid is for several processes"),
    ],
)
def test_layouts_for_several_processes_are_refused_for_one(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        Trainer(override(recipe("markov"), [*changes, "train.device=cpu"]), tmp_path / "run")


def refusals(out):
    said = []
    for method, changes in (("cfm", []), ("dfm", ["method.surgery=true"])):
        config = override(recipe("markov").by(method), [*changes, "train.device=cpu", "train.layout=shard"])
        with pytest.raises(UsageError) as refused:
            Trainer(config, out)
        said.append(str(refused.value))
    return said


def test_methods_that_need_whole_weights_say_so(tmp_path):
    (said,) = workers.run(1, refusals, tmp_path / "run", folder=tmp_path)
    assert all("set train.layout=replicate" in line for line in said)


# -- checkpoints and evaluation of several processes -------------------------------------------------------------------


def trained(out, layout, steps, in_node):
    os.environ["LOCAL_WORLD_SIZE"] = str(in_node)
    config = run_config(layout, micro_batch=2, steps=steps, checkpoint_every=2)
    config = replace(config, optim=replace(config.optim, schedule="constant"))  # independent of the number of steps
    Trainer(config, out, resume=True).run()


def test_a_run_moves_between_layouts_and_numbers_of_devices(tmp_path, doubles):
    """One process, two sharded, four as two nodes, two replicated, one: the weights equal those of a run on one."""
    trained(tmp_path / "whole", "auto", 8, 1)
    run = tmp_path / "run"
    trained(run, "auto", 3, 1)
    for size, layout, steps, in_node in ((2, "shard", 4, 2), (4, "hybrid", 5, 2), (2, "replicate", 7, 2)):
        results = tmp_path / layout
        results.mkdir()
        workers.run(size, trained, run, layout, steps, in_node, folder=results)
        checkpoint.verify(checkpoint.latest(run))
        assert checkpoint.latest(run).name == f"step-{steps:08d}"
    assert averaged.names(checkpoint.latest(run)) == ["ema-00001.safetensors", "ema-00002.safetensors"]
    same_samples_when_exported(run, tmp_path / "exported")
    trained(run, "auto", 8, 1)
    for part in ("model", "ema", "optim", "teacher"):
        one, moved = (checkpoint.read_tensors(checkpoint.latest(folder), part) for folder in (tmp_path / "whole", run))
        assert one.keys() == moved.keys()
        for key, value in one.items():
            torch.testing.assert_close(moved[key], value, rtol=1e-8, atol=1e-10)
    assert not list(run.glob(".*-step-*"))


def same_samples_when_exported(run, out):
    """A folder written by several processes is loaded directly, and its export with whole files samples the same."""
    import dbtm
    from dbtm.service.gathering import gather

    assert gather(run, out) == out
    checkpoint.verify(out)
    newest = checkpoint.latest(run)
    assert {path.name for path in out.iterdir()} >= {"ema.safetensors", "optim.safetensors", "config.json"}
    for part in ("model", "ema", "optim", "teacher"):
        one, other = checkpoint.read_tensors(newest, part), checkpoint.read_tensors(out, part)
        assert one.keys() == other.keys()
        assert all(torch.equal(value, other[key]) for key, value in one.items())
    a, b = (dbtm.load(folder).sample(3, nfe=2).tokens for folder in (run, out))
    assert (a == b).all()
    with pytest.raises(UsageError, match="is not empty"):
        gather(run, out)


def evaluated(out, judge):
    """The sampled rows, their metrics, and the number of rows that this process evaluated and judged."""
    rows, numbers, worked = [], [], {"validation": 0, "judge": 0}

    def measure(sampler, seed):
        rows.append(torch.from_numpy(sampler.sample(50, seed=seed, nfe=2).tokens))
        given = np.tile(np.arange(6) % 5, (21, 1))
        rows.append(torch.from_numpy(sampler.sample(tokens=given, clean=given < 2, seed=seed, nfe=3).tokens))
        texts = ["in the end", "the inn", "a tin hat"] * 5
        numbers.append(torch.from_numpy(load_judge(judge, "cpu").score(texts).nll_B))
        numbers.append(torch.tensor(validation_loss(sampler, seed)))
        return {"score": float(rows[0].float().mean())}

    def judged(self, ids, token_nll=GGUFJudge.token_nll):
        worked["judge"] += len(ids)
        return token_nll(self, ids)

    def validated(*args, **more):
        worked["validation"] += len(args[0])
        return Examples(*args, **more)

    trainer = Trainer(run_config("shard" if "RANK" in os.environ else "auto", steps=3), out, evaluate=measure)
    with (
        mock.patch.object(GGUFJudge, "token_nll", judged),
        mock.patch("dbtm.evals.judges.base.MOST_TOKENS", {"cpu": 32}),
        mock.patch("dbtm.evals.validation.Examples", validated),
    ):
        trainer.run()
    return rows, numbers, worked


def test_all_processes_sample_and_judge_for_an_evaluation(tmp_path, doubles):
    """Including the objective on held-out rows, which uses a sharded teacher."""
    judge = str(gguf_writer.model_file(tmp_path / "tiny.gguf"))
    rows, numbers, worked = evaluated(tmp_path / "one", judge)
    first, second = workers.run(2, evaluated, tmp_path / "two", judge, folder=tmp_path)
    assert second[:2] == ([], []), "the first process measures"
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(rows, first[0], strict=True))
    assert torch.equal(numbers[0], first[1][0])
    torch.testing.assert_close(first[1][1], numbers[1], rtol=1e-9, atol=0.0)
    assert checkpoint.best(tmp_path / "two") == checkpoint.best(tmp_path / "one")
    for name, total in worked.items():
        assert first[2][name] + second[2][name] == total
        assert second[2][name] >= total / 3


def test_torchrun_trains_and_resumes(tmp_path):
    """The documented command, on two CPU processes: it trains, saves once, continues, and stops together."""

    def run(steps: int, *options: str) -> str:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]
        command += [str(workers.free_port()), "-m", "dbtm", "train", "markov", "--out", str(tmp_path)]
        command += ["--resume", "auto"]
        settings = ["train.batch=8", "train.log_every=1", "optim.warmup=1", "train.device=cpu"]
        settings += ["model.width=16", "model.depth=1", "model.heads=2"]
        settings += ["task.vocab=3", "task.length=2", "train.evaluate_every=0"]  # one evaluation, at the end: small
        for setting in (f"train.steps={steps}", *settings):
            command += ["--set", setting]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        ended = subprocess.run([*command, *options], capture_output=True, text=True, env=environment)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.count("step-") == 1
        return ended.stderr

    assert "step 3/3" in run(3)
    newest = checkpoint.latest(tmp_path)
    assert newest.name == "step-00000003"
    checkpoint.verify(newest)
    assert f"stopped at step {ASK_EVERY} (the time is up)" in run(500, "--max-seconds", "0.001")
    newest = checkpoint.latest(tmp_path)
    assert newest.name == f"step-{ASK_EVERY:08d}"
    checkpoint.verify(newest)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    taken = [row["step"] for row in rows if "eval/score" not in row]
    assert taken == list(range(1, ASK_EVERY + 1)), "every step once: the second run resumed the first"
