"""A small prepared set with its tokenizer."""

import json

import pytest

from dbtm.tasks.gsm8k.layout import train_tokenizer
from dbtm.tasks.gsm8k.prepared import Source, write
from dbtm.tasks.gsm8k.synthetic import problem

LENGTH = 240


@pytest.fixture(scope="session")
def examples():
    return [problem(key) for key in range(60)]


@pytest.fixture(scope="session")
def tokenizer(examples):
    return train_tokenizer((f"{e.question}\n{e.code}" for e in examples), 600)


@pytest.fixture(scope="session")
def folder(tmp_path_factory, examples, tokenizer):
    out = tmp_path_factory.mktemp("gsm8k") / "set"
    manifest = write(out, tokenizer, LENGTH, [Source({"name": "synthetic"}, examples)])
    assert json.loads((out / "manifest.json").read_text()) == manifest
    return out
