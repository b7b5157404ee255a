"""Readers of what runs and comparisons leave: metrics, folders of the referee, pages of them, reproductions."""

import json
from functools import cache
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.harness import Files
from tests.fuzz.mutate import Draw, json_mutated, lines_mutated, mutated
from tests.fuzz.registry import file, target

TABLE = "tab:flowmap-vs-dbtm"
"""Of the paper, whose steps are quick: constants and a few puzzles."""


@target(file("metrics.jsonl", corpus.metrics, lines_mutated))
def metrics(folder: Path) -> None:
    from dbtm.service.runs import list_checkpoints, read_records, summarise
    from dbtm.viz.curves import draw_training, read_run

    found = read_records(folder)
    list_checkpoints(folder, found.records)
    json.dumps([vars(summarise(folder)), found.records], allow_nan=False)
    run = read_run(folder)
    if len(run.series) % 2:  # drawing takes most of the time
        draw_training([run])


def _damaged(files: Files, draw: Draw, *more: str) -> Files:
    """One or two files of a folder changed, JSON as JSON; `more` are names that are drawn more often."""
    out = dict(files)
    for _ in range(draw.choice((0, 1, 1, 1, 1, 2))):
        name = draw.choice([*out, *(each for word in more for each in out if each.endswith(word))])
        if draw.random() < 0.04:
            del out[name]
            continue
        damage = json_mutated if name.endswith(".json") else lines_mutated if name.endswith(".jsonl") else mutated
        out[name] = damage(draw, out[name])
    return out


def _of_comparison(name: str) -> bool:
    return name == "plan.json" or ("/run/" not in name and name.endswith(".json") and name.startswith("runs/"))


@target(lambda draw: _damaged({n: d for n, d in corpus.comparison().items() if _of_comparison(n)}, draw, "plan.json"))
def comparison(folder: Path) -> None:
    from dbtm.evals.referee import tables
    from dbtm.evals.referee.folder import RefereeFolder
    from dbtm.evals.referee.outcome import outcome
    from dbtm.service.refereeing import report
    from dbtm.service.refereeing.report import read_traces

    found = RefereeFolder(folder)
    plan = found.plan
    if plan is None or sum(path.stat().st_size for path in folder.rglob("*.json")) % 16 == 0:
        report(folder)  # with its figures, which take most of the time
        return
    document = outcome(found, plan)
    json.dumps(document, allow_nan=False)
    tables.markdown(document)
    read_traces(found, plan)
    RefereeFolder(folder / "merged").merge((folder,))


@target(file("referee.json", lambda: corpus.comparison()["referee.json"], json_mutated))
def comparison_page(folder: Path) -> None:
    from dbtm.service.comparisons import read_comparison

    json.dumps(read_comparison(folder), allow_nan=False)


@cache
def _reproduced() -> Files:
    from dbtm.service.reproduction.running import ReproductionRequest, reproduce

    def make(out: Path) -> None:
        reproduce(ReproductionRequest(name=TABLE, scale="trial", out=out))

    return corpus.made(make)


@target(lambda draw: _damaged(_reproduced(), draw, "result.json"))
def reproduction(folder: Path) -> None:
    from dbtm.service.reproduction.registry import find
    from dbtm.service.reproduction.running import ReproductionRequest, finished, reproduce
    from dbtm.service.reproduction.steps.base import Resources, Workspace
    from dbtm.service.reproduction.table import shown

    entry = find(TABLE)
    finished(entry, "trial", folder)
    space = Workspace(folder, Resources())
    if any(space.result(step) is None for step in entry.plan("trial").order()):
        return  # it would be done again, which takes its time
    found = reproduce(ReproductionRequest(name=TABLE, scale="trial", out=folder))
    for _, _, values in found.comparison.lines():
        list(map(shown, values))


# -- rows of one's own -------------------------------------------------------------------------------------------------


def _rows(draw: Draw) -> Files:
    name = draw.choice([*corpus.rows()])
    data = corpus.rows()[name]
    if draw.random() > 0.05:
        lines = data.split(b"\n")
        at = draw.randrange(len(lines))
        if name.endswith("jsonl"):
            data = lines_mutated(draw, data)
        elif draw.random() < 0.4:
            odd = (
                b"9" * 5000,
                b"-",
                b"\xef\xbb\xbf1",
                b'"',
                b"1,2",
                b">",
                b";",
                b"1e999",
                b"x" * 200,
                b"\0",
                b"\r",
                b"\t",
            )
            lines[at] = draw.choice((draw.choice(odd), draw.choice(odd) + b"," + lines[at], lines[at] * 30, b""))
            data = b"\n".join(lines)
        else:
            data = mutated(draw, data)
    return {name: data}


@target(_rows)
def own_rows(folder: Path) -> None:
    import numpy as np

    from dbtm.tasks.own import Own
    from dbtm.tasks.own.read import read_rows

    path = str(next(folder.iterdir()))
    length = (None, None, 6, 12)[Path(path).stat().st_size % 4]
    rows = read_rows(path, length)
    assert rows.tokens_NL.min() >= 0
    assert rows.tokens_NL.max() < rows.vocab
    if rows.vocab > 1:
        task = Own(data=path, vocab=rows.vocab, length=rows.tokens_NL.shape[1])
        for tokens in task.batch(np.arange(4)).tokens:
            task.text(tokens)
        task.files()
