"""A checkpoint carries what its task needs to make sense of samples: it works where the data is not."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import dbtm
from dbtm import config as configuration
from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.loading import find
from dbtm.checkpoint.migrate import read_config
from dbtm.config import OptimConfig, RunConfig, TrainConfig
from dbtm.core.errors import UsageError
from dbtm.methods.dbtm import Config, Options, QualityConfig
from dbtm.tasks.gsm8k.layout import train_tokenizer
from dbtm.tasks.gsm8k.prepared import Source, write
from dbtm.tasks.gsm8k.synthetic import problem
from dbtm.tasks.gsm8k.task import Gsm8k
from dbtm.tasks.text import tokenizer as tokenizers
from dbtm.tasks.text.prepare import Layout, prepare
from dbtm.tasks.text.sources import whole
from dbtm.tasks.text.task import Text
from dbtm.train.loop import fit
from tests.conftest import tiny_config

SENTENCES = [f"A naïve fox jumps over {i} lazy dogs in 北京." for i in range(60)]


def text_run(data, edges=False, eos=None, length=16) -> RunConfig:
    """Two steps on a small prepared set."""
    words = tokenizers.train(SENTENCES, 300)
    prepare([(None, whole(SENTENCES))], words, data, Layout(length, edges=edges, validation=0), eos=eos)
    return tiny_run(Text(data=str(data), vocab=300, length=length, evaluate_n=1))


def tiny_run(task) -> RunConfig:
    return RunConfig(
        recipe="test",
        task=task,
        model=tiny_config(),
        method=Config(quality=QualityConfig(enabled=False)),
        sample=Options(),
        optim=OptimConfig(warmup=1),
        train=TrainConfig(steps=2, batch=2, checkpoint_every=1, keep=1, device="cpu"),
    )


def test_text_is_read_and_written_without_the_data(tmp_path):
    config = text_run(tmp_path / "data")
    folder = fit(config, tmp_path / "run")
    tokens = config.task.train[np.arange(2)]
    want = config.task.decode(tokens)
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "run").rename(tmp_path / "moved")
    task = dbtm.load(tmp_path / "moved").task
    assert task.decode(tokens) == want
    assert task.encode(SENTENCES[0]) == config.task.encode(SENTENCES[0])
    assert configuration.loads((tmp_path / "moved" / folder.name / "config.json").read_text()) == config


def test_resume_does_not_notice(tmp_path):
    config = text_run(tmp_path / "data")
    fit(config, tmp_path / "run")
    longer = replace(config, train=replace(config.train, steps=3))
    folder = fit(longer, tmp_path / "run", resume=True)
    assert folder.name == "step-00000003"
    assert configuration.loads((folder / "config.json").read_text()) == longer
    assert {"tokenizer.json", "borders.json"} <= json.loads((folder / "manifest.json").read_text()).keys()


@pytest.mark.parametrize("damage", ["alter", "remove"])
def test_a_damaged_tokenizer_is_refused_by_name(tmp_path, damage):
    folder = fit(text_run(tmp_path / "data"), tmp_path / "run")
    path = folder / "tokenizer.json"
    if damage == "alter":
        path.write_text(path.read_text().replace("fox", "cat"))
    else:
        path.unlink()
    with pytest.raises(UsageError, match=r"tokenizer\.json"):
        dbtm.load(folder)


def test_a_set_without_its_tokenizer_is_refused_before_anything_is_written(tmp_path):
    config = text_run(tmp_path / "data")
    (tmp_path / "data" / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match=r"tokenizer\.json is missing"):
        fit(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_only_what_the_manifest_lists_is_used(tmp_path):
    """Checkpoints without a tokenizer load as before; a file that was put beside them is not theirs."""
    config = text_run(tmp_path / "data")
    folder = fit(config, tmp_path / "run")
    tensors = {"ema": checkpoint.read_tensors(folder, "ema")}
    bare = checkpoint.write(tmp_path / "bare", tensors, {"config": configuration.dumps(config)})
    (bare / "tokenizer.json").write_text("not a tokenizer")
    assert dbtm.load(bare).task == config.task


@pytest.mark.parametrize("edges", [True, False])
def test_borders_come_along(tmp_path, edges):
    config = text_run(tmp_path / "data", edges=edges, eos="!")  # an end of text that no rule could guess
    folder = fit(config, tmp_path / "run")
    end = config.task.words.token_to_id("!")
    assert (config.task.train[np.arange(2)][:, -1] == end).all() == edges
    shutil.rmtree(tmp_path / "data")
    borders = dbtm.load(folder).task.borders
    assert (borders.eos, borders.around) == (end, edges)
    (folder / "borders.json").write_text("[]")
    with pytest.raises(UsageError, match=r"borders\.json is damaged"):
        dbtm.load(folder)


def test_programs_are_read_without_the_data(tmp_path):
    examples = [problem(key) for key in range(30)]
    words = train_tokenizer((f"{e.question}\n{e.code}" for e in examples), 500)
    write(tmp_path / "data", words, 240, [Source({}, examples)])
    config = tiny_run(Gsm8k(data=str(tmp_path / "data"), vocab=500, length=240, evaluate_n=1))
    folder = fit(config, tmp_path / "run")
    given, _ = config.task.given([examples[0].question])
    shutil.rmtree(tmp_path / "data")
    task = dbtm.load(folder).task
    again, _ = task.given([examples[0].question])
    assert (again["tokens"] == given["tokens"]).all()
    row = np.array(task.layout.rows(examples[:1])[0].tokens)
    assert task.layout.program(row, int(given["clean"].sum())) == examples[0].code.strip("\n")


def test_weights_that_do_not_fit_their_configuration_are_refused(tmp_path):
    folder = fit(text_run(tmp_path / "data"), tmp_path / "run")
    weights, config = checkpoint.read_tensors(folder, "ema"), read_config(folder)
    wrong = [
        (replace(config.model, depth=3), weights, r"has 2 blocks, but its configuration model\.depth=3"),
        (
            replace(config.model, width=32),
            weights,
            r"fit its configuration: 'embedding' is \[300, 16\], not \[300, 32\]",
        ),
        (replace(config.model, self_condition=True), weights, r"'recall' is nothing, not \[300, 16\]"),
        (config.model, {**weights, "x": torch.zeros(3)}, r"'x' is \[3\], not nothing"),
    ]
    for number, (model, tensors, message) in enumerate(wrong):
        document = configuration.dumps(replace(config, model=model))
        bad = checkpoint.write(tmp_path / f"wrong-{number}", {"ema": tensors}, {"config": document})
        with pytest.raises(UsageError, match=message) as caught:
            dbtm.load(bad)
        assert "\n" not in str(caught.value)


def test_models_are_found_by_folder_run_or_name(tmp_path):
    folder = fit(text_run(tmp_path / "data"), tmp_path / "run")
    assert find(folder) == find(tmp_path / "run") == folder
    assert find("sudoku").name == "sudoku"
    with pytest.raises(
        UsageError, match=r"no such checkpoint: sudko; did you mean 'sudoku'\? \(packaged models: sudoku, text\)"
    ):
        find("sudko")


def test_a_sampler_is_ready_to_sample(tmp_path):
    """Averaged weights, folded, frozen; the generator of whoever loads is left alone."""
    folder = fit(text_run(tmp_path / "data"), tmp_path / "run")
    torch.manual_seed(3)
    before = torch.get_rng_state()
    sampler = dbtm.load(folder, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    ema = checkpoint.read_tensors(folder, "ema")
    assert all(torch.equal(value, ema[name]) for name, value in sampler.network.state_dict().items())
    assert not sampler.network.training
    assert not any(p.requires_grad for p in sampler.network.parameters())
    assert any(kept is not None for kept in sampler.network.folded())
    assert sampler.options.sigma == 1.0
