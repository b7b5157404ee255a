"""The backend of each call, and forcing the choice."""

import os
import sysconfig
from types import SimpleNamespace

import pytest
import torch

from dbtm.core.errors import UsageError
from dbtm.kernels import dispatch
from dbtm.kernels.dispatch import cannot_build, choose, choose_delta, force, no_compiling, triton_lacks


@pytest.mark.parametrize(
    ("softcap", "tangent", "cuda", "dtype", "head_dim", "triton", "want"),
    [
        (0.0, False, False, torch.float32, 64, True, "sdpa"),
        (0.0, True, False, torch.float32, 64, True, "sdpa"),
        (50.0, False, False, torch.float32, 64, True, "reference"),
        (0.0, False, True, torch.bfloat16, 64, True, "sdpa"),
        (0.0, True, True, torch.bfloat16, 64, True, "triton"),
        (50.0, False, True, torch.bfloat16, 64, True, "triton"),
        (50.0, True, True, torch.bfloat16, 256, True, "reference"),
        (0.0, True, True, torch.float64, 64, True, "sdpa"),
        (50.0, True, True, torch.bfloat16, 64, False, "reference"),
        (0.0, True, True, torch.bfloat16, 64, False, "sdpa"),
    ],
)
def test_choice(monkeypatch, softcap, tangent, cuda, dtype, head_dim, triton, want):
    monkeypatch.setattr(dispatch, "TRITON_LACKS", "" if triton else "Triton is not installed")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with force(None):
        backend, reason = choose(softcap, tangent, cuda, dtype, head_dim)
    assert backend == want
    assert reason


def test_force(monkeypatch):
    monkeypatch.setattr(dispatch, "TRITON_LACKS", "")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with force("reference"):
        assert choose(0.0)[0] == "reference"
        with force("sdpa"):
            assert choose(0.0, True, True, torch.bfloat16)[0] == "sdpa"
            assert choose(50.0, True, True, torch.bfloat16)[0] == "triton"  # sdpa has no softcap: ignored
        with force("triton"):
            assert choose(50.0, True, True, torch.float16, 128)[0] == "triton"
            assert choose(0.0, False, True, torch.bfloat16)[0] == "triton"
            assert choose(50.0, True, True, torch.float64)[0] == "reference"  # no float64 kernel: ignored
            assert choose(50.0, True, True, torch.bfloat16, 256)[0] == "reference"
            assert choose(0.0, True, False, torch.float32)[0] == "sdpa"
        assert choose(0.0)[0] == "reference"
    with pytest.raises(UsageError, match="did you mean 'triton'"), force("tritn"):
        pass


@pytest.mark.parametrize(
    ("cuda", "dtype", "head_dim", "triton", "want", "because"),
    [
        (True, torch.float32, 64, True, "triton", "our Triton kernels"),
        (True, torch.bfloat16, 64, True, "triton", "our Triton kernels"),
        (True, torch.float64, 64, True, "reference", "float64"),
        (True, torch.float32, 64, False, "reference", "not installed"),
        (True, torch.bfloat16, 65, True, "reference", "65"),
        (True, torch.float32, 256, True, "reference", "256"),
        (False, torch.float32, 64, True, "reference", "no GPU"),
    ],
)
def test_delta_rule(monkeypatch, cuda, dtype, head_dim, triton, want, because):
    monkeypatch.setattr(dispatch, "TRITON_LACKS", "" if triton else "Triton is not installed")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with force(None):
        backend, reason = choose_delta(cuda, dtype, head_dim)
    assert backend == want
    assert because in reason
    with force("reference"):
        assert choose_delta(cuda, dtype, head_dim)[0] == "reference"
    with force("triton"):
        possible = choose_delta(cuda, dtype, head_dim)[0] == "triton"
    assert possible == (want == "triton")


@pytest.mark.parametrize(("major", "want"), [(7, "reference"), (8, "triton")])
def test_a_gpu_with_too_little_shared_memory_goes_without_the_kernels(monkeypatch, major, want):
    monkeypatch.setattr(dispatch, "TRITON_LACKS", "")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    for name, answer in (("is_available", True), ("current_device", 0)):
        monkeypatch.setattr(torch.cuda, name, lambda answer=answer: answer)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=major))
    with force("triton"):
        assert choose_delta(True, torch.bfloat16)[0] == want
        assert choose(50.0, True, True, torch.bfloat16)[0] == want
    assert ("Ampere" in choose_delta(True, torch.bfloat16)[1]) == (major < 8)


def program(folder, name):
    (folder / name).write_text("")
    (folder / name).chmod(0o755)


def test_what_is_missing_to_build_with(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sysconfig, "get_path", lambda *names: str(tmp_path / "none"))
    assert cannot_build("CC", "gcc", "clang") == "no gcc or clang found"
    program(tmp_path, "clang")
    assert "Python.h" in cannot_build("CC", "gcc", "clang")
    (tmp_path / "Python.h").write_text("")
    monkeypatch.setenv("CPATH", os.pathsep.join(("elsewhere", str(tmp_path))))
    assert cannot_build("CC", "gcc", "clang") == ""
    monkeypatch.delenv("CPATH")
    monkeypatch.setattr(sysconfig, "get_path", lambda *names: str(tmp_path))
    assert cannot_build("CC", "gcc", "clang") == ""
    monkeypatch.setenv("CC", "")  # an empty CC counts as set
    assert cannot_build("CC", "gcc", "clang") == "CC= is not a command"
    monkeypatch.setenv("CC", "own-cc")
    assert cannot_build("CC", "gcc", "clang") == "CC=own-cc is not a command"
    program(tmp_path, "own-cc")
    assert cannot_build("CC", "gcc", "clang") == ""


def test_without_a_compiler_a_gpu_goes_without_the_kernels(monkeypatch):
    monkeypatch.setattr(dispatch.sys, "platform", "linux")
    monkeypatch.setattr(dispatch, "find_spec", lambda name: object())
    monkeypatch.setenv("CC", "/no/compiler")
    monkeypatch.setattr(dispatch, "TRITON_LACKS", triton_lacks())
    with force(None):
        assert choose(50.0, True, True, torch.bfloat16)[0] == "reference"
        backend, reason = choose_delta(True, torch.bfloat16)
    assert backend == "reference"
    assert "CC=/no/compiler" in reason
    assert "CC=/no/compiler" in no_compiling(torch.device("cuda"))


@pytest.mark.parametrize(("platform", "compiler"), [("linux", "g++"), ("darwin", "clang++"), ("win32", "cl")])
def test_what_compiles_for_a_cpu(monkeypatch, platform, compiler):
    monkeypatch.setattr(dispatch.sys, "platform", platform)
    monkeypatch.setattr(dispatch, "which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    assert no_compiling(torch.device("cpu")) == f"no {compiler} found"
