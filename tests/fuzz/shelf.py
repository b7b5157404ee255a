"""Files and runs that are right, which the commands of the fuzzer are given."""

import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.harness import Files, put


@cache
def shelf() -> Path:
    """A folder of small files and runs, made once and removed with the process."""
    import atexit

    from dbtm.service.training import fit
    from dbtm.tasks.gsm8k.task import Gsm8k
    from dbtm.tasks.own import Own

    folder = Path(tempfile.mkdtemp(prefix="dbtm-shelf-"))
    atexit.register(_remove, folder, os.getpid())
    files: Files = {
        "plain.txt": corpus.PLAIN, "problems.jsonl": corpus.problems(), "tokens.npy": corpus.array(),
        "tokenizer.json": corpus.tokenizer(), "samples.jsonl": corpus.samples(), "tiny.gguf": corpus.gguf(),
        "puzzles.csv": corpus.puzzles(), "corpus/a.txt": corpus.PLAIN, "small.csv": corpus.small_puzzles(),
        "rows.csv": corpus.rows()["a.csv"], "metric.py": b"def ones(rows):\n    return [1 for _ in rows]\n",
    }  # fmt: skip
    folders = {
        "markov": corpus.toy_run(), "text": corpus.text_run(), "sudoku": corpus.sudoku_run(), "sweep": corpus.sweep(),
        "referee": corpus.comparison(),
    }  # fmt: skip
    files |= {f"{name}/{inner}": data for name, each in folders.items() for inner, data in each.items()}
    files |= corpus.text_set() | {f"problems/{name[4:]}": data for name, data in corpus.problem_set().items()}
    put(files, folder)
    (folder / "empty").mkdir()
    problems = Gsm8k(data=str(folder / "problems"), vocab=_sizes(folder / "problems")[0], length=240, evaluate_n=1)
    runs = {
        "own": corpus.tiny_run(Own(data=str(folder / "rows.csv"), vocab=4, length=6), quality=False),
        "gsm": corpus.tiny_run(problems, quality=False),
        "ar": corpus.tiny_run(corpus.markov(), quality=False).by("ar"),
        "mdlm": corpus.tiny_run(corpus.markov(), quality=False).by("mdlm"),
    }
    with corpus.silence():
        for name, config in runs.items():
            fit(config, folder / name)
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked process
        shutil.rmtree(folder, ignore_errors=True)


def _sizes(folder: Path) -> tuple[int, int]:
    manifest = json.loads((folder / "manifest.json").read_text())
    return manifest["vocab"], manifest["length"]
