"""ONNX files give the tokens of the sampler they were made from."""

import json

import numpy as np
import pytest
import torch

from dbtm.core.errors import UsageError
from dbtm.methods.dbtm import Options
from dbtm.service import exporting
from tests.conftest import random_map, sampler_of

for name in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(name)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    sampler = sampler_of(random_map(), Options(nfe=4, scorer="quality", kappa=0.6, sigma=1.0))
    return sampler, exporting.write_round(sampler, tmp_path_factory.mktemp("onnx") / "round.onnx")


def test_onnxruntime_gives_the_same_tokens(exported):
    sampler, file = exported
    tokens = np.random.default_rng(0).integers(0, 7, (40, 9))
    clean = np.random.default_rng(1).random((40, 9)) < 0.2
    want = sampler.sample(tokens=tokens, clean=clean, seed=5, trace=True)
    opened = exporting.open_rounds(file.path, threads=1)
    assert (opened.vocab, opened.length, opened.rounds.scorer) == (7, 9, "quality")
    got = exporting.OnnxSampler(sampler, opened.rounds).sample(tokens=tokens, clean=clean, seed=5, trace=True)
    assert np.array_equal(got.tokens, want.tokens)
    assert np.array_equal(got.nfe, want.nfe)


def test_the_map_alone_is_an_output(exported):
    """logits at a state with nothing committed: f(x0)."""
    import onnxruntime

    sampler, file = exported
    session = onnxruntime.InferenceSession(str(file.path))
    noise = torch.randn(3, 9, 7)
    fed = {"tokens": np.zeros((3, 9), np.int64), "committed": np.zeros((3, 9), bool), "noise": noise.numpy()}
    (logits,) = session.run(["logits"], {**fed, "rounds_left": np.array(1), "kappa": np.array(1, np.float32)})
    with torch.no_grad():
        want = sampler.network.logits(sampler.network.embed_noise(noise))[0]
    np.testing.assert_allclose(logits, want.numpy(), atol=1e-4)
    about = json.loads(session.get_modelmeta().custom_metadata_map["dbtm"])
    assert about == {**file.about, "noise_columns": 7}


def test_files_that_are_not_ours_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        exporting.open_rounds(tmp_path / "none.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(UsageError, match="is not a file of `dbtm export`"):
        exporting.open_rounds(tmp_path / "bad.onnx")


def test_a_file_of_another_model_is_refused(exported):
    with pytest.raises(UsageError, match="was not exported from a checkpoint like 'sudoku'"):
        exporting.load_onnx("sudoku", exported[1].path)
