"""`dbtm sweep`: stopped and continued, drawn here and judged there, and the tables it ends in."""

import json
import re
import shutil

import pytest

from dbtm.evals.judges.gguf import GGUFJudge
from dbtm.service import sweeping
from tests.evals.judges import gguf_writer
from tests.evals.tiny import TinyLetters, letters, write_checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_checkpoint(letters(), tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    return gguf_writer.model_file(tmp_path_factory.mktemp("judge") / "tiny.gguf")


SMALL = ["--n", 4, "--nfe", "1,2", "--kappa", ".3,.9", "--temperature", "0,1", "--repetition-penalty", "0,2"]


@pytest.fixture
def counted(monkeypatch):
    """How many sets are drawn and how many are judged."""
    counts = {"drawn": 0, "judged": 0}
    draw, score = sweeping.draw_samples, GGUFJudge.score

    def counting_draw(*words, **options):
        counts["drawn"] += 1
        return draw(*words, **options)

    def counting_score(*words, **options):
        counts["judged"] += 1
        return score(*words, **options)

    monkeypatch.setattr(sweeping, "draw_samples", counting_draw)
    monkeypatch.setattr(GGUFJudge, "score", counting_score)
    return counts


def read(path):
    return json.loads((path / "sweep.json").read_text())


def test_frontier_table_figure_and_json(command, model, judge, tmp_path, counted):
    out = tmp_path / "s"
    code, told, _ = command("sweep", "text", model, "--out", out, *SMALL, "--judge", judge)
    assert code == 0
    assert counted == {"drawn": 2 + 8, "judged": 2 + 8 + 2}, "one round has no thresholds and no penalty"
    assert "under tiny.gguf" in told
    whole = read(out)
    assert whole["n"] == 4
    assert {record["nfe"] for record in whole["frontier"]} == {1, 2}
    assert {record["points"] for record in whole["frontier"]} == {2, 8}
    for record in whole["frontier"]:
        best = [row for row in whole["rows"] if row["settings"].get("nfe") == record["nfe"]]
        assert record["frontier"][0]["perplexity"] == min(row["perplexity"] for row in best)
        assert record["frontier"][-1]["entropy"] == max(row["entropy"] for row in best)
    assert {p.name for p in out.iterdir()} == {
        "plan.json",
        "samples.jsonl",
        "rows.jsonl",
        "sweep.json",
        "frontier.png",
        "frontier.svg",
    }


def test_killed_and_continued_is_the_same_and_repeats_nothing(command, model, judge, tmp_path, counted):
    whole, broken = tmp_path / "whole" / "s", tmp_path / "broken" / "s"
    words = [*SMALL, "--judge", judge]
    command("sweep", "text", model, "--out", whole, *words)
    shutil.copytree(whole, broken)
    for name, keep in (("samples.jsonl", 5), ("rows.jsonl", 3)):
        lines = (broken / name).read_bytes().splitlines(keepends=True)
        (broken / name).write_bytes(b"".join(lines[:keep]) + lines[keep][:20])  # killed within a line
    counted.update(drawn=0, judged=0)
    assert command("sweep", "text", model, "--out", broken, *words)[0] == 0
    assert counted == {"drawn": 12 - 5, "judged": 12 - 3}
    keep = lambda row: {key: value for key, value in row.items() if key != "seconds"}  # noqa: E731
    order = lambda rows: sorted(map(keep, rows), key=str)  # noqa: E731
    assert order(read(broken)["rows"]) == order(read(whole)["rows"])
    assert read(broken)["frontier"] == read(whole)["frontier"]
    counted.update(drawn=0, judged=0)
    assert command("sweep", "text", "--out", broken, "--judge", judge)[0] == 0
    assert counted == {"drawn": 0, "judged": 0}


def test_drawn_here_and_judged_there(command, model, judge, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    code, told, _ = command("sweep", "text", model, "--out", here, *SMALL, "--judge", "none")
    assert code == 0
    assert "judge them with" in told
    assert not (here / "rows.jsonl").exists()
    here.rename(there)
    assert command("sweep", "text", "--out", there, "--judge", judge)[0] == 0
    assert len(read(there)["rows"]) == 12
    code, _, err = command("sweep", "text", "--out", there, "--judge", judge, "--n", 4, "--kappa", ".5")
    assert code == 2
    assert "without a CHECKPOINT nothing is drawn: leave --n, --kappa out" in err


def test_the_papers_comparisons(command, model, judge, tmp_path, counted):
    out = tmp_path / "s"
    code, told, _ = command(
        "sweep", "text", model, "--out", out, *SMALL, "--judge", judge, "--study", "horizon,iterate"
    )
    assert code == 0
    for words in ("H = 1", "H = 8", "one-step map", "renoise + remap"):
        assert words in told
    found = {(r["study"], r["row"], r["column"]): r["perplexity"] for r in read(out)["studies"]}
    assert len(found) == 4 + 4
    assert found["iterate", "1", "iterate"] == pytest.approx(found["iterate", "1", "renoise + remap"])
    assert found["horizon", "64 Euler steps", "one-step map"] == found["iterate", "1", "renoise + remap"]
    before = counted["drawn"]
    code, told, _ = command("sweep", "text", model, "--out", out, *SMALL, "--judge", judge, "--study", "scorer,commit")
    assert code == 0
    assert "non-commit 0.9" in told
    assert "quality" in told
    assert "H = 4" in told, "the studies of before are told again"
    assert counted["drawn"] - before == 2 + 3, "one round, the checkpoint's own kappa, .9, and confidence were there"


@pytest.mark.parametrize(
    ("method", "words", "budgets"),
    [
        ("mdlm", ["--nfe", "1,2", "--temperature", ".5,1"], {1, 2}),
        ("ar", ["--temperature", "1", "--top-p", ".5,1"], {12}),
    ],
)
def test_other_methods_are_swept_over_the_options_they_have(command, judge, tmp_path, method, words, budgets):
    model, out = write_checkpoint(letters(method), tmp_path / "run"), tmp_path / "s"
    code, told, _ = command("sweep", "text", model, "--out", out, "--n", 4, *words, "--judge", judge, "--study", "all")
    assert code == 0
    whole = read(out)
    assert {record["nfe"] for record in whole["frontier"]} == budgets
    assert {record["points"] for record in whole["frontier"]} == {2}
    assert whole["studies"] == []
    assert whole["origin"]["method"] == method
    assert all(f"│ {nfe:3} │" in told for nfe in budgets)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kappa", ".5"], "the sampler of 'mdlm' has no option 'kappa'"),
        (
            ["--study", "scorer"],
            "the study 'scorer' compares values of scorer, which the sampler of 'mdlm' does not have",
        ),
    ],
)
def test_what_a_method_cannot_vary_is_refused_in_a_line(command, tmp_path, options, words):
    model = write_checkpoint(letters("mdlm"), tmp_path / "run")
    code, told, err = command("sweep", "text", model, "--out", tmp_path / "s", "--judge", "none", *options)
    assert (code, told, err.count("\n")) == (2, "", 1)
    assert words in err
    assert not (tmp_path / "s").exists()


def test_the_real_text_of_a_sweep_stays_and_is_named(command, model, judge, tmp_path, monkeypatch):
    def text(data, sha256):
        monkeypatch.setattr(TinyLetters, "source", lambda task: {"data": data, "sha256": sha256}, raising=False)

    words = ["sweep", "text", model, "--out", tmp_path / "s", *SMALL[:4], "--judge", judge]
    text("here", "1")
    assert command(*words)[0] == 0
    text("moved", "1")
    assert command(*words)[0] == 0
    assert read(tmp_path / "s")["real_text"] == {"data": "here", "sha256": "1"}
    text("other", "2")
    before = (tmp_path / "s" / "plan.json").read_bytes()
    code, _, err = command(*words, "--study", "noise")
    assert code == 2
    assert "compares with other real text, here" in err
    assert (tmp_path / "s" / "plan.json").read_bytes() == before
    assert command(*words, "--no-references")[0] == 0
    assert read(tmp_path / "s")["real_text"]["data"] == "here"


def test_a_damaged_folder_is_refused_in_a_line(command, model, judge, tmp_path):
    out = tmp_path / "s"
    command("sweep", "text", model, "--out", out, *SMALL[:4], "--judge", judge)
    (out / "rows.jsonl").write_text('{"a": 1}\n')
    for words in (["text", "--out", out, "--judge", judge], ["frontier", out, "--out", tmp_path / "f"]):
        code, _, err = command("sweep", *words)
        assert code == 2
        assert "rows.jsonl, line 1 is damaged" in err


def test_several_sweeps_in_one_figure(command, model, judge, tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for seed, folder in enumerate(folders):
        command("sweep", "text", model, "--out", folder, *SMALL[:4], "--judge", judge, "--seed", seed)
    code, told, _ = command("sweep", "frontier", *folders, "--out", tmp_path / "f", "--json", tmp_path / "f.json")
    assert code == 0
    assert "one" in told
    assert "two" in told
    records = json.loads((tmp_path / "f.json").read_text())["frontier"]
    assert [(r["nfe"], r["label"]) for r in records] == [(1, "one"), (1, "two"), (2, "one"), (2, "two")]
    assert (tmp_path / "f.svg").exists()
    assert json.loads((tmp_path / "f.json").read_text())["judge"]["name"] == "tiny.gguf"


def test_judges_of_one_name_are_told_apart_and_never_mixed(command, model, judge, tmp_path, counted):
    out, words = tmp_path / "s", ["--out", tmp_path / "f", "--json", tmp_path / "f.json"]
    command("sweep", "text", model, "--out", out, *SMALL[:4], "--judge", judge)
    (tmp_path / "elsewhere").mkdir()
    other = gguf_writer.model_file(tmp_path / "elsewhere" / "tiny.gguf", seed=1)
    counted.update(drawn=0, judged=0)
    assert command("sweep", "text", "--out", out, "--judge", other)[0] == 0
    assert counted["judged"] == len((out / "samples.jsonl").read_text().splitlines()), "all of it again"
    assert {row["judged_by"]["sha256"] for row in read(out)["rows"]} == {read(out)["judge"]["sha256"]}
    for asked in ([], ["--judge", "tiny.gguf"]):
        code, _, err = command("sweep", "frontier", out, *asked, *words)
        assert code == 2
        assert re.search(r"judged by tiny\.gguf \(\w+ \w{8}\), tiny\.gguf \(.*: choose one judge", err)
    chosen = err.split("judged by ")[1].split(", tiny")[0]
    assert command("sweep", "frontier", out, "--judge", chosen, *words)[0] == 0
    assert json.loads((tmp_path / "f.json").read_text())["judge"]["sha256"].startswith(chosen[-9:-1])
    code, _, err = command("sweep", "frontier", out, "--judge", "gpt2-large", *words)
    assert code == 2
    assert "not by gpt2-large" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "has no sweep: give a CHECKPOINT"),
        (["MODEL", "--study", "frontear"], "did you mean 'frontier'"),
        (["MODEL", "--n", "0"], "at least 1"),
        (["MODEL", "--kappa", "2"], "--kappa 2"),
        (["MODEL", "--temperature", "-1"], "--temperature -1"),
        (["MODEL", "--sigma", "0"], "--sigma 0"),
        (["MODEL", "--repetition-penalty", "inf"], "--repetition-penalty inf"),
        (["MODEL", "--entropy", "x"], "--entropy x"),
        (["MODEL", "--judge", "missing.gguf"], "no file missing.gguf"),
        (["MODEL", "--top-p", "0"], "--top-p 0"),
        (["MODEL", "--temperature", "0", "--top-p", ".9"], "top_p changes nothing at temperature 0"),
        (["sudoku"], "not on text"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(command, model, tmp_path, options, words):
    out = tmp_path / "s"
    code, told, err = command("sweep", "text", *(model if w == "MODEL" else w for w in options), "--out", out)
    assert (code, told) == (2, "")
    assert words in err
    assert not out.exists()


def test_other_refusals(command, model, judge, tmp_path):
    out = tmp_path / "s"
    command("sweep", "text", model, "--out", out, *SMALL, "--judge", "none", "--no-references")
    code, _, err = command("sweep", "text", model, "--out", out, *SMALL, "--judge", "none", "--seed", 5)
    assert code == 2
    assert "another seed" in err
    for words in (["frontier", out], ["frontier", tmp_path / "none"]):
        code, _, err = command("sweep", *words, "--out", tmp_path / "f")
        assert code == 2
        assert "no judged samples" in err
    (tmp_path / "file").write_text("")
    code, _, err = command("sweep", "text", model, "--out", tmp_path / "file")
    assert code == 2
    assert "is a file" in err


def test_equal_labels_are_refused(command, model, judge, tmp_path):
    folders = [tmp_path / name / "sweep" for name in ("one", "two")]
    for folder in folders:
        command("sweep", "text", model, "--out", folder, *SMALL[:4], "--judge", judge)
    code, _, err = command("sweep", "frontier", *folders, "--out", tmp_path / "f")
    assert code == 2
    assert "two of these folders are called 'sweep'" in err
    assert not (tmp_path / "f.png").exists()
