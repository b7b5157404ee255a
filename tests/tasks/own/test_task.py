"""Rows of one's own as a task: what is held out, and the user's own symbols."""

import json

import numpy as np
import pytest

from dbtm.checkpoint.migrate import migrated
from dbtm.core.errors import UsageError
from dbtm.tasks.own import Own
from dbtm.tasks.own.task import VOCABULARY


@pytest.fixture
def numbered(tmp_path):
    """200 different rows of three tokens."""
    rows = np.stack(np.unravel_index(np.arange(200), (6, 6, 6)), 1)
    np.save(tmp_path / "a.npy", rows)
    return Own(data=str(tmp_path / "a.npy"), vocab=6, length=3)


def test_one_row_in_twenty_is_never_trained_on(numbered):
    trained = {tuple(row) for row in numbered.batch(np.arange(3 * 190)).tokens}
    held = {tuple(row) for row in numbered.held_out_examples(1000).tokens}
    assert len(held) == 10
    assert len(trained) == 190
    assert not trained & held


def test_every_epoch_has_every_row_once(numbered):
    for epoch in range(3):
        rows = numbered.batch(190 * epoch + np.arange(190)).tokens
        assert len(np.unique(rows, axis=0)) == 190


def test_few_rows_are_all_trained_on(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(19)[:, None] % 2)
    task = Own(data=str(tmp_path / "a.npy"), vocab=2, length=1)
    assert task.held_out_examples(5) is None
    assert len(task.training_rows()) == 19


def test_checkpoints_from_before_trained_on_every_row():
    values = {"recipe": "own", "model": {}, "method": {"name": "dbtm"}, "task": {"name": "own", "vocab": 3}}
    assert migrated(values)["task"]["held_out"] == 0
    values["task"]["held_out"] = 0.1
    assert migrated(values)["task"]["held_out"] == 0.1


def test_a_checkpoint_carries_the_symbols(tmp_path):
    (tmp_path / "a.csv").write_text("red,green\ngreen,blue\n")
    task = Own(data=str(tmp_path / "a.csv"), vocab=3, length=2)
    (tmp_path / VOCABULARY).write_text(task.files()[VOCABULARY])
    (tmp_path / "a.csv").unlink()
    moved = Own(data="gone.csv", vocab=3, length=2).with_files({VOCABULARY: tmp_path / VOCABULARY})
    assert moved.text(np.array([2, 0])) == "red,blue"
    assert [moved.token(word) for word in ("green", "0")] == [1, None]


def test_characters_have_no_spaces_between_them(tmp_path):
    (tmp_path / "a.fa").write_text(">1\nACGT\n>2\nAC\n")
    task = Own(data=str(tmp_path / "a.fa"), vocab=5, length=4)
    assert [task.text(row) for row in task.rows.tokens_NL] == ["ACGT", "AC"]


@pytest.mark.parametrize(
    "words", [["a"], ["a", "a", "b"], ["a", 1, "b"], {"a": 1}, ["a", "b", "c" * 200], [["a"], 1, 2]]
)
def test_damaged_symbols_are_refused(tmp_path, words):
    (tmp_path / VOCABULARY).write_text(json.dumps(words))
    with pytest.raises(UsageError, match="must list 3 different symbols"):
        _ = Own(vocab=3, length=2, vocabulary=str(tmp_path / VOCABULARY)).symbols


def test_the_vocabulary_must_be_the_files(tmp_path):
    (tmp_path / "a.txt").write_text("abc\n")
    with pytest.raises(UsageError, match=r"has 3 symbols, but task\.vocab is 4"):
        _ = Own(data=str(tmp_path / "a.txt"), vocab=4, length=3).rows


def test_a_line_of_a_table_is_written_and_read_with_its_quotes(tmp_path):
    (tmp_path / "a.csv").write_text('"New York, NY",Rome\nRome,Oslo\n')
    (tmp_path / "a.tsv").write_text("1\t2\n2\t2\n")
    cities = Own(data=str(tmp_path / "a.csv"), vocab=3, length=2)
    row = cities.rows.tokens_NL[0]
    assert cities.text(row) == '"New York, NY",Rome'
    assert [cities.token(word) for word in cities.split_row(cities.text(row))] == row.tolist()
    numbers = Own(data=str(tmp_path / "a.tsv"), vocab=2, length=2)
    assert numbers.text(np.array([0, 1])) == "1\t2"
    assert numbers.split_row("1\t_") == numbers.split_row("1 _") == numbers.split_row("1_") == ["1", "_"]
