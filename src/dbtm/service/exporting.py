"""A trained map for runtimes without PyTorch: one refinement round as an ONNX file."""

import importlib
import json
import logging
import os
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dbtm.checkpoint.loading import load
from dbtm.core import atomic
from dbtm.core.errors import UsageError
from dbtm.methods.dbtm import DBTM, Options
from dbtm.methods.dbtm.exported import INPUTS, OUTPUTS, ExportedRounds, RoundGraph
from dbtm.sampling import Sampler

KEY = "dbtm"  # of the file's metadata
INSTALL = "pip install 'dbtm[onnx]'"


@dataclass(frozen=True)
class OnnxFile:
    """What was written."""

    path: Path
    size: int
    about: dict[str, Any]
    """Vocabulary, length, noise columns, scorer, sigma, kappa: also in the file's metadata."""


def export_onnx(checkpoint: str, path: Path, scorer: str | None = None) -> OnnxFile:
    """Write a refinement round of a checkpoint, with its weights, as one ONNX file in float32."""
    for name in ("onnx", "onnxscript"):
        _library(name)
    sampler = load(checkpoint, "cpu")
    sampler.network.float().fold()
    return write_round(sampler, path, scorer)


def write_round(sampler: Sampler, path: Path, scorer: str | None = None) -> OnnxFile:
    """The round of a sampler; `scorer` instead of its own."""
    model: Any = sampler.network
    if not isinstance(sampler.method, DBTM):
        raise UsageError(f"only maps of the method 'dbtm' can be exported, not '{sampler.method.name}'")
    options = sampler.with_options(**({} if scorer is None else {"scorer": scorer}))
    graph = RoundGraph(model, options.scorer, options.sigma or 1.0).eval()
    length, columns = model.shape.length, len(graph.matrix_ND)
    about = {"vocab": model.shape.vocab, "length": length, "noise_columns": columns, "scorer": options.scorer}
    about |= {"sigma": options.sigma or 1.0, "kappa": options.kappa, "nfe": options.nfe}
    proto = _converted(graph, length, columns)
    _library("onnx").helper.set_model_props(proto, {KEY: json.dumps(about)})
    atomic.write_bytes(path, proto.SerializeToString())
    return OnnxFile(path, os.path.getsize(path), about)


def _converted(graph: RoundGraph, length: int, columns: int) -> Any:
    """The graph in ONNX, for any number of rows; the converter's messages are hidden."""
    rows = torch.export.Dim("batch", min=1, max=1 << 16)
    example = (
        torch.zeros(2, length, dtype=torch.int64),
        torch.zeros(2, length, dtype=torch.bool),
        torch.zeros(2, length, columns),
        torch.tensor(4),
        torch.tensor(0.9),
    )
    names: dict[str, Any] = {"input_names": INPUTS, "output_names": OUTPUTS}
    with torch.no_grad(), warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        for name in ("onnxscript", "torch.onnx"):
            logging.getLogger(name).setLevel(logging.ERROR)
        batched = ({0: rows}, {0: rows}, {0: rows}, None, None)
        program = torch.onnx.export(graph, example, dynamo=True, verbose=False, dynamic_shapes=batched, **names)
    assert program is not None
    return program.model_proto


def load_onnx(checkpoint: str, path: Path, threads: int | None = None) -> Sampler:
    """A checkpoint's sampler that runs its rounds with onnxruntime, from an exported file."""
    sampler = load(checkpoint, "cpu")
    rounds = open_rounds(path, threads)
    about = (rounds.vocab, rounds.length)
    shape = sampler.network.shape
    if not isinstance(sampler.method, DBTM) or about != (shape.vocab, shape.length):
        raise UsageError(f"{path} was not exported from a checkpoint like '{checkpoint}': export it again")
    return OnnxSampler(sampler, rounds.rounds)


@dataclass(frozen=True)
class OpenedRounds:
    rounds: ExportedRounds
    vocab: int
    length: int


def open_rounds(path: Path, threads: int | None = None) -> OpenedRounds:
    """An onnxruntime session of an exported file, on the CPU."""
    runtime = _library("onnxruntime")
    if not path.is_file():
        raise UsageError(f"no such file: {path}; `dbtm export` makes one")
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = threads or torch.get_num_threads()
    settings.log_severity_level = 3
    try:
        session = runtime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        about = json.loads(session.get_modelmeta().custom_metadata_map[KEY])
        columns, scorer, sigma = int(about["noise_columns"]), str(about["scorer"]), float(about["sigma"])
        vocab, length = int(about["vocab"]), int(about["length"])
    except Exception as error:  # the runtime's errors have no common base class
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise UsageError(f"{path} is not a file of `dbtm export`: {reason}") from None

    def run(
        tokens: Tensor, committed: Tensor, noise: Tensor, rounds_left: int, kappa: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        values = (tokens.numpy(), committed.numpy(), noise.numpy(), np.int64(rounds_left), np.float32(kappa))
        fed = {name: np.asarray(value) for name, value in zip(INPUTS, values, strict=True)}
        after, held, score = (torch.from_numpy(x) for x in session.run(list(OUTPUTS[:3]), fed))
        return after, held, score

    return OpenedRounds(ExportedRounds(run, columns, scorer, sigma), vocab, length)


class OnnxSampler(Sampler):
    """A sampler whose evaluator is an exported file."""

    def __init__(self, sampler: Sampler, rounds: ExportedRounds):
        assert isinstance(sampler.options, Options)
        options = replace(sampler.options, rounds="equal")  # the graph cannot plan rounds
        super().__init__(sampler.method, sampler.network, options, sampler.task, sampler.batch)
        self.rounds = rounds

    def evaluator(self) -> ExportedRounds:
        return self.rounds


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(f"ONNX files need {name}: {INSTALL}") from None
