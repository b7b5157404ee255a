"""Small prepared sets, and settings under which every recipe trains in a second."""

import json

import numpy as np
import pytest

from dbtm.tasks.gsm8k.synthetic import problem

TINY = ["model.width=16", "model.depth=1", "model.heads=2", "train.steps=3", "train.batch=4", "optim.warmup=1",
        "train.device=cpu", "train.precision=fp32", "train.compile=false", "train.graph=false",
        "train.checkpoint_every=3", "train.evaluate_every=0"]  # fmt: skip


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """{recipe: prepared set or tokens}."""
    from typer.testing import CliRunner

    from dbtm.cli import app

    folder = tmp_path_factory.mktemp("prepared")
    words, rng = ["the", "a", "river", "house", "king", "of", "in", "was", "old"], np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, 80).tolist()) + "." for _ in range(60)]
    (folder / "text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    options = ["--tokenizer", "train:270", "--length", "16", "--validation", "0.2", "--out", str(folder / "text")]
    _run(CliRunner(), app, ["data", "text", "--input", str(folder / "text.jsonl"), *options])
    (folder / "problems.jsonl").write_text("".join(json.dumps(problem(key)._asdict()) + "\n" for key in range(20)))
    options = ["--vocab", "400", "--length", "192", "--plain", "--out", str(folder / "problems")]
    _run(CliRunner(), app, ["data", "gsm8k", str(folder / "problems.jsonl"), *options])
    np.save(folder / "own.npy", rng.integers(0, 5, (50, 6)))
    return {"text-small": folder / "text", "gsm-small": folder / "problems", "own": folder / "own.npy"}


def _run(runner, app, words) -> None:
    result = runner.invoke(app, words)
    assert result.exit_code == 0, result.output
