"""`dbtm bench` on a CPU: what it prints and writes; times are never tested."""

import json

import pytest


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["step", "--recipe", "simplex", "--batch", "2"], {"ratio_vs_ce", "rows", "recipe", "hardware", "commit"}),
        (["attention"], {"shapes", "steps", "hardware"}),
        (["head"], {"rows", "hardware"}),
        (["sampler", "--recipe", "simplex", "--vocab", "300", "--width", "16"], {"prior", "rounds", "hardware"}),
    ],
)
def test_every_bench_runs_without_a_gpu(tmp_path, command, words, keys):
    out = tmp_path / "bench.json"
    code, shown, error = command("bench", *words, "--repeats", 1, "--json", out, "--device", "cpu")
    assert code == 0, error
    assert str(out) in shown
    assert keys <= json.loads(out.read_text()).keys()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["step", "--recipe", "sudku"], "did you mean 'sudoku'"),
        (["step", "--batch", "0"], "at least 1"),
        (["step", "--recipe", "simplex", "--graph", "--device", "cpu"], "needs a GPU"),
        (["sampler", "--vocab", "10"], "larger than --width"),
        (["head", "--json", "no/such/folder/x.json"], "no/such/folder"),
    ],
)
def test_what_cannot_be_measured_is_refused(command, words, message):
    code, _, error = command("bench", *words)
    assert code == 2
    assert message in error
