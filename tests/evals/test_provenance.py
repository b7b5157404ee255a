"""The provenance is that of this very code."""

import subprocess

import torch

from dbtm.evals import provenance

CPU = torch.device("cpu")


def test_the_commit_is_gits_and_is_none_elsewhere(monkeypatch):
    found = provenance.commit()
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    if head.returncode == 0:
        assert found is None or found.removesuffix("-dirty") == head.stdout.strip()
    monkeypatch.setenv("PATH", "")
    assert provenance.commit() is None, "without git"


def test_hardware_names_the_processor():
    assert provenance.hardware(CPU).startswith("cpu: ")


def test_what_is_made_here_is_dated_and_the_machine_is_not():
    assert provenance.machine(CPU).keys() == {"hardware", "torch", "commit"}
    made = provenance.made(CPU)
    assert made == provenance.machine(CPU) | {"date": made["date"]}
    assert made["date"].endswith("+00:00")
