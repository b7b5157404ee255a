"""LM1B and OpenWebText: the detokenizer sentence by sentence, the hub's splits, the layouts of local copies."""

import io
import sys
import tarfile
from types import SimpleNamespace

import pytest

from dbtm.core.errors import UsageError
from dbtm.tasks.text.corpora import LM1B, OWT, detokenize_lm1b


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        ("They 're here , he said .", "They're here, he said."),
        ("What now ? Run ! Really ?", "What now? Run! Really?"),
        ('He said , " I do n\'t know " .', 'He said, "I do n\'t know" .'),
        ("The price ( in cash ) is $ 5 or £ 3 .", "The price (in cash) is $5 or £3."),
        ("See http : / / a.b [ sic ] and https : / / c.d", "See http://a.b [sic] and https://c.d"),
        ("and / or : one ; two", "and/or: one; two"),
        ("They called it ' the end ' .", "They called it 'the end' ."),  # the field's rules have gaps
        ("It left the U.S. .", "It left the U.S. ."),
        ("One day . Then another .", "One day. Then another."),
        ("", ""),
    ],
)
def test_detokenizer(raw, want):
    assert detokenize_lm1b(raw) == want


class Rows:
    """A dataset as far as we use one."""

    def __init__(self, texts):
        self.texts = texts

    def iter(self, batch_size):
        for i in range(0, len(self.texts), batch_size):
            yield {"text": self.texts[i : i + batch_size]}


def read(parts) -> dict:
    return {split: [piece.text for piece in pieces] for split, pieces in parts}


@pytest.mark.parametrize(
    ("corpus", "name", "revision", "splits"),
    [
        (LM1B, "billion-word-benchmark/lm1b", "refs/convert/parquet", ["train", "test"]),
        (OWT, "Skylion007/openwebtext", None, ["train[:-100000]", "train[-100000:]"]),
    ],
)
def test_from_the_hub(monkeypatch, corpus, name, revision, splits):
    asked = []

    def load_dataset(name, split, revision):
        asked.append((name, split, revision))
        return Rows([f"text {i} of {split}" for i in range(1500)] + [" "])

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    got = read(corpus.from_hub())
    assert asked == [(name, split, revision) for split in splits]
    assert got["train"] == [f"text {i} of {splits[0]}" for i in range(1500)]
    assert got["validation"] == [f"text {i} of {splits[1]}" for i in range(1500)]


def test_without_the_extra_or_the_network(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match=r"pip install 'dbtm\[hf\]', or give a local copy"):
        LM1B.from_hub()

    def offline(*args, **kwargs):
        raise ConnectionError("no route\nto host")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=offline))
    with pytest.raises(UsageError, match=r"cannot load .*lm1b \(no route\): give a local copy"):
        LM1B.from_hub()


def test_lm1b_as_its_archive_unpacks(tmp_path):
    training = (
        tmp_path / "test-copy" / "training-monolingual.tokenized.shuffled"
    )  # 'test' in a name above does not count
    held_out = tmp_path / "test-copy" / "heldout-monolingual.tokenized.shuffled"
    for folder, name, text in [
        (training, "news.en-00001-of-00100", "A b .\nC d ?\n"),
        (training, "news.en-00002-of-00100", "E f .\n"),
        (held_out, "news.en.heldout-00000-of-00050", "G h .\n"),
    ]:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (held_out / "README").write_text("about\n")
    files, passed_over = LM1B.files(str(tmp_path / "test-copy"))
    assert passed_over == [str(held_out / "README")]
    parts = LM1B.from_files(files, lambda n: None)
    assert sorted((split, [p.text for p in pieces]) for split, pieces in parts) == [
        ("train", ["A b .", "C d ?"]),
        ("train", ["E f ."]),
        ("validation", ["G h ."]),
    ]


def test_lm1b_needs_both_splits(tmp_path):
    (tmp_path / "latest.txt").write_text("A .\n")
    with pytest.raises(UsageError, match="does not look like lm1b: it needs training files, and held-out ones"):
        LM1B.files(str(tmp_path))
    (tmp_path / "test.jsonl").write_text('{"text": "B ."}\n')
    assert [split for split, _ in LM1B.files(str(tmp_path))[0]] == ["train", "validation"]


def test_openwebtext_as_its_archive_unpacks(tmp_path):
    with tarfile.open(tmp_path / "urlsf_subset00-1_data.xz", "w:xz") as archive:
        for i in range(3):
            data = f"Page {i}\n\nwith two paragraphs\n".encode()
            member = tarfile.TarInfo(f"{i:07d}.txt")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    (tmp_path / "page.txt").write_text("Page 3\n\nas a file\n")
    parts = OWT.from_files(OWT.files(str(tmp_path))[0], lambda n: None)
    assert [split for split, _ in parts] == [None, None]
    assert [p.text for _, pieces in parts for p in pieces] == [
        "Page 3\n\nas a file",
        *(f"Page {i}\n\nwith two paragraphs" for i in range(3)),
    ]
