"""Small work end to end: done once, resumed after any stop, written whole; and the states of the list."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import torch

from dbtm.core.errors import UsageError
from dbtm.service.progress import Cancelled, Progress
from dbtm.service.reproduction import states
from dbtm.service.reproduction.entries.text import RIVALS
from dbtm.service.reproduction.registry import ENTRIES
from dbtm.service.reproduction.running import ReproductionRequest, reproduce
from dbtm.service.reproduction.steps.base import Resources, Step
from dbtm.service.reproduction.steps.text import Judged
from dbtm.service.reproduction.steps.training import Corpus, Train
from tests.processes import PATIENCE, wait_until

NAME = "tab:autonomous-field-horizon"  # text, a run, and four settings of its sampler
UNJUDGED = Resources(judge="none", device="cpu")


def numbers(path) -> dict:
    """The JSON but for the machine and the time."""
    document = json.loads(path.read_text())
    assert document.pop("made")["torch"] == torch.__version__
    return document


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(folder, result) of an undisturbed reproduction."""
    out = tmp_path_factory.mktemp("whole")
    return out, reproduce(ReproductionRequest(name=NAME, scale="trial", out=out, resources=UNJUDGED))


def test_a_table_stands_beside_the_papers(whole):
    out, result = whole
    lines = {(row, whose): values for row, whose, values in result.comparison.lines()}
    ours = lines["perplexity (entropy)", "ours, trial (other text, other judge)"]
    paper = lines["perplexity (entropy)", "paper"]
    assert paper == [[3571.8, 4.822], [276.1, 4.378], [293.2, 4.386], [247.1, 4.115]]
    assert all(perplexity is None and 0 < entropy < 4 for perplexity, entropy in ours)
    document = numbers(out / "tab-autonomous-field-horizon-trial.json")
    assert document["differs"].startswith("Ours are maps of 16 channels")
    text = (out / "tab-autonomous-field-horizon-trial.md").read_text()
    assert "| paper | 3571.8 (4.82) | 276.1 (4.38) |" in text
    assert "(- " not in text


def test_what_is_done_is_not_done_again(whole, monkeypatch):
    out, result = whole
    for kind in (Corpus, Train, Judged):
        monkeypatch.setattr(kind, "run", lambda *_: pytest.fail("done already"))
    again = reproduce(ReproductionRequest(name=NAME, scale="trial", out=out, resources=UNJUDGED))
    assert again.comparison == result.comparison


def test_the_folder_may_be_moved(whole, tmp_path):
    """All that a reproduction remembers is in it: a further table goes on from the copy, its text included."""
    shutil.copytree(whole[0], tmp_path / "moved")
    request = ReproductionRequest(
        name="tab:decode-frontier-lm1b", scale="trial", out=tmp_path / "moved", resources=UNJUDGED
    )
    found = reproduce(request).comparison.ours.rows
    assert found == {}, "a frontier needs a judge"
    samples = [path.read_text() for path in tmp_path.glob("moved/steps/judge-*/sweep/samples.jsonl")]
    assert any('"kind": "real"' in text for text in samples)


def test_tables_share_what_they_need(whole, monkeypatch):
    """The run of one table is that of another: only the other's samples are drawn."""
    out, _ = whole
    kinds: list[type[Step]] = []
    for kind in (Corpus, Train, Judged):
        run = kind.run
        monkeypatch.setattr(kind, "run", lambda self, *a, _run=run: kinds.append(type(self)) or _run(self, *a))
    reproduce(ReproductionRequest(name="tab:anchor-ablation", scale="trial", out=out, resources=UNJUDGED))
    assert kinds.count(Corpus) == 0
    assert kinds.count(Train) == 3, "of four anchor times one is the default"
    assert kinds.count(Judged) == 4


def test_every_rival_that_exists_is_trained_and_sampled(whole):
    """A method that is added joins the table without a word here."""
    request = ReproductionRequest(name="tab:language-results", scale="trial", out=whole[0], resources=UNJUDGED)
    result = reproduce(request)
    rows = result.comparison.ours.rows
    runs = [step for step in result.plan.order() if isinstance(step, Train) and step.method]
    assert {"ar", "mdlm"} <= {run.method for run in runs}
    assert {"DBTM", "DBTM + ril", "MDLM, not distilled", "AR, one evaluation per token"} <= set(rows)
    assert {*RIVALS} <= set(rows)
    assert not [note for note in result.comparison.notes if note.startswith("not implemented here")]


class Stops(Progress):
    """Cancels when it was asked so many times."""

    def __init__(self, after: int):
        self.asked, self.after = 0, after

    def cancelled(self) -> bool:
        self.asked += 1
        return self.asked > self.after


def test_stopped_anywhere_it_ends_as_the_undisturbed_one(whole, tmp_path):
    request = ReproductionRequest(name=NAME, scale="trial", out=tmp_path, resources=UNJUDGED)
    stops = 0
    for after in range(40):
        try:
            reproduce(request, Stops(after % 4))
        except Cancelled:
            stops += 1
        else:
            break
    assert stops >= 3
    reproduce(request)
    name = "tab-autonomous-field-horizon-trial.json"
    assert numbers(tmp_path / name) == numbers(whole[0] / name)


def test_killed_in_the_middle_it_ends_as_the_undisturbed_one(whole, tmp_path):
    words = ["reproduce", NAME, "--scale", "trial", "--judge", "none", "--device", "cpu", "--out", str(tmp_path / "r")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "dbtm", *words]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert wait_until(lambda: list(tmp_path.glob("r/steps/train-*/run/*")) or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "paper" in done.stdout
    assert "/3, " in done.stderr, "a line for every stage, of the run too"
    assert "training text" in done.stderr
    name = "tab-autonomous-field-horizon-trial.json"
    assert numbers(tmp_path / "r" / name) == numbers(whole[0] / name)


def test_a_damaged_result_is_a_line(whole, tmp_path):
    request = ReproductionRequest(name="tab:optimal-anchor", out=tmp_path)
    reproduce(request)
    (path,) = tmp_path.glob("steps/*/result.json")
    path.write_text("{")
    with pytest.raises(UsageError, match="is damaged: delete it"):
        reproduce(request)


# -- states ------------------------------------------------------------------------------------------------------------


def by_label(out, resources=Resources(device="cpu")):
    return {state.entry.label: state for state in states.states(out, resources)}


def test_states_without_anything(tmp_path, monkeypatch):
    monkeypatch.setattr(states, "ran_small", lambda label: None)
    found = by_label(tmp_path)
    assert list(found) == list(ENTRIES)
    assert {state.by_scale["small"] for state in found.values()} == {"possible now"}
    text = found["tab:language-results"].by_scale["paper"]
    assert text.startswith("needs data lm1b; needs data owt; needs a GPU for about ")
    assert found["tab:optimal-anchor"].by_scale["paper"] == "the same as small"
    # 3 difficulties: 4 measured thresholds at each of 4 budgets, and one number for all 5 at 1 NFE
    assert found["tab:sudoku-threshold-sweep"].results == "results/sudoku-sweep.json (63 values)"
    assert found["tab:anchor-ablation"].results == ""


def test_a_recorded_run_of_the_same_plan_says_its_time(tmp_path, monkeypatch):
    entry = ENTRIES["tab:optimal-anchor"]
    record = {"plan": entry.plan("small").fingerprint(), "cpu_seconds": 12.3}
    monkeypatch.setattr(states, "ran_small", {entry.label: record}.get)
    assert states.state_of(entry, tmp_path, Resources()).by_scale["small"] == "possible now; ran in 12 CPU s"
    monkeypatch.setattr(states, "ran_small", {entry.label: {**record, "plan": "another"}}.get)
    assert states.state_of(entry, tmp_path, Resources()).by_scale["small"] == "possible now"


def test_states_with_results_data_and_a_gpu(tmp_path, monkeypatch):
    reproduce(ReproductionRequest(name="tab:optimal-anchor", out=tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(states, "ran_small", lambda label: None)
    here = Resources({"lm1b": tmp_path})
    found = by_label(tmp_path, here)
    assert found["tab:optimal-anchor"].by_scale["small"] == "done here"
    path = tmp_path / "tab-optimal-anchor-small.json"
    document = json.loads(path.read_text())
    for text in (json.dumps({**document, "plan": "another"}), "[]", "{"):
        path.write_text(text)
        again = states.state_of(ENTRIES["tab:optimal-anchor"], tmp_path, here)
        assert again.by_scale["small"] == "possible now", "what is there is not of this plan"
    assert found["tab:anchor-ablation"].by_scale["paper"] == "possible now"
    assert found["tab:sudoku-threshold-sweep"].by_scale["paper"] == "possible now", "it needs no data"
    assert found["tab:decode-frontier-owt"].by_scale["paper"] == "needs data owt"
