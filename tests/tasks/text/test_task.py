"""The task: batches are a function of the index alone, every epoch is a permutation, and held-out text stays apart."""

import hashlib
import shutil
from dataclasses import replace

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.core.registry import TASKS
from dbtm.tasks.text import tokenizer as tokenizers
from dbtm.tasks.text.prepare import Layout, prepare
from dbtm.tasks.text.sources import whole
from dbtm.tasks.text.task import Text


@pytest.fixture(scope="module")
def folder(words, documents, tmp_path_factory):
    out = tmp_path_factory.mktemp("data") / "set"
    prepare([(None, whole(documents))], words, out, Layout(16, validation=0.1))
    return str(out)


@pytest.fixture
def task(folder):
    return Text(data=folder, vocab=300, length=16, evaluate_n=20)


def test_it_is_known_by_name():
    assert TASKS.get("text") is Text


def test_every_epoch_visits_each_block_once_in_an_order_of_its_own(task):
    n = len(task.train)
    whole_set = task.train[np.arange(n)]
    epochs = [task.batch(np.arange(e * n, (e + 1) * n)).tokens for e in range(3)]
    for tokens in epochs:
        assert tokens.shape == (n, 16)
        assert (np.sort(tokens, axis=0) == np.sort(whole_set, axis=0)).all()
        assert {row.tobytes() for row in tokens} == {row.tobytes() for row in whole_set}
    orders = [task.order(np.arange(e * n, (e + 1) * n)) for e in range(3)]
    assert (np.sort(orders, axis=1) == np.arange(n)).all()
    assert (orders[0] != orders[1]).any()
    assert (orders[1] != orders[2]).any()
    assert (orders[0] != np.arange(n)).mean() > 0.9


def test_a_batch_depends_on_the_index_alone(task, folder):
    n = len(task.train)
    index = np.array([n - 1, 3, 2 * n + 5, n, 3])  # three epochs at once
    together = task.batch(index).tokens
    alone = [Text(data=folder, vocab=300, length=16).batch(index[i : i + 1]).tokens[0] for i in range(5)]
    assert (together == np.stack(alone)).all()
    other = Text(data=folder, vocab=300, length=16, seed=1).batch(index).tokens
    assert (together != other).any()
    assert task.batch(index).prompt is None


def test_validation_is_apart_and_words_come_back(task, documents):
    assert task.validation(5).shape == (5, 16)
    n = len(task.held_out)
    np.testing.assert_array_equal(task.validation(10**6), task.held_out[np.arange(n)])
    np.testing.assert_array_equal(task.validation(3), task.held_out[np.array([0, (n - 1) // 2, n - 1])])
    np.testing.assert_array_equal(task.validation(1), task.held_out[np.array([0])])
    layout = Layout(16, validation=0.1)
    held_out = [d for d in documents if layout.split_of(d) == "validation"]
    assert "<|endoftext|>".join(task.decode(task.validation(3))).replace("<|endoftext|>", "")  # decodes at all
    first = "".join(task.decode(task.validation(10**6)))
    assert first.startswith(held_out[0] + "<|endoftext|>" + held_out[1] + "<|endoftext|>")
    assert task.text(np.array([*task.encode("a lazy fox"), 0])) == "a lazy fox<|endoftext|>"


def test_held_out_examples_are_validation_text(task):
    examples = task.held_out_examples(5)
    np.testing.assert_array_equal(examples.tokens, task.validation(5))
    assert examples.prompt is None


def test_damaged_validation_text_is_found_before_training(folder, tmp_path):
    held_out = shutil.copytree(folder, tmp_path / "set") / "validation-00000.bin"
    task = Text(data=str(tmp_path / "set"), vocab=300, length=16)
    task.prepare_evaluation()
    held_out.write_bytes(bytes([held_out.read_bytes()[0] ^ 1]) + held_out.read_bytes()[1:])
    with pytest.raises(UsageError, match=r"validation-00000\.bin is damaged"):
        replace(task).prepare_evaluation()


def test_without_validation_there_are_no_held_out_examples(words, documents, tmp_path):
    prepare([(None, whole(documents))], words, tmp_path / "set", Layout(16, validation=0))
    task = Text(data=str(tmp_path / "set"), vocab=300, length=16, evaluate_n=4)
    task.prepare_evaluation()
    assert task.held_out_examples(3) is None
    assert task.validation(3).shape == (0, 16)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocab": 299}, "has vocabulary 300 and length 16, but task.vocab=299"),
        ({"length": 8}, "but task.vocab=300 and task.length=8"),
        ({"data": ""}, "no text: prepare some"),
        ({"data": "nowhere"}, "nowhere is not prepared text"),
    ],
)
def test_data_that_does_not_fit(folder, values, message):
    task = Text(**({"data": folder, "vocab": 300, "length": 16} | values))
    with pytest.raises(UsageError, match=message):
        task.batch(np.arange(2))


def test_data_that_has_moved(task, folder, words, documents, tmp_path):
    """What a checkpoint remembers of its data is where it was; the tokenizer it carries says whether it is the same."""
    shutil.move(shutil.copytree(folder, tmp_path / "old"), tmp_path / "new")
    gone = Text(data=str(tmp_path / "old"), vocab=300, length=16, tokenizer=f"{folder}/tokenizer.json")
    moved = gone.at(str(tmp_path / "new"))
    np.testing.assert_array_equal(moved.validation(3), task.validation(3))
    digest = hashlib.sha256((tmp_path / "new" / "manifest.json").read_bytes()).hexdigest()
    assert moved.source() == {"data": str(tmp_path / "new"), "sha256": digest}
    with pytest.raises(UsageError, match="is not prepared text"):
        gone.at(str(tmp_path / "nowhere"))
    other = tokenizers.train([text[::-1] for text in documents], 300)
    prepare([(None, whole(documents))], other, tmp_path / "other", Layout(16, validation=0.1))
    with pytest.raises(UsageError, match=rf"prepared with another tokenizer than this model's, {gone.tokenizer}"):
        gone.at(str(tmp_path / "other"))
    with pytest.raises(UsageError, match=rf"tokenizer {gone.tokenizer}, length 16\) and set task\.data to its folder"):
        _ = replace(gone, data="").prepared
    prepare([(None, whole(documents))], words, tmp_path / "short", Layout(8, validation=0.1))
    with pytest.raises(UsageError, match="length 8"):
        gone.at(str(tmp_path / "short"))


def test_words_of_another_model(folder, tmp_path):
    assert Text(vocab=300, tokenizer=folder).text(np.array([0])) == "<|endoftext|>"
    with pytest.raises(UsageError, match=r"has 300 entries, but task\.vocab=7: it belongs to another model"):
        Text(vocab=7, tokenizer=folder).text(np.array([0]))
    with pytest.raises(UsageError, match=r"set task\.tokenizer to its file"):
        Text().text(np.array([0]))
    with pytest.raises(UsageError, match="at least 2 and 1"):
        Text(vocab=1)
    with pytest.raises(UsageError, match=r"task\.evaluate_n=0"):
        Text(evaluate_n=0)
