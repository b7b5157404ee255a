"""`python -m tests.fuzz.kill 100`: training that is killed, doubled, or out of disk loses nothing.

Commands run in forked processes, so that each costs milliseconds. File-system events (open for writing, rename, mkdir,
remove, fsync) are counted by an audit hook, which ends the process before the n-th, or says that the disk is full.
"""

import argparse
import errno
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path

import numpy as np
import torch

from tests.fuzz.forked import Ended, start
from tests.fuzz.result import add

STEPS = 6
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
EVENTS = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"}
SETTINGS = [
    "model.width=16", "model.depth=1", "model.heads=2", "model.cond_dim=8", "method.quality.enabled=false",
    f"train.steps={STEPS}", "train.batch=4", "train.checkpoint_every=1", "train.keep=2", "train.log_every=1",
    "train.device=cpu", "train.precision=fp32", "train.compile=false", "train.graph=false", "optim.warmup=1",
]  # fmt: skip
WEIGHTS = ("model", "ema", "optim")


def at_event(n: int, act: Callable[[], None], folder: Path) -> Callable[[], None]:
    """Sets up a process so that `act` happens before the n-th event (from 1) on files below a folder."""

    def set_up() -> None:
        seen, where, fsync = Counter[str](), str(folder), os.fsync

        def count() -> None:
            seen["all"] += 1
            if seen["all"] == n:
                act()

        def hook(event: str, arguments: tuple) -> None:
            changes = event in EVENTS or (event == "open" and (arguments[2] or 0) & WRITING)
            if changes and where in str(arguments[0]):
                count()

        def counted_fsync(descriptor: int) -> None:
            count()
            fsync(descriptor)

        os.fsync = counted_fsync
        sys.addaudithook(hook)

    return set_up


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def disk_full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Bench:
    """A folder with data, an undisturbed run to compare with, and how long that takes."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.data = folder / "tokens.npy"
        np.save(self.data, np.random.default_rng(0).integers(0, 5, (50, 6)))
        self._warm_up(folder / "warm")
        self.whole = folder / "whole"
        started = time.monotonic()
        ended = start(self.words(self.whole)).wait()
        assert ended.code == 0, ended.errors
        self.seconds = time.monotonic() - started

    def _warm_up(self, run: Path) -> None:
        """One run in this process, so that the forked ones have everything imported."""
        from dbtm.service.training import TrainRequest, train

        with redirect_stderr(io.StringIO()):
            train(TrainRequest("own", changes=tuple(SETTINGS), out=run, data=self.data, vocab=5, length=6))
        shutil.rmtree(run)

    def words(self, run: Path, resume: bool = False) -> list[str]:
        settings = [word for setting in SETTINGS for word in ("--set", setting)]
        words = [
            "train",
            "own",
            "--data",
            str(self.data),
            "--vocab",
            "5",
            "--length",
            "6",
            "--out",
            str(run),
            *settings,
        ]
        return [*words, "--resume", "auto"] if resume else words

    def check(self, run: Path) -> None:
        """Every checkpoint that is there is whole."""
        from dbtm.checkpoint import folder as checkpoint

        for found in checkpoint.all_in(run):
            checkpoint.verify(found)

    def compare(self, run: Path) -> None:
        """The last checkpoint is the undisturbed run's, bit for bit."""
        from dbtm.checkpoint import folder as checkpoint

        ours, theirs = (checkpoint.latest(each) for each in (run, self.whole))
        assert ours is not None
        assert ours.name == theirs.name, f"{run} ended at {ours.name}"
        for name in WEIGHTS:
            one, other = (checkpoint.read_tensors(each, name) for each in (ours, theirs))
            assert one.keys() == other.keys()
            assert all(torch.equal(one[key], other[key]) for key in one), f"{name} differs after {run}"

    def finish(self, run: Path) -> None:
        """Resume to the end, undisturbed, and compare; nothing of dead processes is left."""
        ended = start(self.words(run, resume=True)).wait()
        assert ended.code == 0, ended.errors
        self.compare(run)
        assert not debris(run), debris(run)


def debris(run: Path) -> list[str]:
    return [path.name for path in run.glob(".*") if path.name != ".lock"]


# -- what is shown -----------------------------------------------------------------------------------------------------


def kills(bench: Bench, n: int, draw: random.Random) -> Counter[str]:
    """n SIGKILLs, half at random moments, half at file-system events; runs are resumed until they end, and compared."""
    counts, run, number = Counter[str](), bench.folder / "killed-0", 0
    while counts["kills"] < n:
        by_event = draw.random() < 0.5
        before = at_event(draw.randrange(1, 60), die, run) if by_event else lambda: None
        process = start(bench.words(run, resume=True), before)
        if not by_event:
            time.sleep(draw.uniform(0, bench.seconds))
            os.kill(process.pid, signal.SIGKILL)
        ended = process.wait()
        assert ended.code in (0, -signal.SIGKILL), ended.errors
        counts["kills"] += ended.code != 0
        counts["kills at events"] += by_event and ended.code != 0
        counts["kills while saving"] += bool(list(run.glob(".writing-*")))
        bench.check(run)
        if ended.code == 0:
            bench.compare(run)
            shutil.rmtree(run)
            counts["runs compared"] += 1
            number += 1
            run = bench.folder / f"killed-{number}"
    bench.finish(run)
    counts["runs compared"] += 1
    shutil.rmtree(run)
    return counts


def two_trainers(bench: Bench, n: int, draw: random.Random) -> Counter[str]:
    """Two at once in one folder, n times: exactly one trains, the other is refused in a line."""
    counts = Counter[str]()
    for i in range(n):
        run = bench.folder / f"two-{i}"
        one = start(bench.words(run))
        time.sleep(draw.choice((0, 0, 0.5)) * draw.random() * bench.seconds)
        other = start(bench.words(run))
        ended = [process.wait() for process in (one, other)]
        assert sorted(each.code for each in ended) == [0, 2], ended
        assert all(each.refused for each in ended if each.code), ended
        bench.compare(run)
        counts["pairs"] += 1
        counts["refused by the lock"] += any("being trained" in each.errors for each in ended)
        shutil.rmtree(run)
    return counts


def disks_full(bench: Bench, n: int) -> Counter[str]:
    """n sizes of a disk, from too small for the first file to almost large enough."""
    one = sum(path.stat().st_size for path in (bench.whole / f"step-{STEPS:08d}").iterdir())
    counts = Counter[str]()
    for i in range(n):
        run = bench.folder / f"full-{i}"
        size = int(one * (0.05 + 3.2 * i / n)) + 8192
        run.mkdir()
        if _mount(run, size):
            counts["on a disk of its own"] += 1
            try:
                ended = start(bench.words(run)).wait()
                there = bench.folder / f"kept-{i}"
                _full(bench, run, ended, counts)
                shutil.copytree(run, there)
            finally:
                subprocess.run(["umount", str(run)], check=True)
        else:
            run.rmdir()
            ended = start(bench.words(run), at_event(2 + 6 * i, disk_full, run)).wait()
            _full(bench, run, ended, counts)
            there = run
        bench.finish(there)
        shutil.rmtree(there)
    return counts


def _full(bench: Bench, run: Path, ended: Ended, counts: Counter[str]) -> None:
    """One line and exit code 2, no debris, and every checkpoint whole; a disk that suffices is counted apart."""
    bench.check(run)
    assert not debris(run), f"{debris(run)} left in {run}"
    assert ended.code == 0 or ended.refused, f"exit code {ended.code}: {ended.errors}"
    counts["full" if ended.code else "large enough"] += 1


def _mount(folder: Path, size: int) -> bool:
    """Whether the folder is now a disk of so many bytes, which takes root on Linux."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kill", description=__doc__)
    parser.add_argument("n", type=int, nargs="?", default=100, help="SIGKILLs")
    parser.add_argument("--pairs", type=int, default=0, help="pairs of trainers (default: a fifth of n)")
    parser.add_argument("--disks", type=int, default=0, help="sizes of full disks (default: a quarter of n)")
    parser.add_argument("--json", type=Path, default=None, help="write the counts to this file")
    asked = parser.parse_args()
    n, shown = asked.n, {}
    torch.set_num_threads(1)
    draw = random.Random(0)
    with tempfile.TemporaryDirectory(prefix="dbtm-kill-") as name:
        bench = Bench(Path(name))
        for what, show in (
            ("SIGKILL", lambda: kills(bench, n, draw)),
            ("two trainers", lambda: two_trainers(bench, asked.pairs or max(2, n // 5), draw)),
            ("disk full", lambda: disks_full(bench, asked.disks or max(3, n // 4))),
        ):
            counts = show()
            shown[what] = dict(counts)
            print(f"{what}: " + ", ".join(f"{value} {word}" for word, value in counts.items()), flush=True)
    add(asked.json, "kill", shown)
    print("nothing was lost; every run ended as the undisturbed one, bit for bit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
