"""Model cards: a header that the hub reads, Python that runs, and the numbers of the run."""

import json
import re

import pytest
import yaml
from huggingface_hub import ModelCard

import dbtm
from dbtm.service.card import model_card
from tests.evals.tiny import METHODS, chain, letters, mini_sudoku, write_checkpoint


def card_of(config, folder, address="hf://org/mini@main"):
    return model_card(write_checkpoint(config, folder), 1234, "mini", address)


def code_of(card):
    (code,) = re.findall(r"```python\n(.*?)```", card, re.S)
    return code


@pytest.mark.parametrize("method", METHODS)
def test_the_hub_reads_the_header(method, tmp_path):
    card = card_of(mini_sudoku(method), tmp_path)
    _, header, body = card.split("---\n", 2)
    assert yaml.safe_load(header) == {"library_name": "dbtm", "tags": ["discrete-diffusion", method, "sudoku"]}
    assert ModelCard(card).data.library_name == "dbtm"
    assert body.startswith("\n# mini\n")
    assert "| parameters | 1,234 |" in body
    assert "license:" not in header  # the user's choice


def test_a_text_model_is_for_text_generation():
    card = ModelCard(model_card(dbtm.load("text", device="cpu").folder, 7, "text", "text"))
    assert card.data.pipeline_tag == "text-generation"


@pytest.mark.parametrize("config", [mini_sudoku(), mini_sudoku("ar"), chain("dbtm")], ids=["sudoku", "ar", "markov"])
def test_its_python_runs(config, tmp_path, capsys):
    folder = write_checkpoint(config, tmp_path)
    exec(code_of(model_card(folder, 1, "mini", str(folder))), {})
    assert capsys.readouterr().out.strip()


def test_the_numbers_are_those_of_the_saved_step(tmp_path):
    folder = write_checkpoint(mini_sudoku(), tmp_path)
    assert "## Evaluation" not in model_card(folder, 1, "mini", "mini")
    records = [
        {"step": 1, "eval/solved_4": 0.75, "eval/solved_16": 0.875, "eval/validation": 1.5, "eval/score": 1.0},
        {"step": 2, "eval/solved_4": 0.99},
    ]
    (folder.parent / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    card = model_card(folder, 1, "mini", "mini")
    assert "|  | 4 NFE | 16 NFE |\n| --- | --- | --- |\n| solved | 0.75 | 0.875 |" in card
    assert "validation loss 1.5" in card
    assert "0.99" not in card
    assert "score" not in card


def test_a_task_of_ones_own_must_be_imported_first(tmp_path):
    card = card_of(letters(), tmp_path)
    assert "# first import the module that registers the task 'tiny-letters-of-the-tests'" in code_of(card)
