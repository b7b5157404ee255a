"""`dbtm reproduce`: what is printed, and what is refused in a line."""

import json

import pytest


def test_a_table_is_printed_and_written(command, tmp_path):
    code, out, _ = command("reproduce", "optimal-anchor", "--out", tmp_path / "r", "--json", tmp_path / "a.json")
    assert code == 0
    assert "ours, exact" in out
    assert "0.823" in out
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["label"] == "tab:optimal-anchor"
    values = {(row["row"], row["of"]): row["values"] for row in document["rows"]}
    assert values["optimal t_anchor", "ours, exact"] == values["optimal t_anchor", "paper"]


def test_the_list_names_all_and_their_states(command, tmp_path):
    code, out, _ = command("reproduce", "list", "--out", tmp_path / "none", "--json", tmp_path / "list.json")
    assert code == 0
    assert "possible now" in out
    entries = {entry["label"]: entry for entry in json.loads((tmp_path / "list.json").read_text())["entries"]}
    assert len(entries) == 29
    assert all("CPU s" in entry["small"] for entry in entries.values()), "a plan changed: record its run again"
    assert entries["tab:gsm8k-nfe-ril"]["paper"].startswith("needs data tinygsm; needs data gsm8k")
    assert not (tmp_path / "none").exists()


def test_a_plan_says_recipe_data_judge_and_hours(command, tmp_path):
    code, out, _ = command("reproduce", "anchor-ablation", "--plan", "--out", tmp_path / "r")
    assert code == 0
    for words in (
        "trains: text",
        "trains: lm1b-ril",
        "get it: dbtm data lm1b --out DIR",
        "judge: gpt2-large",
        "FLOPs by the cost counter",
        "results/bench-step-lm1b.json",
    ):
        assert words in out
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["language-result"], "did you mean 'tab:language-results'"),
        (["language-results", "--scale", "papers"], "did you mean 'paper'"),
        (
            ["language-results", "--scale", "paper"],
            "needs the data lm1b: get it (dbtm data lm1b --out DIR), then --data",
        ),
        (["sudoku-solve-acc", "--scale", "paper", "--device", "cpu"], "needs a GPU for about"),
        (["basins", "--data", "lm2b=."], "there is no data 'lm2b'"),
        (["basins", "--data", "lm1b=nowhere"], "nowhere does not exist"),
        (["all", "--json", "a.json"], "--json holds one table"),
    ],
)
def test_a_mistake_is_one_line(command, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = command("reproduce", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())
