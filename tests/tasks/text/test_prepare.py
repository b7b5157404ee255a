"""Preparation: what is in the shards is the documents, all of them, once, and a set is whole or not there."""

import hashlib
import json
import os

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.tasks.folder import check_out
from dbtm.tasks.text import encode, shards
from dbtm.tasks.text import tokenizer as tokenizers
from dbtm.tasks.text.prepare import Layout, assigned, prepare
from dbtm.tasks.text.shards import Prepared
from dbtm.tasks.text.sources import Piece, pieces, whole


def stream(folder, split: str) -> np.ndarray:
    """All tokens of a split, read the plain way."""
    manifest = json.loads((folder / "manifest.json").read_text())
    dtype = {"uint16": "<u2", "uint32": "<u4"}[manifest["dtype"]]
    return np.concatenate(
        [np.frombuffer((folder / s["file"]).read_bytes(), dtype) for s in manifest[split]["shards"]]
        or [np.zeros(0, int)]
    )


def texts(words, tokens, eos: int) -> list[str]:
    """Documents back from their tokens; the last may have been cut."""
    out: list[list[int]] = [[]]
    for token in tokens.tolist():
        if token == eos:
            out.append([])
        else:
            out[-1].append(token)
    return [words.decode(ids, skip_special_tokens=False) for ids in out]


@pytest.fixture
def made(words, documents, tmp_path):
    manifest = prepare([(None, whole(documents))], words, tmp_path / "set", Layout(16, validation=0.2))
    return tmp_path / "set", manifest


def test_the_shards_hold_the_documents_in_order(made, words, documents):
    folder, manifest = made
    layout = Layout(16, validation=0.2)
    for split in ("train", "validation"):
        want = [d for d in documents if layout.split_of(d) == split]
        *whole_ones, last = texts(words, stream(folder, split), eos=0)
        assert whole_ones == want[: len(whole_ones)]
        left = manifest[split]["tokens_left_over"]
        assert left < 16
        missing = sum(len(words.encode(d).ids) + 1 for d in want) - len(stream(folder, split))
        assert missing == left, "only what does not fill the last block is left out"
        assert want[len(whole_ones)].startswith(last) if left else last == ""
        assert manifest[split]["documents"] == len(want)
        assert manifest[split]["characters"] == sum(map(len, want))
        assert manifest[split]["blocks"] * 16 == manifest[split]["tokens"] == len(stream(folder, split))
    assert 0.1 < manifest["validation"]["documents"] / len(documents) < 0.3


def test_the_manifest_is_true(made, words):
    folder, manifest = made
    assert manifest == json.loads((folder / "manifest.json").read_text())
    for split in ("train", "validation"):
        for shard in manifest[split]["shards"]:
            assert hashlib.sha256((folder / shard["file"]).read_bytes()).hexdigest() == shard["sha256"]
    tokenizer = (folder / "tokenizer.json").read_bytes()
    assert hashlib.sha256(tokenizer).hexdigest() == manifest["tokenizer"]["sha256"]
    assert (manifest["vocab"], manifest["dtype"], manifest["eos"]) == (
        300,
        "uint16",
        {"id": 0, "token": "<|endoftext|>"},
    )
    assert manifest["wrap"] == {
        "eos_after_document": True,
        "across_documents": True,
        "bos_eos_around_block": False,
    }


def test_processes_jobs_and_pieces_do_not_change_the_result(made, words, documents, tmp_path, monkeypatch):
    _, manifest = made
    monkeypatch.setattr(encode, "JOB", 300)
    cut = [
        p for d in documents for p in ([Piece(d[:5], False), Piece(d[5:], True)] if d[5:6] == " " else [Piece(d, True)])
    ]
    assert len(cut) > len(documents)
    other = prepare([(None, whole(documents))], words, tmp_path / "other", Layout(16, validation=0.2), workers=2)
    assert other == manifest
    # by piece, the split is chosen by the first one: compare all in one split
    one = prepare([("train", whole(documents))], words, tmp_path / "one", Layout(16, validation=0))
    pieces = prepare([("train", iter(cut))], words, tmp_path / "pieces", Layout(16, validation=0))
    assert pieces["train"] == one["train"]


def test_a_document_in_pieces_stays_on_one_side(documents):
    layout = Layout(16, validation=0.5)
    pieces = [piece for d in documents for piece in (Piece(d, False), Piece("the rest", True))]
    sides = [item.split for item in assigned([(None, pieces)], layout)]
    assert sides[::2] == sides[1::2] == [layout.split_of(d) for d in documents]
    assert {item.split for item in assigned([("validation", pieces)], layout)} == {"validation"}


def test_a_long_document_is_on_the_same_side_in_every_file(tmp_path):
    """1.5 million characters: more than a piece holds, and as a line of text less than two chunks."""
    layout = Layout(16, validation=0.5)
    for i in range(6):
        text = f"{i} " + "many words " * 140_000 + "end"
        (tmp_path / "a.txt").write_text(f"short\n{text}\n")
        (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}) + "\n")
        sides = [
            [item.split for item in assigned([(None, pieces(str(tmp_path / name), lambda n: None))], layout)][-1]
            for name in ("a.txt", "a.jsonl")
        ]
        assert sides[0] == sides[1]


def test_few_documents_are_in_memory_at_a_time(words, monkeypatch):
    monkeypatch.setattr(encode, "JOB", 1000)
    taken = 0

    def items():
        nonlocal taken
        for i in range(100_000):
            taken += 1
            yield encode.Item("train", f"document {i} of many", True)

    results = encode.encoded(items(), encode.Coding(words.to_str(), 0, "uint16"), workers=1)
    for n in range(1, 5):
        next(results)
        assert taken <= n * 100
    results.close()


def test_blocks_with_edges(words, documents, tmp_path):
    prepare([("train", whole(documents))], words, tmp_path / "plain", Layout(14, validation=0))
    layout = Layout(16, edges=True, validation=0)
    manifest = prepare([("train", whole(documents))], words, tmp_path / "edges", layout)
    blocks = stream(tmp_path / "edges", "train").reshape(-1, 16)
    assert (blocks[:, 0] == 0).all()
    assert (blocks[:, -1] == 0).all()
    np.testing.assert_array_equal(blocks[:, 1:-1].ravel(), stream(tmp_path / "plain", "train"))
    assert manifest["wrap"]["bos_eos_around_block"] is True


def test_shards_are_filled_one_after_the_other(words, documents, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_TOKENS", 1000)
    manifest = prepare([("train", whole(documents))], words, tmp_path / "many", Layout(16, validation=0))
    counts = [shard["blocks"] for shard in manifest["train"]["shards"]]
    assert len(counts) > 3
    assert set(counts[:-1]) == {62}
    blocks = Prepared(tmp_path / "many").train
    want = stream(tmp_path / "many", "train").reshape(-1, 16)
    rows = np.random.default_rng(0).permutation(len(blocks))
    np.testing.assert_array_equal(blocks[rows], want[rows])
    assert blocks[rows].dtype == np.int64


def test_equal_documents_are_on_one_side_and_the_seed_moves_the_split(documents):
    layouts = [Layout(8, validation=0.5, seed=s) for s in (0, 1)]
    sides = [[layout.split_of(d) for d in documents] for layout in layouts]
    assert sides[0] == [Layout(8, validation=0.5).split_of(d) for d in documents]
    agree = np.mean([a == b for a, b in zip(*sides, strict=True)])
    assert 0.35 < agree < 0.65
    share = np.mean([Layout(8, validation=0.05).split_of(str(i)) == "validation" for i in range(20_000)])
    assert abs(share - 0.05) < 0.006  # four standard deviations
    assert {Layout(8, validation=0).split_of(d) for d in documents} == {"train"}


def test_large_vocabularies(words, documents, tmp_path):
    assert Layout(8).dtype_for(65_536) == "uint16"
    assert Layout(8).dtype_for(65_537) == "uint32"
    with pytest.raises(UsageError, match="a vocabulary of 65537 does not fit uint16, which holds 65536"):
        Layout(8, dtype="uint16").dtype_for(65_537)
    for dtype in ("uint16", "uint32"):
        prepare([("train", whole(documents))], words, tmp_path / dtype, Layout(16, validation=0, dtype=dtype))
    assert (stream(tmp_path / "uint16", "train") == stream(tmp_path / "uint32", "train")).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"length": 0}, "length 0 is too short"),
        ({"length": 2, "edges": True}, "at least 3 tokens"),
        ({"length": 10**20}, "is too long: blocks hold at most"),
        ({"length": 8, "validation": 1.0}, "validation 1.0"),
        ({"length": 8, "validation": -0.1}, "validation -0.1"),
        ({"length": 8, "seed": -1}, "seed -1"),
        ({"length": 8, "dtype": "int8"}, "dtype int8 is not a choice"),
    ],
)
def test_layouts_that_make_no_sense(values, message):
    with pytest.raises(UsageError, match=message):
        Layout(**values)


def test_too_little_text(words, tmp_path):
    with pytest.raises(
        UsageError, match=r"too little text for train: 1 documents of \d+ tokens do not fill a block of 99"
    ):
        prepare([(None, whole(["a fox"]))], words, tmp_path / "set", Layout(99, validation=0))
    with pytest.raises(UsageError, match="too little text for validation: 0 documents"):
        prepare([(None, whole(["a fox " * 50]))], words, tmp_path / "set", Layout(9, validation=1e-9))
    assert not list(tmp_path.iterdir())


def test_a_failure_on_the_way_leaves_nothing_and_the_old_set_as_it_was(made, words, documents, tmp_path):
    folder, manifest = made

    def breaks():
        yield from whole(documents[:300])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare([(None, breaks())], words, folder, Layout(16))
    assert os.listdir(tmp_path) == ["set"]
    assert Prepared(folder).manifest == manifest
    assert len(Prepared(folder).train)


def test_a_set_is_replaced_whole_and_what_the_dead_left_is_swept_up(made, words, documents, tmp_path):
    folder, _ = made
    (tmp_path / ".set.999999999.part").mkdir()  # no such process
    (tmp_path / f".set.{os.getppid()}.part").mkdir()  # of one that lives
    prepare([("train", whole(documents))], words, folder, Layout(8, validation=0))
    assert sorted(os.listdir(tmp_path)) == [f".set.{os.getppid()}.part", "set"]
    assert Prepared(folder).length == 8
    assert sorted(os.listdir(folder)) == ["manifest.json", "tokenizer.json", "train-00000.bin"]


def test_where_a_set_may_be_written(made, tmp_path):
    folder, _ = made
    check_out(tmp_path / "new", force=False)
    check_out(folder, force=True)
    (tmp_path / "empty").mkdir()
    check_out(tmp_path / "empty", force=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "diary.txt").write_text("dear")
    for path, message in [
        (folder, "force overwriting"),
        (tmp_path / "home", "is not prepared"),
        (tmp_path / "a" / "b", "no folder"),
    ]:
        with pytest.raises(UsageError, match=message):
            check_out(path, force=False)
    with pytest.raises(UsageError, match="is not prepared text"):
        check_out(tmp_path / "home", force=True)


def test_damage_is_found_by_name(made):
    folder, manifest = made
    shard = folder / "train-00000.bin"
    data = shard.read_bytes()
    for bad in (data[:-2], data + b"\0\0"):
        shard.write_bytes(bad)
        with pytest.raises(UsageError, match=rf"train-00000\.bin is damaged: it has {len(bad)} bytes, not {len(data)}"):
            _ = Prepared(folder).train
    shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(UsageError, match=r"train-00000\.bin is damaged: its sha256"):
        Prepared(folder).verify()
    Prepared(folder).verify("validation")
    held_out = folder / "validation-00000.bin"
    held_out.write_bytes(bytes([held_out.read_bytes()[0] ^ 1]) + held_out.read_bytes()[1:])
    with pytest.raises(UsageError, match=r"validation-00000\.bin is damaged: its sha256"):
        _ = Prepared(folder).validation
    shard.unlink()
    with pytest.raises(UsageError, match=r"train-00000\.bin is missing"):
        _ = Prepared(folder).train
    for name in ("bos", "eos", "wrap", "tokenizer", "vocab"):
        (folder / "manifest.json").write_text(json.dumps({k: v for k, v in manifest.items() if k != name}))
        with pytest.raises(UsageError, match=rf"manifest\.json is damaged: .*{name}"):
            Prepared(folder)
    for text, message in [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ("{}", "is damaged: .*format"),
        ('{"kind": "gsm8k"}', "is not prepared text"),
    ]:
        (folder / "manifest.json").write_text(text)
        with pytest.raises(UsageError, match=message):
            Prepared(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(UsageError, match="is not prepared text: it has no manifest"):
        Prepared(folder)


def test_another_tokenizer_is_found_out(made, documents):
    """One of the same size: nothing but its sha256 gives it away."""
    folder, _ = made
    opened, path = Prepared(folder), folder / "tokenizer.json"
    opened.verify()
    path.write_text(tokenizers.train([text[::-1] for text in documents], 300).to_str())
    for find_out in (lambda: Prepared(folder), opened.verify):
        with pytest.raises(UsageError, match=r"tokenizer\.json is damaged: its sha256 is not the one in manifest"):
            find_out()
    path.unlink()
    with pytest.raises(UsageError, match=r"is damaged: tokenizer\.json is missing"):
        Prepared(folder)


def test_training_text_is_not_read_through_to_open_it(made, monkeypatch):
    folder, manifest = made
    read, digest = [], hashlib.file_digest

    def told(file, name):
        read.append(os.path.basename(file.name))
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", told)
    assert len(Prepared(folder).train) == manifest["train"]["blocks"]
    assert read == ["tokenizer.json"]


def test_another_format_is_refused(made):
    folder, manifest = made
    (folder / "manifest.json").write_text(json.dumps(manifest | {"format": 9}))
    with pytest.raises(UsageError, match="has format '9', but this version reads 1"):
        Prepared(folder)
