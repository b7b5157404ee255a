"""benchmarks/text_base.py: its variants are runs that exist, and all of it runs at the size of --tiny."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.migrate import read_config
from dbtm.config import override
from dbtm.recipes import recipe
from dbtm.train.optim import schedule
from tests.evals.judges import gguf_writer
from tests.scripts import load_script

AT_ONCE = ("--max-seconds", "1e-6")  # one step, then the time is up


@pytest.fixture(scope="module")
def script():
    return load_script("text_base")


@pytest.fixture(scope="module")
def prepared(script, tmp_path_factory):
    out = tmp_path_factory.mktemp("long")
    script.main(["data", "--tiny", "--out", str(out)])
    return out / "data"


@pytest.fixture
def run(script, prepared, tmp_path):
    """A command in a folder of its own, on the same text."""

    def words(command, *others):
        script.main([command, "--tiny", "--out", str(tmp_path), "--data", str(prepared), *map(str, others)])

    return words


def progress(out, stage="text-base"):
    return json.loads((out / "packed" / stage / "progress.json").read_text())


# -- settings ----------------------------------------------------------------------------------------------------------


def test_variants_differ_from_their_recipe_and_from_each_other(script):
    runs = []
    for variant in script.VARIANTS:
        runs.append(override(recipe(variant.recipe), [*variant.changes]))
        assert not variant.changes or runs[-1] != recipe(variant.recipe)
    assert len({repr(each) for each in runs}) == len({each.name for each in script.VARIANTS}) == len(runs)
    assert len({script.place(type("", (), {"out": Path("x")}), each.name, 0) for each in script.VARIANTS}) == len(runs)
    first = [each.recipe == script.STAGES[0] for each in script.VARIANTS]
    assert script.VARIANTS[0].name == "base", "whose weights the later stages start from"
    assert first == sorted(first, reverse=True)


@pytest.mark.parametrize("done", [1, 400, 600, 601, 999])
def test_a_run_in_parts_has_the_learning_rate_of_the_whole(script, done):
    whole = override(recipe("text-base"), ["train.steps=1000"])
    left = script.rest(whole, done)
    assert left.train.steps == 1000 - done
    assert (left.train.seed, left.task.seed) != (whole.train.seed, whole.task.seed), "other noise, another order"
    assert left.optim.warmup <= left.train.steps
    for step in range(max(done + left.optim.warmup, whole.optim.warmup), 1000):
        factor = schedule(step - done, left.train.steps, left.optim)
        expected = schedule(step, 1000, whole.optim)
        assert factor * left.optim.lr == pytest.approx(expected * whole.optim.lr, rel=1e-9)
        assert factor * left.optim.muon_lr == pytest.approx(expected * whole.optim.muon_lr, rel=1e-9)
    assert script.rest(whole, 0) == whole


# -- the run -----------------------------------------------------------------------------------------------------------


def test_a_stage_in_parts_here_and_on_another_machine(run, tmp_path, capsys):
    run("train", *AT_ONCE)
    assert "text-base    1 of 4 steps" in capsys.readouterr().out
    run("train", *AT_ONCE)
    assert [path.name for path in tmp_path.glob("text-base-from-*")] == ["text-base-from-000000"], "resumed here"
    assert progress(tmp_path)["done"] == 2
    shutil.rmtree(tmp_path / "text-base-from-000000")  # what travels is packed/
    run("train")
    found = progress(tmp_path)
    assert [(each["from"], each["to"]) for each in found["parts"]] == [(0, 1), (1, 2), (2, 4)]
    assert (found["done"], found["steps"], found["start"]) == (4, 4, 2)
    assert {"seconds", "commit", "hardware"} <= found["parts"][0].keys()
    config = read_config(checkpoint.latest(tmp_path / "text-base-from-000002"))
    assert config.train.init == str(tmp_path / "packed" / "text-base")
    assert config.train.seed == config.task.seed == 2
    packed = tmp_path / "packed" / "text-base"
    assert read_config(packed).sample.plan_by_nfe, "rounds are planned when a stage ends"
    assert max(path.stat().st_size for path in packed.iterdir()) <= 16 << 20
    run("train", *AT_ONCE)
    later = progress(tmp_path, "text-base-2")
    assert later["done"] == 1
    first = read_config(checkpoint.latest(tmp_path / "text-base-2-from-000000"))
    assert (first.recipe, first.train.init) == ("text-base-2", str(packed))


def test_a_machine_that_was_overtaken_goes_on_from_the_packed_weights(run, tmp_path):
    run("train", *AT_ONCE)
    shutil.copytree(tmp_path / "text-base-from-000000", tmp_path / "left-behind")
    run("train", *AT_ONCE)
    shutil.rmtree(tmp_path / "text-base-from-000000")
    (tmp_path / "left-behind").rename(tmp_path / "text-base-from-000000")  # at step 1, and the packed weights at 2
    run("train")
    assert progress(tmp_path)["parts"][-1]["from"] == progress(tmp_path)["start"] == 2


def test_what_a_stage_was_begun_with_stays(run, tmp_path):
    run("train", *AT_ONCE, "--set", "method.posterior.weight=0.25", "--set", "train.steps=2")
    with pytest.raises(SystemExit, match=r"method\.posterior\.weight=0\.25"):
        run("train", "--set", "method.posterior.weight=0.75")
    run("train")
    run("train", *AT_ONCE, "--set", "method.reflow.weight=3")
    first, second = (read_config(tmp_path / "packed" / stage) for stage in ("text-base", "text-base-2"))
    assert first.method.posterior.weight == second.method.posterior.weight == 0.25
    assert (first.method.reflow.weight, second.method.reflow.weight) == (0, 3)
    assert (first.train.steps, progress(tmp_path, "text-base-2")["steps"]) == (2, 4), "its length is its own"


def test_a_stage_waits_for_the_one_before(run):
    with pytest.raises(SystemExit, match="text-base, which is not finished"):
        run("train", "--stage", "text-base-2")
    with pytest.raises(SystemExit, match="no weights"):
        run("judge")


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_judge(tmp_path_factory):
    return gguf_writer.model_file(tmp_path_factory.mktemp("judge") / "tiny.gguf")


def test_samples_are_drawn_here_and_judged_there(run, small_judge, tmp_path, capsys):
    run("train")
    run("judge", "--ways", "recipe", "posterior 0.7")
    assert not (tmp_path / "text-base.json").exists(), "nobody judged"
    drawn = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in drawn[-11:]] == ["1", "2", "4", "8", "16", "2", "4", "8", "16", "real",
                                                        "shuffled"]  # fmt: skip
    run("judge", "--drawn", "--judge", small_judge)
    found = json.loads((tmp_path / "text-base.json").read_text())["stages"]["text-base"]
    assert (found["recipe"], found["seed"], found["judge"]["name"]) == ("text-base", 1, "tiny.gguf")
    assert {"commit", "hardware", "date"} <= found.keys()
    assert [part["to"] for stage in found["trained"] for part in stage["parts"]] == [4]
    assert found["config"]["method"]["posterior"]["weight"] == 1.0
    assert str(tmp_path) not in json.dumps(found["config"])
    assert all(row["perplexity"] > 0 and row["entropy"] > 0 and "1" in row["distinct"] for row in found["rows"])


def test_every_way_to_sample_is_another(script):
    first, second = (recipe(stage).sample for stage in script.STAGES)
    for nfe in (2, 4):
        shown = [repr(replace(first, **changes, nfe=nfe).shown()) for changes in script.WAYS.values()]
        assert len(set(shown)) == len(script.WAYS)
        studied = {repr(replace(second, **script.WAYS[way], nfe=nfe).shown()) for way in script.STUDY_WAYS}
        assert len(studied) == len(script.STUDY_WAYS)


def test_limits_are_of_perplexity_at_the_entropy_of_text(script, capsys):
    rows = [{"kind": "sample", "settings": {"nfe": 4}, "perplexity": p, "entropy": e, "distinct": {"1": 0.5}}
            for p, e in ((104.0, 4.2), (104.0, 4.1), (106.0, 4.2))]  # fmt: skip
    real = {"kind": "real", "settings": {}, "perplexity": 37.0, "entropy": 4.37, "distinct": {"1": 0.7}}
    script.print_rows([*rows, real], limits=True)
    said = capsys.readouterr().out.splitlines()
    assert [line.endswith("105: reached)") for line in said] == [True, False, False, False]


def test_a_study_makes_what_is_missing(run, script, small_judge, tmp_path, capsys, monkeypatch):
    with pytest.raises(SystemExit, match="'base' with seed 0"):
        run("study", "--only", "reflow")
    run("study", "--only", "base", "reflow", "--runs", 1)
    assert capsys.readouterr().out.count("trained") == 1
    run("study", "--only", "base", "reflow")
    assert capsys.readouterr().out.count("trained") == 1
    monkeypatch.setattr(script, "compared", None)  # nothing is trained again
    run("study", "--only", "base", "rounds", "reflow", "--judge", small_judge, "--runs", 0)
    journals = sorted((tmp_path / "study").glob("*.jsonl"))
    lines = [json.loads(line) for path in journals for line in path.read_text().splitlines()]
    assert [(line["variant"], "rows" in line) for line in lines] == [
        ("base", False), ("base", True), ("reflow", False), ("reflow", True)]  # fmt: skip
    assert {"seed", "steps", "seconds", "commit", "hardware", "changes", "recipe"} <= lines[0].keys()
    assert capsys.readouterr().out.count("judged") == 2
    table = json.loads((tmp_path / "text-base-study.json").read_text())
    assert [(row["variant"], row["seeds"], len(row["by_nfe"])) for row in table["variants"]] == [
        ("base", 1, 4), ("reflow", 1, 4)]  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "study").iterdir()) == [
        "base-0.jsonl", "base-0.jsonl.gz", "base-0.packed", "reflow-0.jsonl", "reflow-0.jsonl.gz",
        "reflow-0.packed"]  # fmt: skip


def test_perplexities_are_compared_at_equal_entropy(script):
    def rows(*points):
        rows = [{"kind": "sample", "settings": {"nfe": 4}, "perplexity": p, "entropy": e} for p, e in points]
        return [*rows, {"kind": "real", "settings": {}, "perplexity": 30.0, "entropy": 4.22}]

    found = script.cell([rows((100.0, 3.9), (200.0, 4.1)), rows((300.0, 3.8), (500.0, 4.2))], 4)
    assert (found["perplexity"], found["entropy"]) == (200.0, pytest.approx(3.85))
    assert found["matched"] == pytest.approx((150 + 400) / 2)
    assert script.cell([rows((100.0, 3.9))], 4)["matched"] is None, "no way to sample reaches it"
