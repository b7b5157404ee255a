"""How readable `text-tiny` is after some minutes on a CPU: writes results/text-tiny.json.

    dbtm data text --input sentences.txt --tokenizer train:4096 --length 64 --out prepared
    python benchmarks/text_tiny.py prepared --source "what the text is" [--minutes 20] [--run RUN]

A word counts as real if it occurs at least twice in the training text. Words at the ends of a sample may be cut off and
do not count. Validation text is measured the same way. The first samples of each budget are kept, not chosen.
"""

import argparse
import json
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import dbtm
from dbtm.checkpoint.loading import find
from dbtm.core.atomic import write_bytes
from dbtm.evals.provenance import made
from dbtm.tasks.text.task import Text

OUT = Path(__file__).parent.parent / "results" / "text-tiny.json"
BUDGETS, N, SHOWN = (1, 4, 8, 16, 32), 256, 2
WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


def words(texts: Sequence[str]) -> list[str]:
    """The words of texts, without the first and the last of each."""
    return [word for text in texts for word in WORD.findall(text)[1:-1]]


def readability(texts: Sequence[str], real: frozenset[str]) -> dict:
    """The share of real words, how long and how many different ones they are."""
    found = words(texts)
    return {
        "words": len(found),
        "real": sum(word in real for word in found) / max(1, len(found)),
        "letters": sum(map(len, found)) / max(1, len(found)),
        "different": len(set(found)) / max(1, len(found)),
    }


def real_words(task: Text) -> frozenset[str]:
    """Words that occur at least twice in the training text."""
    count = Counter[str]()
    for rows in np.array_split(np.arange(len(task.train)), max(1, len(task.train) // 1000)):
        count.update(words([task.text(row) for row in task.train[rows]]))
    return frozenset(word for word, times in count.items() if times > 1)


def measure(run: Path, budgets: Sequence[int] = BUDGETS, n: int = N) -> list[dict]:
    """Validation text and the samples of a run."""
    model = dbtm.load(run)
    assert isinstance(model.task, Text)
    real = real_words(model.task)
    held_out = model.task.validation(n)
    rows = [{"nfe": None, **readability([model.task.text(row) for row in held_out], real)}]
    for nfe in budgets:
        texts = model.sample(n, nfe=nfe).texts
        rows.append({"nfe": nfe, **readability(texts, real), "samples": texts[:SHOWN]})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--source", required=True, help="what the text is, and its licence")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--run", type=Path, help="a run that is there already")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = asked.run or Path(folder) / "run"
        if asked.run is None:
            dbtm.fit("text-tiny", out, minutes=asked.minutes, data=asked.data)
        run = find(out)
        steps = [json.loads(line) for line in (run.parent / "metrics.jsonl").read_text().splitlines()]
        seconds = max(record.get("seconds", 0) for record in steps)  # of training, evaluations included
        config = json.loads((run / "config.json").read_text())
        about = {"recipe": config["recipe"], "seed": config["train"]["seed"], "steps": int(run.name[5:])}
        about |= {"batch": config["train"]["batch"], "minutes": asked.minutes, "seconds": round(seconds)}
        about |= {"data": asked.source, "options": config["sample"], "threads": torch.get_num_threads()}
        document = {**about, "rows": measure(run), **made(torch.device("cpu"))}
    write_bytes(OUT, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())
    print(json.dumps(document["rows"], indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
