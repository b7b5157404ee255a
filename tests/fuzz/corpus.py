"""Inputs that are right: small files of every kind that dbtm reads, made once and kept as bytes."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import cache
from pathlib import Path

import numpy as np

from tests.fuzz.harness import Files

SENTENCES = [f"A naïve fox jumps over {i} lazy dogs in 北京 & don't stop." for i in range(40)]
PLAIN = "\n".join(SENTENCES).encode()
LINES = "".join(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(SENTENCES[:8])).encode()
VOCAB, LENGTH = 300, 16


def taken(folder: Path) -> Files:
    """A folder's files as an input."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@contextmanager
def silence() -> Iterator[None]:
    with redirect_stderr(io.StringIO()):
        yield


def made(make: Callable[[Path], object]) -> Files:
    with tempfile.TemporaryDirectory(prefix="dbtm-corpus-") as name, silence():
        make(Path(name))
        return taken(Path(name))


# -- text --------------------------------------------------------------------------------------------------------------


@cache
def tokenizer() -> bytes:
    from dbtm.tasks.text import tokenizer as tokenizers

    return tokenizers.train(SENTENCES, VOCAB).to_str().encode()


@cache
def text_set() -> Files:
    from tokenizers import Tokenizer

    from dbtm.tasks.text.prepare import Layout, prepare
    from dbtm.tasks.text.sources import whole

    words = Tokenizer.from_str(tokenizer().decode())
    parts = [(None, whole(SENTENCES))]
    return made(lambda out: prepare(parts, words, out / "set", Layout(LENGTH, validation=0.3)))


def archive(files: dict[str, bytes], kind: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            if kind == tarfile.PAX_FORMAT:
                member.pax_headers = {"comment": "北京"}
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def packed(data: bytes, how: str) -> bytes:
    import zstandard

    ways = {"": bytes, "gz": gzip.compress, "xz": lzma.compress, "zst": zstandard.compress, "bz2": bz2.compress}
    return ways[how](data)


@cache
def parquet(*columns: str) -> bytes:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    values = {name: [f"{name} {text}" for text in SENTENCES] for name in columns} | {
        "answer": ["#### 18"] * len(SENTENCES)
    }
    out = io.BytesIO()
    write_table(pa.table(values | {"id": list(range(len(SENTENCES)))}), out, row_group_size=16)
    return out.getvalue()


# -- arrays, puzzles ---------------------------------------------------------------------------------------------------


@cache
def array(kind: str = "<i8") -> bytes:
    out = io.BytesIO()
    np.save(out, np.random.default_rng(0).integers(0, 5, (50, 6)).astype(kind))
    return out.getvalue()


PUZZLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
SOLUTION = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
SMALL, SMALL_SOLUTION = "1000003000040200", ""


@cache
def puzzles() -> bytes:
    from dbtm.tasks.sudoku.generate import generate

    grids = [("".join(map(str, p)), "".join(map(str, s))) for p, s in zip(*generate(36, 4, 1))]
    return ("puzzle,solution\n" + "".join(f"{p},{s}\n" for p, s in [(PUZZLE, SOLUTION), *grids])).encode()


@cache
def small_puzzles() -> bytes:
    from dbtm.tasks.sudoku.generate import generate

    grids = [("".join(map(str, p)), "".join(map(str, s))) for p, s in zip(*generate(8, 3, 1, box=2))]
    return ("puzzle,solution\n" + "".join(f"{p},{s}\n" for p, s in grids)).encode()


# -- problems ----------------------------------------------------------------------------------------------------------

WORKED = "He sold 48/2 = <<48/2=24>>24 clips in May.\nHe sold 48+24 = <<48+24=72>>72 altogether.\n#### 72"


@cache
def problems() -> bytes:
    from dbtm.tasks.gsm8k.synthetic import problem

    records = [{"question": p.question, "code": p.code, "answer": p.answer} for p in map(problem, range(6))]
    records.append({"question": "How many clips were sold?", "answer": WORKED})
    return "".join(json.dumps(record) + "\n" for record in records).encode()


@cache
def problem_set() -> Files:
    from dbtm.tasks.gsm8k.layout import train_tokenizer
    from dbtm.tasks.gsm8k.prepared import Source, write
    from dbtm.tasks.gsm8k.synthetic import problem

    examples = [problem(key) for key in range(12)]
    words = train_tokenizer((f"{e.question}\n{e.code}" for e in examples), 400)
    return made(lambda out: write(out / "set", words, 240, [Source({}, examples)]))


# -- runs --------------------------------------------------------------------------------------------------------------


def tiny_run(task, quality: bool = True, **train):
    """A run of a few steps with both optimizers."""
    from dbtm.config import ModelConfig, OptimConfig, RunConfig, TrainConfig
    from dbtm.methods.dbtm import Config, Options, QualityConfig

    head = QualityConfig(width=8, depth=1, heads=2) if quality else QualityConfig(enabled=False)
    loop = {"steps": 2, "batch": 4, "checkpoint_every": 2, "keep": 1, "device": "cpu", "log_every": 1, **train}
    return RunConfig(
        recipe="test",
        task=task,
        model=ModelConfig(width=16, depth=2, heads=2, cond_dim=8),
        method=Config(quality=head),
        sample=Options(),
        optim=OptimConfig(name="muon", warmup=1),
        train=TrainConfig(**loop),
    )


@cache
def toy_run() -> Files:
    """A run of a task without files: step-00000002/..., best.json, metrics.jsonl."""
    from dbtm.service.training import fit

    return made(lambda out: fit(tiny_run(markov()), out))


def markov():
    from dbtm.tasks.toy import Markov

    return Markov(vocab=5, length=6)


@cache
def text_run() -> Files:
    """A run whose checkpoint carries a tokenizer."""
    from dbtm.tasks.text.task import Text
    from dbtm.train.loop import fit

    def make(out: Path) -> None:
        with tempfile.TemporaryDirectory() as data:
            for name, content in text_set().items():
                path = Path(data, name)
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
            task = Text(data=str(Path(data, "set")), vocab=VOCAB, length=LENGTH, evaluate_n=1)
            fit(tiny_run(task, quality=False), out)

    return made(make)


@cache
def packed_run() -> Files:
    """A checkpoint whose weights are packed into 8 bits."""
    from dbtm.service.packing import pack

    def make(out: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            for inner, content in toy_run().items():
                path = Path(name, inner)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            pack(name, out / "step-00000002")

    return made(make)


@cache
def sudoku_run() -> Files:
    """A model of 4 x 4 Sudokus that has learned nothing."""
    from dbtm.service.training import fit
    from dbtm.tasks.sudoku.task import Sudoku

    task = Sudoku(box=2, clues=((8, 8),), pool=8, evaluate_clues=8, evaluate_n=2)
    return made(lambda out: fit(tiny_run(task, quality=False), out))


@cache
def rows() -> Files:
    """Rows of one's own in every format but .npy."""
    letters = ["".join("ACGT"[(i * j + j) % 4] for j in range(6)) for i in range(24)]
    cells = "".join(",".join(row) + "\n" for row in letters)
    records = [json.dumps(row) for row in letters[:8]]
    records += [json.dumps({"tokens": [*row]}) for row in letters[8:16]] + [json.dumps([1, 2, 3]), '{"text": "AC"}']
    fasta = "".join(f">record {i}\n{row[:3]}\n{row[3:]}\n" for i, row in enumerate(letters))
    tables = {"a.csv": cells, "a.tsv": cells.replace(",", "\t"), "a.txt": "\n".join(letters), "a.fasta": fasta}
    tables |= {"a.jsonl": "\n".join(records), "b.csv": "x,y\n1,2\n3,4\n"}
    return {name: text.encode() for name, text in tables.items()}


@cache
def metrics() -> bytes:
    """What a run writes while it trains."""
    records = [
        {"step": step, "loss": 2 / step, "lr": 0.1, "seconds": 0.5, "steps_per_second": 2.0} for step in (1, 2, 3)
    ]
    records += [
        {"step": step, "eval/score": 0.1 * step, "eval/solved_4": 0.2, "eval/perplexity_data": 9.0} for step in (1, 3)
    ]
    return "".join(json.dumps(record) + "\n" for record in records).encode()


@cache
def comparison() -> Files:
    """A folder of `dbtm referee` with two methods."""
    from dbtm.service.refereeing import RefereeRequest, referee

    sizes = ("model.width=16", "model.depth=1", "model.heads=2", "train.batch=8", "task.vocab=4", "task.length=4")
    request = {"methods": ("dbtm", "ar"), "seeds": 1, "nfe": (1, 2), "n": 4, "flops": 2e7, "changes": sizes}
    return made(lambda out: referee(RefereeRequest(task="markov", folder=out, jobs=0, device="cpu", **request)))


# -- samples, sweeps, judges -------------------------------------------------------------------------------------------


@cache
def samples() -> bytes:
    origin = {"checkpoint": "runs/x", "sha256": "ab", "seed": 0, "data": "text"}
    settings = [{"sampler": "refine", "nfe": n, "kappa": 0.9, "temperature": 1.0, "sigma": 1.25} for n in (1, 4)]
    sets = [
        {
            "kind": "sample",
            "settings": s,
            "nfe": 3.4,
            "seconds": 1.2,
            "origin": origin,
            "tokens": [[1, 2], [3, 4]],
            "texts": ["a b", "c<|endoftext|>"],
        }
        for s in settings
    ]
    sets.append({"kind": "real", "origin": origin, "tokens": [[1, 2, 3]], "texts": ["real"]})
    return "".join(json.dumps(each) + "\n" for each in sets).encode()


@cache
def sweep() -> Files:
    sets = [json.loads(line) for line in samples().splitlines()]
    cells = [
        {"study": study, "row": "1", "column": str(i), "settings": each["settings"]}
        for study in ("frontier", "kappa")
        for i, each in enumerate(sets[:2])
    ]
    plan = {"origin": {"sha256": "ab", "seed": 0, "checkpoint": "runs/x"}, "n": 2, "cells": cells}
    numbers = {
        "perplexity": 20.0,
        "perplexity_low": 18.0,
        "perplexity_high": 22.0,
        "entropy": 4.0,
        "entropy_low": 3.9,
        "entropy_high": 4.1,
        "n": 2,
        "nfe": 3.4,
    }
    judge = {"name": "j", "dtype": "float32", "sha256": "cd"}
    rows = [
        {"kind": each["kind"], "settings": each.get("settings", {}), "judge": "j", "judged_by": judge, **numbers}
        for each in sets
    ]
    rows_bytes = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return {"plan.json": json.dumps(plan).encode(), "samples.jsonl": samples(), "rows.jsonl": rows_bytes}


@cache
def gguf() -> bytes:
    from tests.evals.judges import gguf_writer

    return made(lambda out: gguf_writer.model_file(out / "tiny.gguf"))["tiny.gguf"]
