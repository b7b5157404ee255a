"""Checkpoints from elsewhere: whatever stands in their files, loading ends in a line, soon, and in little memory."""

import hashlib
import json
import time

import pytest
import torch
from safetensors.torch import load, save

import dbtm
from dbtm.checkpoint import folder as checkpoint
from dbtm.core.errors import UsageError
from tests.fuzz import corpus
from tests.fuzz.harness import put

STEP = "step-00000002"


@pytest.fixture
def tampered(tmp_path):
    """Writes a checkpoint with some files changed and the manifest set right, and returns why it is refused."""

    def refused(run=None, **changes) -> str:
        files = dict(run or corpus.toy_run())
        for name, change in changes.items():
            path = next(n for n in files if n.startswith(f"{STEP}/{name}."))
            files[path] = change(files[path])
        manifest = json.loads(files[f"{STEP}/manifest.json"])
        manifest = {name: hashlib.sha256(files[f"{STEP}/{name}"]).hexdigest() for name in manifest}
        put({**files, f"{STEP}/manifest.json": json.dumps(manifest).encode()}, tmp_path)
        started = time.monotonic()
        with pytest.raises(UsageError) as error:
            _ = dbtm.load(tmp_path, device="cpu").task.borders
        assert time.monotonic() - started < 5
        assert str(error.value).isprintable()
        return str(error.value)

    return refused


def settings(section, **values):
    def change(data: bytes) -> bytes:
        config = json.loads(data)
        config[section].update(values)
        return json.dumps(config).encode()

    return change


def weights(**values):
    return lambda data: save(load(data) | values)


def test_sizes_that_no_network_has(tampered):
    assert "does not fit its configuration" in tampered(corpus.text_run(), config=settings("task", vocab=2**62))
    assert "position_axes has more than" in tampered(config=settings("model", position_axes=[1] * 100_000))
    assert "blocks, but its configuration" in tampered(config=settings("model", depth=4096))
    assert "'embedding' is [5, 16], not [5, 131072]" in tampered(config=settings("model", width=1 << 17, heads=1))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite(tampered, value):
    assert "not finite numbers" in tampered(ema=weights(embedding=torch.full((5, 16), value)))


@pytest.mark.parametrize("kind", [torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_weights_of_another_kind(tampered, kind):
    assert "'embedding'" in tampered(ema=weights(embedding=torch.ones(5, 16).to(kind)))


def test_positions_that_no_table_has():
    from dbtm.checkpoint.loading import put as put_weights

    network = torch.nn.Module()
    network.positions = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(3, 2))])
    network.register_buffer("position_ids", torch.zeros(4, 1, dtype=torch.int64))
    right = network.state_dict()
    put_weights(network, right, "x")
    for entry in (3, -1, 2**62):
        with pytest.raises(UsageError, match="entries that its tables do not have"):
            put_weights(network, {**right, "position_ids": torch.full((4, 1), entry)}, "x")


@pytest.mark.parametrize(
    "text", [b"9" * 5000, b"[" * 200_000, b'{"step": \xff}', b'{"step": 1e999}', b'{"step": ' + b"9" * 5000 + b"}"]
)
def test_documents_that_are_not_json(tmp_path, text):
    (tmp_path / "state.json").write_bytes(text)
    with pytest.raises(UsageError, match=r"state\.json is damaged"):
        checkpoint.read_state(tmp_path)


def test_borders_beyond_the_vocabulary(tampered):
    for values in ({"bos": 300}, {"eos": -1}, {"bos": 10**400}, {"bos": [0]}, {"around": 1}, {"bos": True}):
        change = lambda data, values=values: json.dumps(json.loads(data) | values).encode()  # noqa: E731
        assert "borders.json is damaged" in tampered(corpus.text_run(), borders=change)


@pytest.mark.parametrize("name", ["org/name", "bert-base-uncased", "/dev/zero", "/proc/kmsg", "https://x.invalid/y"])
def test_a_checkpoint_without_its_tokenizer_asks_nobody(tmp_path, monkeypatch, name):
    """Loading is offline: a tokenizer's name in a configuration is not looked up, and no device is read."""
    import socket

    import tokenizers

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("the network was asked"))
    monkeypatch.setattr(
        tokenizers.Tokenizer, "from_pretrained", lambda *_: pytest.fail("the hub was asked"), raising=False
    )
    files = dict(corpus.text_run())
    config = settings("task", tokenizer=name, data="")(files[f"{STEP}/config.json"])
    kept = {"config.json": config, "ema.safetensors": files[f"{STEP}/ema.safetensors"]}
    manifest = {file: hashlib.sha256(data).hexdigest() for file, data in kept.items()}
    put({**kept, "manifest.json": json.dumps(manifest).encode()}, tmp_path)
    sampler = dbtm.load(tmp_path, device="cpu")
    with pytest.raises(UsageError, match=r"no such tokenizer file|is not a tokenizer"):
        sampler.task.text([0] * corpus.LENGTH)
