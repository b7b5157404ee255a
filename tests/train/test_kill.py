"""Training that is killed, started twice or out of disk space: a short version (`make kill N=100` for more)."""

import random
import sys

import pytest

pytest.importorskip("resource", reason="processes are forked")

from tests.fuzz import kill


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return kill.Bench(tmp_path_factory.mktemp("kill"))


def test_killed_runs_end_as_the_undisturbed_one(bench):
    counts = kill.kills(bench, 8, random.Random(1))
    assert counts["kills at events"] > 0, "some kills were at events of the file system"
    assert counts["runs compared"] > 0


def test_of_two_trainers_exactly_one_runs(bench):
    assert kill.two_trainers(bench, 3, random.Random(1))["refused by the lock"] > 0


def test_a_full_disk_is_a_line_and_loses_nothing(bench):
    assert kill.disks_full(bench, 4)["full"] > 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_the_bench_notices_what_is_lost(bench, tmp_path):
    """The comparison can fail: a run of another seed, half-written checkpoints, leftover files."""
    run = tmp_path / "other"
    words = [*bench.words(run), "--set", "train.seed=1"]
    assert kill.start(words).wait().code == 0
    with pytest.raises(AssertionError, match="differs"):
        bench.compare(run)
    (run / ".writing-step-00000001-x-1").mkdir()
    assert kill.debris(run) == [".writing-step-00000001-x-1"]
    broken = run / f"step-{kill.STEPS:08d}" / "ema.safetensors"
    broken.write_bytes(broken.read_bytes()[:-1])
    with pytest.raises(ValueError, match="damaged"):
        bench.check(run)
