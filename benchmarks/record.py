"""Losses, gradients and samples of tiny runs, written down bit for bit: what a refactoring must not change.

    python benchmarks/record.py write FILE      before the change
    python benchmarks/record.py compare FILE    after it, on the same machine

Each case trains a recipe at tiny size for 20 steps on a CPU with one thread. The recording holds the terms of every
step, a sha256 of all weights, averages and optimizer moments after every step (which are functions of all gradients so
far), and a sha256 of the samples with all their rounds.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

import dbtm

STEPS = 20
TINY = ["model.width=32", "model.depth=2", "model.heads=2"]
QUALITY = ["method.quality.width=16", "method.quality.depth=1", "method.quality.heads=2"]
BRIEF = [f"train.steps={STEPS}", "optim.warmup=5", "train.log_every=1", "train.checkpoint_every=1",
         f"train.keep={STEPS}", "train.evaluate_every=0", "train.device=cpu", "train.precision=fp32",
         "train.compile=false", "train.graph=false"]  # fmt: skip
TEXT = [*TINY, "train.batch=16", "task.evaluate_n=8"]
SUDOKU = [*TINY, *QUALITY, "train.batch=16", "task.pool=200", "task.evaluate_n=16"]
CASES: dict[str, tuple[str, list[str]]] = {
    "simplex": ("simplex", ["train.batch=64"]),
    "markov": ("markov", ["train.batch=32"]),
    "markov, OT coupling, rollouts, semigroup": (
        "markov",
        ["train.batch=32", "method.path.coupling=ot", "method.ril.weight=1", "method.ril.depths=[1,3]",
         "method.ril.fresh_noise=true", "method.loss.semigroup=0.5", "method.loss.semigroup_depths=[2]",
         "model.dropout=0.1"],
    ),
    "markov, held states, self-conditioning": (
        "markov",
        ["train.batch=32", "method.ril.weight=1", "method.ril.commit=false", "model.self_condition=true",
         "method.quality.enabled=true", *QUALITY, "method.loss.quality=1"],
    ),
    "markov, distillation": (
        "markov",
        ["train.batch=32", "method.distill.weight=1", "method.distill.start=4", "method.distill.refresh=5",
         "method.distill.depth=3", "train.micro_batch=16"],
    ),
    "markov, delta rule": ("markov", ["train.batch=32", "model.backbone=delta", "model.pattern=\"gdn,attn\""]),
    "sudoku-mini": ("sudoku-mini", SUDOKU),
    "text-small": ("text-small", TEXT),
    "text-small-distill": (
        "text-small-distill",
        [*TEXT, "method.distill.start=5", "method.distill.refresh=5"],
    ),
    "gsm-small": ("gsm-small", [*TEXT, *QUALITY]),
}  # fmt: skip


def record(data: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    return {name: _case(recipe, changes, data) for name, (recipe, changes) in CASES.items()}


def _case(recipe: str, changes: list[str], data: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        own = {"text": _text, "gsm8k": _problems}.get(dbtm.recipe(recipe).task.name, lambda data: [])(data)
        config = dbtm.override(dbtm.recipe(recipe), _spelled([*own, *BRIEF, *changes]))
        checkpoint = dbtm.fit(config, folder)
        rows = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
        terms = [{k: v for k, v in row.items() if k not in ("seconds", "steps_per_second", "lr")} for row in rows]
        weights = {p.name: _digest_weights(p) for p in sorted(Path(folder).glob("step-*"))}
        sampler = dbtm.load(checkpoint, device="cpu")
        samples = {nfe: _digest_trace(sampler.sample(6, nfe=nfe, seed=3, trace=True)) for nfe in (1, 3)}
        samples["warm"] = _digest_trace(sampler.sample(6, nfe=2, seed=3, temperature=0.7, trace=True))
    return {"terms": terms, "weights": weights, "samples": samples}


def _spelled(assignments: list[str]) -> list[str]:
    """The assignments as this version of the package spells them."""
    if hasattr(dbtm.recipe("markov"), "path"):  # before methods owned their settings
        old = {"method.quality.enabled": "model.quality", "method.quality.": "model.quality_", "method.": ""}
        for new, word in old.items():
            assignments = [a.replace(new, word, 1) if a.startswith(new) else a for a in assignments]
    return assignments


def _digest_weights(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        for name, value in sorted(load_file(file).items()):
            digest.update(f"{file.name} {name} {tuple(value.shape)}".encode() + value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _digest_trace(trace: Any) -> str:
    arrays = [trace.tokens, trace.nfe, *(a for r in trace.rounds for a in (r.tokens, r.committed, r.score))]
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def _text(data: Path) -> list[str]:
    """A prepared set of made-up sentences."""
    out = data / "text"
    if not out.is_dir():
        words = [
            "the",
            "a",
            "river",
            "house",
            "king",
            "of",
            "in",
            "to",
            "and",
            "was",
            "born",
            "city",
            "old",
            "red",
            "north",
        ]
        rng = np.random.default_rng(0)
        texts = [" ".join(rng.choice(words, 120).tolist()) + "." for _ in range(400)]
        (data / "text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        options = ("--tokenizer", "train:280", "--length", "32", "--validation", "0.1", "--out", out)
        _command("data", "text", "--input", data / "text.jsonl", *options)
    manifest = json.loads((out / "manifest.json").read_text())
    return [f"task.data={out}", f"task.vocab={manifest['vocab']}", f"task.length={manifest['length']}"]


def _problems(data: Path) -> list[str]:
    """A prepared set of synthetic word problems."""
    out = data / "problems"
    if not out.is_dir():
        from dbtm.tasks.gsm8k.synthetic import problem

        lines = (json.dumps(problem(key)._asdict()) + "\n" for key in range(40))
        (data / "problems.jsonl").write_text("".join(lines))
        words = ("--vocab", "500", "--length", "192", "--plain", "--out", out)
        _command("data", "gsm8k", data / "problems.jsonl", *words)
    manifest = json.loads((out / "manifest.json").read_text())
    return [f"task.data={out}", f"task.vocab={manifest['vocab']}", f"task.length={manifest['length']}"]


def _command(*words: object) -> None:
    import subprocess

    subprocess.run([sys.executable, "-m", "dbtm", *map(str, words)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("action", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    asked = parser.parse_args()
    data = asked.file.parent / "record-data"
    data.mkdir(exist_ok=True)
    found = json.loads(json.dumps(record(data)))
    if asked.action == "write":
        asked.file.write_text(json.dumps(found, indent=1) + "\n")
        return
    before = json.loads(asked.file.read_text())
    wrong = [f"{case}: {part}" for case in before for part in before[case] if before[case][part] != found[case][part]]
    for line in wrong:
        print(f"differs: {line}")
    print(f"{len(before)} cases, {len(wrong)} parts differ")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
