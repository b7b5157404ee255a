"""Prepared text in several folders or elsewhere: the rows are those of the files, and only those asked for are read."""

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.tasks.text.places import Remote, on_this_machine, opened, places
from dbtm.tasks.text.prepare import Layout, prepare
from dbtm.tasks.text.sources import whole
from dbtm.tasks.text.task import Text

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(scope="module")
def make_set(words, documents, tmp_path_factory):
    def make(half, length=12):
        out = tmp_path_factory.mktemp("data") / "set"
        prepare([(None, whole(documents[half::2]))], words, out, Layout(length, validation=0.1))
        return out

    return make


@pytest.fixture(scope="module")
def folders(make_set):
    return [make_set(half) for half in (0, 1)]


@pytest.fixture
def remote(folders):
    """The first set in fsspec's memory."""
    system = fsspec.filesystem("memory")
    for path in folders[0].iterdir():
        system.pipe(f"/bucket/set/{path.name}", path.read_bytes())
    yield "memory://bucket/set"
    system.rm("/bucket", recursive=True)


def test_places_and_what_a_path_makes_of_them():
    assert places("a; s3://b/c ;/d") == ["a", "s3://b/c", "/d"]
    assert places("s3:/b/c") == ["s3://b/c"]
    assert on_this_machine("/a/b")
    assert not on_this_machine("a;b")
    assert not on_this_machine("s3:/b")


def test_several_folders_are_one_after_the_other(folders):
    one, two = (opened(str(folder)) for folder in folders)
    both = opened(";".join(map(str, folders)))
    n, m = len(one.train), len(two.train)
    assert len(both.train) == n + m
    rows = np.array([0, n - 1, n, n + m - 1, 3])
    apart = np.concatenate([one.train[np.array([0, n - 1])], two.train[np.array([0, m - 1])], one.train[np.array([3])]])
    assert (both.train[rows] == apart).all()
    assert len(both.validation) == len(one.validation) + len(two.validation)
    swapped = Text(";".join(map(str, folders[::-1])), both.vocab, both.length)
    assert swapped.data_sha256() != Text(";".join(map(str, folders)), both.vocab, both.length).data_sha256()


def test_sets_that_do_not_belong_together_are_refused(folders, make_set):
    other = make_set(0, length=16)
    with pytest.raises(UsageError, match="differ in length"):
        opened(f"{folders[0]};{other}")


def test_a_place_elsewhere_gives_the_same_batches(folders, remote):
    here, there = (Text(str(place), *_sizes(folders[0])) for place in (folders[0], remote))
    index = np.arange(5, 25)
    assert (here.batch(index).tokens == there.batch(index).tokens).all()
    assert (here.validation(4) == there.validation(4)).all()
    assert here.data_sha256() == there.data_sha256()
    assert here.files() == there.files()


def _sizes(folder):
    found = opened(str(folder))
    return found.vocab, found.length


def test_only_the_rows_asked_for_are_read(folders, remote, monkeypatch):
    found, read = Remote(remote), []
    system = type(found.system)
    plain = system.cat_ranges

    def watched(self, paths, starts, ends, **more):
        read.extend(zip(starts, ends, strict=True))
        return plain(self, paths, starts, ends, **more)

    monkeypatch.setattr(system, "cat_ranges", watched)
    rows = found.train[np.array([7, 2])]
    size = found.length * found.dtype.itemsize
    assert read == [(7 * size, 8 * size), (2 * size, 3 * size)]
    assert (rows == opened(str(folders[0])).train[np.array([7, 2])]).all()
    assert not list(found.folder.glob("train-*"))


def test_nothing_is_fetched_for_a_model_without_its_tokenizer(remote):
    task = Text(remote)
    with pytest.raises(UsageError, match="tokenizer is missing"):
        _ = task.words
    assert "prepared" not in task.__dict__


def read_all(place):
    found = opened(place)
    return found.train, found.validation


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s: s.rm("/bucket/set/manifest.json"), "is not prepared text"),
        (lambda s: s.pipe("/bucket/set/manifest.json", b"{"), "cannot read memory://bucket/set"),
        (lambda s: s.pipe("/bucket/set/tokenizer.json", b"{}"), "its sha256 is not the one"),
        (lambda s: s.pipe("/bucket/set/train-00000.bin", b"xx"), "it has 2 bytes, not"),
        (lambda s: s.rm("/bucket/set/train-00000.bin"), r"train-00000.bin cannot be read"),
        (lambda s: s.pipe("/bucket/set/validation-00000.bin", b"xx"), "its sha256 is not the one"),
    ],
)
def test_damage_elsewhere_is_a_line(remote, spoil, message):
    spoil(fsspec.filesystem("memory"))
    with pytest.raises(UsageError, match=message):
        read_all(remote)
