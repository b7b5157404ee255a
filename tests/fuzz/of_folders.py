"""Readers of folders with a manifest or a plan, and of judges: prepared sets, checkpoints, samples, sweeps, GGUF."""

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.fuzz import corpus
from tests.fuzz.harness import Files
from tests.fuzz.mutate import Draw, json_mutated, lines_mutated, mutated, safetensors_mutated
from tests.fuzz.registry import Make, file, target

# -- prepared sets -----------------------------------------------------------------------------------------------------


def _refit(manifest: dict, files: Files) -> None:
    """Set a manifest's sha256 to those of the files as they are now."""
    sums = {name.rpartition("/")[2]: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    for split in ("train", "validation"):
        for shard in manifest.get(split, {}).get("shards", []):
            shard["sha256"] = sums.get(shard["file"], "")
    if "sha256" in manifest.get("tokenizer", {}):
        manifest["tokenizer"]["sha256"] = sums["tokenizer.json"]
    if "files" in manifest:
        manifest["files"] = {name: sums[name] for name in manifest["files"]}


def _set(good: Callable[[], Files]) -> Make:
    def make(draw: Draw) -> Files:
        files = dict(good())
        names = [name for name in files if not name.endswith("manifest.json")]
        if draw.random() < 0.6:
            name = draw.choice(names)
            damage = json_mutated if name.endswith(".json") else mutated
            files[name] = damage(draw, files[name])
        manifest = json.loads(files["set/manifest.json"])
        if draw.random() < 0.7:
            _refit(manifest, files)
        files["set/manifest.json"] = json.dumps(manifest).encode()
        if draw.random() < 0.6:
            files["set/manifest.json"] = json_mutated(draw, files["set/manifest.json"])
        return files

    return make


@target(_set(corpus.text_set))
def text_set(folder: Path) -> None:
    from dbtm.tasks.text.shards import Prepared
    from dbtm.tasks.text.task import Text

    found = Prepared(folder / "set")
    task = Text(data=str(folder / "set"), vocab=found.vocab, length=found.length)
    task.prepare_evaluation()
    _ = task.files(), task.data_sha256()
    _in_range(task.batch(np.arange(8)).tokens, task)
    if (held_out := task.held_out_examples(4)) is not None:
        _in_range(held_out.tokens, task)
    found.verify()


@target(_set(corpus.problem_set))
def problem_set(folder: Path) -> None:
    from dbtm.tasks.gsm8k.prepared import Prepared
    from dbtm.tasks.gsm8k.task import Gsm8k

    found = Prepared(folder / "set")
    task = Gsm8k(data=str(folder / "set"), vocab=found.vocab, length=found.length)
    _ = task.files(), task.data_sha256()
    for start in (0, 8, 16):
        _in_range(task.batch(np.arange(start, start + 8)).tokens, task)
    found.verify()


def _in_range(tokens: np.ndarray, task) -> None:
    assert tokens.min() >= 0, "a negative token"
    assert tokens.max() < task.vocab, "a token beyond the vocabulary"
    assert tokens.shape[1] == task.length


# -- checkpoints -------------------------------------------------------------------------------------------------------


def _checkpoint(good: Callable[[], Files]) -> Make:
    def make(draw: Draw) -> Files:
        files = dict(good())
        (step,) = (name.rpartition("/")[0] for name in files if name.endswith("config.json"))  # the one that is read
        names = [name for name in files if name.startswith(step) and not name.endswith("manifest.json")]
        for _ in range(draw.choice((0, 1, 1, 1, 2))):
            name = draw.choice([*names, *[n for n in names if n.endswith(".json")], "best.json"])
            if name in files:
                damage = json_mutated if name.endswith(".json") else safetensors_mutated
                files[name] = damage(draw, files[name])
        manifest = json.loads(files[f"{step}/manifest.json"])
        if draw.random() < 0.8:
            manifest = {name: hashlib.sha256(files[f"{step}/{name}"]).hexdigest() for name in manifest}
        text = json.dumps(manifest).encode()
        files[f"{step}/manifest.json"] = json_mutated(draw, text) if draw.random() < 0.15 else text
        return files

    return make


def _load(folder: Path) -> None:
    import dbtm
    from dbtm.checkpoint.folder import best

    best(folder)
    sampler = dbtm.load(folder, device="cpu")
    sampler.task.text(np.zeros(sampler.task.length, dtype=np.int64))


@target(_checkpoint(corpus.toy_run))
def checkpoint(folder: Path) -> None:
    _load(folder)


@target(_checkpoint(corpus.text_run))
def text_checkpoint(folder: Path) -> None:
    _load(folder)


@target(_checkpoint(corpus.packed_run))
def packed_checkpoint(folder: Path) -> None:
    _load(folder)


@target(_checkpoint(corpus.toy_run))
def resume(folder: Path) -> None:
    from dataclasses import replace

    from dbtm.checkpoint import folder as checkpoints
    from dbtm.checkpoint.migrate import read_config
    from dbtm.train.loop import Trainer

    newest = checkpoints.find(folder)
    checkpoints.verify(newest, ["config.json"])
    config = read_config(newest)
    trainer = Trainer(replace(config, train=replace(config.train, device="cpu")), folder, resume=True)
    assert trainer.step <= config.train.steps


# -- samples, sweeps, judges -------------------------------------------------------------------------------------------


@target(file("samples.jsonl", corpus.samples, lines_mutated))
def samples(folder: Path) -> None:
    from dbtm.evals.samples import read_sets

    read_sets(folder / "samples.jsonl")


def _sweep(draw: Draw) -> Files:
    files = dict(corpus.sweep())
    name = draw.choice([*files])
    files[name] = (json_mutated if name == "plan.json" else lines_mutated)(draw, files[name])
    return files


@target(_sweep)
def sweep(folder: Path) -> None:
    from dbtm.evals.sweep.folder import SweepFolder
    from dbtm.evals.sweep.outcome import curves, matched, matched_entropies

    found = SweepFolder(folder)
    plan = found.plan
    found.drawn()
    for judge in found.judges():
        curve = curves("a", plan, found.judged(judge))
        json.dumps(matched([curve], matched_entropies([curve])))


def _gguf(draw: Draw) -> Files:
    data = corpus.gguf()
    if draw.random() < 0.5:  # numbers of the metadata and of tensors' heads
        head = data.find(b"token_embd") + 2000
        out = bytearray(data)
        for _ in range(draw.choice((1, 1, 2))):
            size = draw.choice((1, 4, 8))
            at = draw.randrange(head)
            value = draw.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 9, 8, 12)) % (1 << (8 * size))
            out[at : at + size] = struct.pack("<Q", value)[:size]
        return {"a.gguf": bytes(out)}
    return {"a.gguf": mutated(draw, data)}


@target(_gguf)
def gguf(folder: Path) -> None:
    from dbtm.evals.judges import load_judge

    judge = load_judge(str(folder / "a.gguf"), "cpu")
    with_text = judge.encode(["the 12 inns<|endoftext|>in the end"])
    assert all(0 <= i < judge.model.config.vocab for ids in with_text for i in ids)
