"""The model card of a checkpoint: README.md with the header that the Hugging Face hub reads."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbtm.checkpoint.migrate import read_config
from dbtm.config import RunConfig
from dbtm.core.registry import METHODS, TASKS
from dbtm.recipes import PEERS
from dbtm.service.runs import read_records
from dbtm.service.solving import BUILT_IN

WHAT = {
    "colouring": "Colours graphs.",
    "gsm8k": "Writes programs that answer word problems.",
    "maze": "Finds shortest paths in mazes.",
    "own": "Generates rows like those it was trained on.",
    "sat": "Solves 3-SAT formulas.",
    "text": "Writes text, and fills holes in text.",
}
_STEP = re.compile(r"step-(\d+)")
_AT = re.compile(r"(?P<name>.+?)_(?P<at>\d+|all|data)(?P<set>_clues\d+)?")
_COLUMNS = {"all": "chosen by the method", "data": "held-out data"}


def model_card(source: Path, parameters: int, title: str, address: str) -> str:
    """The card of a checkpoint that `dbtm.load(address)` loads."""
    config = read_config(source)
    tags = ["discrete-diffusion", *dict.fromkeys((config.method_name, config.task.name))]
    header = ["library_name: dbtm", *(["pipeline_tag: text-generation"] if config.task.name == "text" else []), "tags:"]
    header += [f"- {json.dumps(tag)}" for tag in tags]
    blocks = [
        "\n".join(["---", *header, "---"]),
        f"# {title}",
        f"{_what(config)} Trained with dbtm (Discrete Beckmann Transport Models) by the method {_method(config)}.",
        "## Use",
        f"```python\n{_code(config, address)}\n```",
        "## Model",
        _table(["", ""], _facts(config, parameters)),
        *_evaluation(source),
        "## Files",
        "`config.json` has all settings, `ema.safetensors` the averaged weights, `manifest.json` the sha256 of every "
        "file. Loading executes no code of the repository.",
        "## Licence",
        "Not stated yet: name one here, and as `license:` in the header of this file.",
    ]
    return "\n\n".join(blocks) + "\n"


def _what(config: RunConfig) -> str:
    name = config.task.name
    if name == "sudoku":
        side = round(_cells(config) ** 0.5)
        return f"Solves {side} x {side} Sudokus."
    return WHAT.get(name, f"Generates sequences of the task `{name}`.")


def _cells(config: RunConfig) -> int:
    return int(getattr(config.task, "box", 3)) ** 4


def _method(config: RunConfig) -> str:
    name = config.method_name
    return f"`{name}` ({PEERS[name]})" if name in PEERS else f"`{name}`"


def _code(config: RunConfig, address: str) -> str:
    """Python that loads the model and samples."""
    name, budget = config.task.name, ", nfe=4" if hasattr(config.sample, "nfe") else ""
    if name == "sudoku" and _cells(config) in BUILT_IN:
        call = f'print(model.solve("{BUILT_IN[_cells(config)]}"))'
    elif name == "text":
        call = f'print(model.write(prompt="The"{budget}).texts[0])'
    else:
        call = f"print(model.sample(4{budget}).texts)"
    strange = [
        f"the {registry.kind} '{own}'"
        for registry, own in ((TASKS, name), (METHODS, config.method_name))
        if own not in registry.built_in()
    ]
    before = [f"# first import the module that registers {' and '.join(strange)}"] if strange else []
    return "\n".join(["import dbtm", "", *before, f"model = dbtm.load({json.dumps(address)})", call])


def _facts(config: RunConfig, parameters: int) -> list[list[str]]:
    train, model = config.train, config.model
    return [
        ["task", f"`{config.task.name}`"],
        ["recipe", f"`{config.recipe}`"],
        ["method", f"`{config.method_name}`"],
        ["parameters", f"{parameters:,}"],
        ["network", f"width {model.width}, depth {model.depth}, {model.heads} heads"],
        ["vocabulary", f"{config.shape.vocab:,}"],
        ["sequence length", f"{config.shape.length:,}"],
        ["training", f"{train.steps:,} steps of {train.batch:,} sequences, seed {train.seed}"],
    ]


def _evaluation(source: Path) -> list[str]:
    """The evaluation of this checkpoint during its run, if the run is still there and has one."""
    found = _STEP.fullmatch(source.name)
    if found is None:
        return []
    values: dict[str, float] = {}
    start, more = 0, True
    while more:
        read = read_records(source.parent, start)
        start, more = read.end, read.more
        for record in read.records:
            if record["step"] == int(found[1]):
                values |= {name.removeprefix("eval/"): x for name, x in record.items() if name.startswith("eval/")}
    if not values:
        return []
    values.pop("score", None)
    alone = [f"{_words(name)} {x:.4g}" for name, x in values.items() if not _AT.fullmatch(name)]
    text = "Measured on this checkpoint during training; NFE: network evaluations per sample."
    table = _by_evaluations({name: x for name, x in values.items() if _AT.fullmatch(name)})
    return ["## Evaluation", text, *filter(None, [", ".join(alone), table])]


def _words(name: str) -> str:
    return "validation loss" if name == "validation" else name.replace("_", " ")


def _by_evaluations(values: Mapping[str, float]) -> str:
    """A row per metric, a column per number of network evaluations (the last part of a name); empty without values."""
    rows: dict[str, dict[str, str]] = {}
    for name, value in values.items():
        at = _AT.fullmatch(name)
        assert at is not None
        rows.setdefault(_words(at["name"] + (at["set"] or "")), {})[at["at"]] = f"{value:.4g}"
    columns = sorted({c for row in rows.values() for c in row}, key=lambda c: (int(c) if c.isdigit() else 10**9, c))
    heads = [_COLUMNS.get(column, f"{column} NFE") for column in columns]
    lines = [[name, *(row.get(column, "") for column in columns)] for name, row in rows.items()]
    return _table(["", *heads], lines) if lines else ""


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines: list[Any] = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
