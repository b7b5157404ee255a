"""What the fuzzers and an attack have found, one test each: it stays mended."""

import io
import json
import os
import sys
import tarfile
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dbtm.core.arrays import open_array
from dbtm.core.errors import UsageError
from dbtm.sandbox.outcome import read_report
from dbtm.tasks.folder import check_out, published, recover
from dbtm.tasks.gsm8k.plain import plain
from dbtm.tasks.gsm8k.prepared import Prepared as Problems
from dbtm.tasks.text import tokenizer as tokenizers
from dbtm.tasks.text.shards import Prepared
from dbtm.tasks.text.sources import pieces
from tests.fuzz import corpus
from tests.fuzz.harness import put


def read(path: Path) -> list:
    return list(pieces(str(path), lambda _: None))


# -- archives ----------------------------------------------------------------------------------------------------------


def header(name: str, size: bytes, kind: bytes, rest: bytes = b"") -> bytes:
    """A tar header, written by hand."""
    head = bytearray(512)
    head[: len(name)] = name.encode()
    head[100:108], head[124:136], head[156:157], head[257:265] = b"0000644\0", size.ljust(12, b"\0"), kind, b"ustar  \0"
    head[386 : 386 + len(rest)] = rest
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


@pytest.mark.parametrize("kind", [b"V", b"0", b"5"])
def test_a_member_larger_than_its_archive_is_no_endless_loop(tmp_path, kind):
    path = tmp_path / "a.tar"
    path.write_bytes(header("a.txt", b"\x80" + b"\xff" * 11, kind) + b"text".ljust(512, b"\0"))
    started = time.monotonic()
    with pytest.raises(UsageError, match=r"a\.tar"):
        read(path)
    assert time.monotonic() - started < 5


def test_a_sparse_member_is_refused(tmp_path):
    """A hole of 8 GB: reading it would take minutes, and a larger one for ever."""
    where = (
        b"00000000000\0" + b"00000000004\0" + b"77777777777\0" + b"00000000000\0" + bytes(48) + b"\0" + b"77777777777\0"
    )
    path = tmp_path / "a.tar"
    path.write_bytes(header("a.txt", b"00000000004", b"S", where) + b"text".ljust(512, b"\0") + bytes(1024))
    with pytest.raises(UsageError, match="sparse"):
        read(path)


def test_an_archive_that_is_right_is_read(tmp_path):
    (tmp_path / "a.tar").write_bytes(corpus.archive({"a.txt": b"one two", "b.txt": b"three"}, tarfile.GNU_FORMAT))
    assert [piece.text for piece in read(tmp_path / "a.tar")] == ["one two", "three"]


# -- tokenizers --------------------------------------------------------------------------------------------------------


def test_a_panic_is_a_line_and_prints_nothing(capfd):
    """What the library's PanicException is: no Exception, and a report on the standard error."""
    panic = type("PanicException", (BaseException,), {})

    @tokenizers.guarded("x")
    def fail():
        os.write(2, b"thread '<unnamed>' panicked\n")
        raise panic("index out of bounds")

    with pytest.raises(UsageError, match=r"x is not a tokenizer .*: index out of bounds"):
        fail()
    assert capfd.readouterr().err == ""
    with tokenizers.guarded("x"):
        os.write(2, b"a warning\n")
    assert capfd.readouterr().err == "a warning\n"
    for other in (KeyboardInterrupt, SystemExit, MemoryError):
        with pytest.raises(other), tokenizers.guarded("x"):
            raise other


def test_a_tokenizer_without_entries_has_size_0(tmp_path):
    from tokenizers import Tokenizer, models

    Tokenizer(models.BPE()).save(str(tmp_path / "tokenizer.json"))
    assert tokenizers.size(tokenizers.load_file(str(tmp_path))) == 0


# -- prepared sets -----------------------------------------------------------------------------------------------------


@pytest.fixture
def text_set(tmp_path):
    put(corpus.text_set(), tmp_path)
    return tmp_path / "set"


def changed(folder: Path, change) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_token_beyond_the_vocabulary_is_found_in_its_shard(text_set):
    shard = text_set / "train-00000.bin"
    blocks = np.memmap(shard, "<u2", "r+").reshape(-1, corpus.LENGTH)
    blocks[1, 3] = corpus.VOCAB
    blocks.flush()
    found = Prepared(text_set).train
    assert found[np.array([0])].max() < corpus.VOCAB
    with pytest.raises(UsageError, match=r"train-00000\.bin is damaged: it has the token 300"):
        found[np.array([0, 1])]


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/proc/kmsg", "/dev/zero", ".hidden", "", "a/b", 7, None])
def test_names_of_a_manifest_stay_in_the_folder(text_set, name):
    changed(text_set, lambda manifest: manifest["tokenizer"].update(file=name))
    with pytest.raises(UsageError, match=r"manifest\.json is damaged"):
        Prepared(text_set)


@pytest.mark.parametrize("key", ["length", "vocab"])
@pytest.mark.parametrize("value", [0, -1, 2**63, 10**400, 1.5, float("inf"), True, None, "16", [16]])
def test_sizes_of_a_manifest_are_whole_numbers(text_set, key, value):
    changed(text_set, lambda manifest: manifest.update({key: value}))
    with pytest.raises(UsageError, match=r"manifest\.json is damaged"):
        Prepared(text_set)


@pytest.mark.parametrize(
    ("file", "place", "value"),
    [("starts.bin", 1, -5), ("starts.bin", 1, 2**62), ("prompts.bin", 0, 65535), ("tokens.bin", 0, 400)],
)
def test_damaged_problems_are_found_when_they_are_read(tmp_path, file, place, value):
    put(corpus.problem_set(), tmp_path)
    kind = "<i8" if file == "starts.bin" else "<u2"
    array = np.memmap(tmp_path / "set" / file, kind, "r+")
    array[place] = value
    array.flush()
    with pytest.raises(UsageError, match=file):
        Problems(tmp_path / "set").row(0)


def killed_between(out: Path) -> Path:
    """What a kill between the two renames of `published` leaves of an old set."""
    aside = out.with_name(f".{out.name}.old.999999999.part")
    out.rename(aside)
    return aside


def test_a_set_that_stepped_aside_comes_back(text_set):
    killed_between(text_set)
    assert len(Prepared(text_set).train) > 0
    killed_between(text_set)
    with pytest.raises(UsageError, match="exists"):
        check_out(text_set, force=False)
    killed_between(text_set)
    with pytest.raises(KeyboardInterrupt), published(text_set):
        raise KeyboardInterrupt
    assert len(Prepared(text_set).train) > 0, "the only copy is not swept up"
    assert os.listdir(text_set.parent) == ["set"]


def test_a_set_of_a_living_process_is_left_alone(text_set):
    aside = text_set.with_name(f".set.old.{os.getppid()}.part")
    text_set.rename(aside)
    recover(text_set)
    assert aside.exists()
    assert not text_set.exists()


# -- arrays, problems, programs ----------------------------------------------------------------------------------------


def test_an_array_of_python_2_is_read_without_a_warning(tmp_path):
    out = io.BytesIO()
    np.save(out, np.arange(12).reshape(3, 4))
    (tmp_path / "a.npy").write_bytes(out.getvalue().replace(b"(3, 4)", b"(3L,4)"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_array(tmp_path / "a.npy").shape == (3, 4)


@pytest.mark.parametrize(
    "code", ["def f():\n    return 1if 2else 3", "def f():\n    return '\\d'", "def f():\n    return 1 is 2"]
)
def test_odd_programs_do_not_warn(code):
    from dbtm.tasks.gsm8k.data import Example
    from dbtm.tasks.gsm8k.renumber import copies

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        example = Example("How many?", code, 1.0)
        assert plain(example) is not None
        assert list(copies(example, 1)) == []


@pytest.mark.parametrize(
    ("kind", "text", "want"),
    [
        ("int", "9" * 400, "nonfinite"),
        ("int", "-" + "9" * 310, "nonfinite"),
        ("int", "9" * 5000, "crash"),
        ("float", "1e999", "nonfinite"),
        ("float", "-9e308", "nonfinite"),
        ("float", "nan", "crash"),
        ("str", "x" * 401, "crash"),
        ("crash", "x" * 401, "crash"),
        ("evil", "x", "crash"),
        ("int", "72", "value"),
        ("float", "1e308", "value"),
        ("str", "72", "value"),
    ],
)
def test_a_forged_report_is_an_outcome(kind, text, want):
    outcome = read_report(kind, text, "")
    assert outcome.kind == want
    assert len(outcome.detail) <= 400


# -- code of others ----------------------------------------------------------------------------------------------------


def asked(*_: object) -> str:
    pytest.fail("the standard input was asked")


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_a_judge_with_code_of_its_own_is_refused(tmp_path, monkeypatch, file):
    pytest.importorskip("transformers")
    from dbtm.evals.judges import load_judge

    monkeypatch.setattr("builtins.input", asked)
    folder = tmp_path / "judge"
    folder.mkdir()
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    for name, values in (("config.json", config), ("tokenizer_config.json", {})):
        code = {"auto_map": {"AutoConfig": "evil.Evil", "AutoTokenizer": ["evil.Evil", None]}} if name == file else {}
        (folder / name).write_text(json.dumps(values | code))
    with pytest.raises(UsageError, match=f"contains code of its own \\({file} has auto_map\\)"):
        load_judge(str(folder), "cpu")
    assert not (tmp_path / "ran").exists()


def test_data_sets_never_bring_code(monkeypatch):
    from dbtm.tasks.hub import load_dataset

    given = []

    def old(path, split=None, trust_remote_code=None, **more):
        given.append(trust_remote_code)

    def new(path, split=None, **more):
        given.append(more)

    for function in (old, new):
        monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=function))
        load_dataset("org/name", split="train")
    assert given == [False, {}]


@pytest.mark.parametrize(
    "values", [{"vocab": -5}, {"vocab": 10**6}, {"length": 0}, {"peak": float("nan")}, {"peak": 1e308}]
)
def test_a_chain_of_no_size_is_refused(values):
    from dbtm.tasks.toy import Markov

    with pytest.raises(UsageError, match=next(iter(values))):
        Markov(**values)
