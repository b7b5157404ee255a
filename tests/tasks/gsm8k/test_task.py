"""Layout, prepared sets and the task: what is given, what is supervised, what is drawn."""

import json

import numpy as np
import pytest
import torch

from dbtm import config as configuration
from dbtm.config import override
from dbtm.core.errors import UsageError
from dbtm.evals.cost import parameters
from dbtm.methods.base import method_of
from dbtm.recipes import recipe
from dbtm.tasks.gsm8k.data import Example
from dbtm.tasks.gsm8k.layout import Layout
from dbtm.tasks.gsm8k.prepared import Prepared, Source, write
from dbtm.tasks.gsm8k.synthetic import held_out, is_held_out
from dbtm.tasks.gsm8k.task import Gsm8k
from tests.tasks.gsm8k.conftest import LENGTH


@pytest.fixture
def task(folder):
    return Gsm8k(data=str(folder), vocab=600, length=LENGTH, synthetic=0.5, evaluate_n=4)


# -- layout ----------------------------------------------------------------------------------------------------------


def test_a_row_is_bos_question_line_end_program_eos_padding(tokenizer):
    layout = Layout(tokenizer, LENGTH)
    example = Example("How  many\nare 12?", "def simple_math_problem():\n    return 12", 12.0)
    (row,) = layout.rows([example])
    tokens_BL, prompt_BL = layout.fill([row])
    tokens, prompt = tokens_BL[0].tolist(), prompt_BL[0]
    assert tokens[0] == layout.end == tokenizer.token_to_id("<|endoftext|>")
    assert tokenizer.decode(tokens[1 : row.prompt]) == "How many are 12?\n"
    assert prompt.tolist() == [True] * row.prompt + [False] * (LENGTH - row.prompt)
    end = tokens.index(layout.end, 1)
    assert tokenizer.decode(tokens[row.prompt : end]) == example.code
    assert set(tokens[end + 1 :]) == {layout.pad}
    assert layout.pad != layout.end
    assert layout.program(tokens_BL[0], row.prompt) == example.code
    assert layout.text(tokens_BL[0]) == f"How many are 12?\n{example.code}"


def test_digits_stand_alone(tokenizer):
    tokens = tokenizer.encode("1234 567", add_special_tokens=False).tokens
    assert [token for token in tokens if token.isdigit()] == list("1234567")


def test_the_spelling_of_a_special_token_is_text(tokenizer):
    layout = Layout(tokenizer, LENGTH)
    (row,) = layout.rows([Example("a <|endoftext|> b <|pad|>", "x = '<|endoftext|>'", None)])
    assert [i for i in row.tokens if i in (layout.end, layout.pad)] == [layout.end, layout.end], "ours alone"
    assert layout.program(np.array(row.tokens), row.prompt) == "x = '<|endoftext|>'"


def test_programs_of_rows_that_a_model_filled(tokenizer):
    layout = Layout(tokenizer, 12)
    code = tokenizer.encode("x = 1", add_special_tokens=False).ids
    padded = np.array([5, *code, layout.pad, *code, layout.end, *code])
    assert layout.program(padded, 1) == "x = 1x = 1", "padding before the end of text is passed over"
    assert layout.program(np.array([5, *code]), 1) == "x = 1", "without an end of text it goes to the end"
    assert layout.program(np.array([5, layout.end, *code]), 1) == ""


def test_tokenizers_without_our_padding(tokenizer):
    from tokenizers import Tokenizer

    vocabulary = json.loads(tokenizer.to_str())
    for token in vocabulary["added_tokens"]:
        if token["content"] == "<|pad|>":
            token["content"] = "<|im_end|>"
    vocabulary["model"]["vocab"]["<|im_end|>"] = vocabulary["model"]["vocab"].pop("<|pad|>")
    smol = Tokenizer.from_str(json.dumps(vocabulary))
    assert Layout(smol, 8).pad == smol.token_to_id("<|im_end|>")
    broken = json.loads(tokenizer.to_str().replace("<|endoftext|>", "<|other|>"))
    with pytest.raises(UsageError, match=r"no <\|endoftext\|>"):
        Layout(Tokenizer.from_str(json.dumps(broken)), 8)


# -- prepared sets -----------------------------------------------------------------------------------------------------


def test_what_is_written_is_read_again(folder, examples, tokenizer):
    found = Prepared(folder)
    assert (len(found), found.vocab, found.length) == (len(examples), 600, LENGTH)
    assert [found.row(i) for i in range(len(found))] == Layout(tokenizer, LENGTH).rows(examples)


def test_too_long_examples_are_left_out_and_counted(tmp_path, examples, tokenizer):
    rows = Layout(tokenizer, 10_000).rows(examples)
    length = int(np.median([len(row.tokens) for row in rows]))
    sources = [Source({"name": "a"}, examples[:30]), Source({"name": "b"}, examples[30:])]
    manifest = write(tmp_path / "set", tokenizer, length, sources)
    kept = [len(row.tokens) <= length for row in rows]
    assert (manifest["examples"], manifest["too_long"]) == (sum(kept), len(kept) - sum(kept))
    assert [source["examples"] for source in manifest["sources"]] == [sum(kept[:30]), sum(kept[30:])]
    assert Prepared(tmp_path / "set").row(sum(kept) - 1).tokens == [r for r, k in zip(rows, kept) if k][-1].tokens


def test_what_is_no_program_is_left_out_and_counted(tmp_path, examples, tokenizer):
    sources = [Source({"name": "a"}, [examples[0], None, None]), Source({"name": "b"}, examples[1:3])]
    seen: list[int] = []
    manifest = write(tmp_path / "set", tokenizer, LENGTH, sources, progress=seen.append)
    assert (manifest["examples"], manifest["not_programs"], manifest["too_long"]) == (3, 2, 0)
    assert [source["not_programs"] for source in manifest["sources"]] == [2, 0]
    assert seen == [3, 5]
    with pytest.raises(UsageError, match="none of the 2 examples gives a Python program"):
        write(tmp_path / "none", tokenizer, LENGTH, [Source({}, [None, None])])


def test_nothing_half_written(tmp_path, examples, tokenizer):
    def broken():
        yield from examples[:5]
        raise UsageError("line 6 is bad")

    with pytest.raises(UsageError, match="line 6"):
        write(tmp_path / "set", tokenizer, LENGTH, [Source({}, broken())])
    with pytest.raises(UsageError, match="no example fits"):
        write(tmp_path / "set", tokenizer, 8, [Source({}, examples)])
    assert list(tmp_path.iterdir()) == []


def test_damaged_sets_are_refused(tmp_path, examples, tokenizer):
    write(tmp_path / "set", tokenizer, LENGTH, [Source({}, examples)])
    Prepared(tmp_path / "set").verify()
    prompts = tmp_path / "set" / "prompts.bin"
    prompts.write_bytes(bytes([prompts.read_bytes()[0] ^ 1]) + prompts.read_bytes()[1:])
    with pytest.raises(UsageError, match=r"prompts\.bin is damaged: its sha256"):
        Prepared(tmp_path / "set").verify()
    with open(tmp_path / "set" / "tokens.bin", "ab") as file:
        file.write(b"x")
    with pytest.raises(UsageError, match=r"tokens\.bin is missing or has another size"):
        Prepared(tmp_path / "set").row(0)
    with pytest.raises(UsageError, match="not a prepared set"):
        Prepared(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": 1}')
    with pytest.raises(UsageError, match="not a prepared set"):
        Prepared(tmp_path)


def test_the_tokenizer_is_verified_too(tmp_path, examples, tokenizer):
    write(tmp_path / "set", tokenizer, LENGTH, [Source({}, examples)])
    path, manifest = tmp_path / "set" / "tokenizer.json", tmp_path / "set" / "manifest.json"
    path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")
    with pytest.raises(UsageError, match=r"tokenizer\.json is damaged: its sha256"):
        Prepared(tmp_path / "set").verify()
    path.unlink()
    with pytest.raises(UsageError, match=r"tokenizer\.json is missing"):
        Prepared(tmp_path / "set").verify()
    told = json.loads(manifest.read_text())
    del told["files"]["tokenizer.json"]  # as sets were prepared before
    manifest.write_text(json.dumps(told))
    Prepared(tmp_path / "set").verify()


# -- the task ----------------------------------------------------------------------------------------------------------


def test_batches_depend_on_the_indices_alone(task, folder):
    index = np.arange(100, 140)
    whole = task.batch(index)
    again = Gsm8k(data=str(folder), vocab=600, length=LENGTH, synthetic=0.5).batch(index[::-1])
    assert np.array_equal(whole.tokens, again.tokens[::-1])
    assert np.array_equal(whole.prompt, again.prompt[::-1])
    assert np.array_equal(task.batch(index[7:9]).tokens, whole.tokens[7:9])
    assert not np.array_equal(task.batch(index).tokens, task.batch(index + 40).tokens)


def test_the_mixture_is_as_asked(folder, examples):
    known = {" ".join(example.question.split()) for example in examples}
    for share in (0.0, 0.3, 1.0):
        task = Gsm8k(data=str(folder), vocab=600, length=LENGTH, synthetic=share)
        rows = [task.text(row).partition("\n") for row in task.batch(np.arange(400)).tokens]
        fresh = [code for question, _, code in rows if question not in known]
        assert abs(len(fresh) / 400 - share) < 0.08
        assert not any(is_held_out(code) for code in fresh)


def test_synthetic_problems_that_are_too_long_are_replaced(folder, tokenizer):
    task = Gsm8k(tokenizer=str(folder / "tokenizer.json"), vocab=600, length=90, synthetic=1.0)
    batch = task.batch(np.arange(64))
    assert batch.tokens.shape == (64, 90)
    assert all((row == task.layout.end).sum() == 2 for row in batch.tokens), "every row ends within the length"


def test_given_questions(task):
    given, fits = task.given(["How many are 3 and 4?", "many " * 400, "How much?"])
    assert fits.tolist() == [True, False, True]
    assert given["tokens"].shape == given["clean"].shape == (2, LENGTH)
    assert [task.layout.text(row) for row in given["tokens"]] == ["How many are 3 and 4?\n", "How much?\n"]
    tokens = given["tokens"].copy()
    code = task.layout.tokenizer.encode("x = 7", add_special_tokens=False).ids
    start = int(given["clean"][0].sum())
    tokens[0, start : start + len(code) + 1] = [*code, task.layout.end]
    assert task.programs(tokens, given["clean"])[0] == "x = 7"


def test_the_quick_evaluation_asks_other_problems_than_the_evaluation():
    """Best checkpoints are chosen by the first: the second would flatter them."""
    quick, whole = Gsm8k().held_out, held_out(500)
    assert len(quick) == 128
    assert all(is_held_out(example.code) for example in quick)
    assert not {example.question for example in quick} & {example.question for example in whole}
    assert Gsm8k(evaluate_n=5).held_out == quick[:5]


def test_held_out_examples_are_rows_of_the_quick_evaluations_problems(task):
    examples = task.held_out_examples(6)
    rows = [row for row in task.layout.rows(Gsm8k(evaluate_n=6).held_out) if row is not None]
    tokens, prompt = task.layout.fill(rows)
    assert len(tokens) > 2
    np.testing.assert_array_equal(examples.tokens, tokens)
    np.testing.assert_array_equal(examples.prompt, prompt)


def test_the_configuration_is_plain_json(folder):
    config = override(recipe("gsm-small"), [f"task.data={folder}", "task.vocab=600", f"task.length={LENGTH}"])
    assert configuration.loads(configuration.dumps(config)) == config
    assert (config.shape.vocab, config.shape.length) == (600, LENGTH)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"synthetic": 1.5}, "task.synthetic=1.5"),
        ({"vocab": 1}, "task.vocab=1"),
        ({"evaluate_n": 0}, "task.evaluate_n=0"),
    ],
)
def test_impossible_settings(changes, words):
    with pytest.raises(UsageError, match=words):
        Gsm8k(**changes)


def test_missing_and_mismatched_data(folder):
    with pytest.raises(UsageError, match=r"`dbtm data gsm8k`\) and set task\.data to the folder"):
        Gsm8k().batch(np.arange(2))
    with pytest.raises(UsageError, match="vocabulary 600 and length 240"):
        Gsm8k(data=str(folder), vocab=600).batch(np.arange(2))
    with pytest.raises(UsageError, match="600 entries"):
        _ = Gsm8k(tokenizer=str(folder), vocab=601).layout
    with pytest.raises(UsageError, match=r"task\.tokenizer to a tokenizer's file"):
        Gsm8k().text(np.zeros(3, dtype=int))


def test_the_papers_table():
    """tab:hyperparameters, column TinyGSM / GSM8K."""
    config = recipe("tinygsm")
    assert (config.task.vocab, config.task.length, config.task.synthetic) == (49_152, 512, 0.0)
    assert (config.model.width, config.model.depth, config.model.heads, config.model.ffn) == (768, 12, 12, 4)
    assert (config.model.dropout, config.model.softcap, config.model.cond_dim) == (0.1, 50.0, 128)
    assert (config.train.steps, config.train.batch, config.train.micro_batch) == (250_000, 512, 32)
    assert (config.optim.name, config.optim.lr, config.optim.warmup) == ("adamw", 3e-4, 50_000)
    path = config.method.path
    assert (path.t_anchor, path.coupling, path.sigma) == (0.82, "ot", 1.0)
    assert (config.sample.kappa, config.sample.scorer, config.sample.repetition_penalty) == (0.8, "confidence", 0.0)
    assert size(config) == pytest.approx(165e6, rel=0.05)
    assert 20e6 < size(recipe("gsm-small")) < 40e6


def size(config) -> int:
    """Parameters of a recipe's network."""
    with torch.device("meta"):
        return parameters(method_of(config).build())
