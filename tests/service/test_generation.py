"""Samples, texts with holes and programs as requests: what is given stays, rounds are streamed, work is cancelled."""

import numpy as np
import pytest

from dbtm.config import ModelConfig, RunConfig
from dbtm.core.errors import UsageError
from dbtm.methods.dbtm import Config, Options, QualityConfig
from dbtm.sandbox import Sandbox
from dbtm.service import generation
from dbtm.service.generation import (
    InfillRequest,
    ProgramsRequest,
    SampleRequest,
    infill,
    sample,
    write_programs,
)
from dbtm.service.progress import Cancelled, Progress
from dbtm.tasks.gsm8k.layout import train_tokenizer
from dbtm.tasks.gsm8k.synthetic import held_out, problem
from dbtm.tasks.gsm8k.task import Gsm8k
from dbtm.tasks.text import tokenizer as tokenizers
from dbtm.tasks.text.borders import Borders
from dbtm.tasks.text.given import around, template
from dbtm.tasks.text.task import Text
from tests.evals.tiny import METHODS, chain, random_sampler
from tests.service.test_solving import StopAfter

MINE = {"checkpoint": "mine"}


def tiny(task, method):
    sizes = ModelConfig(width=16, depth=1, heads=2)
    return RunConfig("test", task, sizes, Config(quality=QualityConfig(enabled=False)), Options()).by(method)


@pytest.fixture(scope="module")
def chains():
    return {method: random_sampler(chain(method), batch=1024) for method in METHODS}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Models of text of every method, without any data."""
    file = tmp_path_factory.mktemp("words") / "tokenizer.json"
    file.write_text(tokenizers.train([f"The fox jumps over {i} dogs." for i in range(40)], 290).to_str())
    task = Text(vocab=290, length=20, tokenizer=str(file))
    return {method: random_sampler(tiny(task, method), batch=1024) for method in METHODS}


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A model of programs."""
    file = tmp_path_factory.mktemp("programs") / "tokenizer.json"
    file.write_text(train_tokenizer((f"{e.question}\n{e.code}" for e in map(problem, range(30))), 500).to_str())
    return random_sampler(tiny(Gsm8k(vocab=500, length=200, tokenizer=str(file)), "mdlm"), batch=1024)


class Heard(Progress):
    """Remembers what it is told."""

    def __init__(self):
        self.calls = []

    def stage(self, name, total=None):
        self.calls.append((name, total))

    def advance(self, done, total=None):
        self.calls.append(done)

    def note(self, text):
        self.calls.append(text)


# -- samples -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_samples_are_those_of_the_sampler_and_given_tokens_stay(chains, method, capsys):
    sampler = chains[method]
    result = sample(SampleRequest(**MINE, n=5, seed=3, tokens=[2, 0, None, None]), sampler)
    tokens, clean = np.tile([2, 0, 0, 0], (5, 1)), np.tile([True, True, False, False], (5, 1))
    assert np.array_equal(result.trace.tokens, sampler.sample(tokens=tokens, clean=clean, seed=3).tokens)
    assert (result.trace.tokens[:, :2] == [2, 0]).all()
    assert result.texts() == [" ".join(map(str, row)) for row in result.trace.tokens]
    assert result.settings["method"] == method
    assert result.trace.rounds == []
    free = sample(SampleRequest(**MINE, n=5, seed=3), sampler)
    assert np.array_equal(free.trace.tokens, sampler.sample(5, seed=3).tokens)
    assert capsys.readouterr() == ("", "")


def test_batches_advance_and_leave_the_sampler_as_it_was(chains, monkeypatch):
    sampler = chains["mdlm"]
    want = sample(SampleRequest(**MINE, n=5), sampler).trace.tokens
    monkeypatch.setattr(generation, "fitting_batch", lambda sampler: 32)  # two at a time
    heard = Heard()
    assert np.array_equal(sample(SampleRequest(**MINE, n=5), sampler, heard).trace.tokens, want)
    assert heard.calls == [("sampling", 5), 2, 4, 5]
    assert sampler.batch == 1024


@pytest.mark.parametrize("method", METHODS)
def test_rounds_are_streamed_and_cancelled(chains, method):
    options, seen = {"ar": {}}.get(method, {"nfe": 3}), []
    request = SampleRequest(**MINE, n=2, options=options, trace=True)
    result = sample(request, chains[method], on_round=seen.append)
    assert len(seen) == len(result.trace.rounds) > 1
    assert all(np.array_equal(one.tokens, other.tokens) for one, other in zip(seen, result.trace.rounds))
    assert np.array_equal(seen[-1].tokens, result.trace.tokens)
    seen.clear()
    with pytest.raises(Cancelled):
        sample(request, chains[method], StopAfter(1), seen.append)
    assert len(seen) == 1


def test_the_document_says_what_a_method_has_no_notion_of(chains):
    for method, score in (("ar", False), ("mdlm", True)):
        document = sample(SampleRequest(**MINE, trace=True), chains[method]).document()
        assert all((round_["score"] is not None) == score for round_ in document["rounds"])
        assert [round_["time"] is not None for round_ in document["rounds"]] == [True] * len(document["rounds"])
        assert document["settings"]["seed"] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": [1, 2]}, "2 tokens are given, but the model's sequences have 4"),
        ({"tokens": [1, 9, None, None]}, r"a token is outside 0\.\.2"),
        ({"options": {"kappa": 0.5}}, "the sampler of 'mdlm' has no option 'kappa'"),
        ({"n": 0}, "the number must be from 1 to"),
    ],
)
def test_mistakes_are_named(chains, changes, message):
    with pytest.raises(UsageError, match=message):
        sample(SampleRequest(**MINE, **changes), chains["mdlm"])


# -- texts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["dbtm", "mdlm"])
def test_holes_are_filled_around_what_is_given(texts, method):
    result = infill(InfillRequest(**MINE, n=2, parts=template("The ____ jumps ____."), hole=3), texts[method])
    task = texts[method].task
    the, jumps = (task.encode(text) for text in ("The", " jumps"))
    for row in result.trace.tokens.tolist():
        assert row[: len(the)] == the
        assert row[len(the) + 3 :][: len(jumps)] == jumps


def test_ar_goes_on_from_a_prompt_even_where_blocks_have_ends_around_them(texts, monkeypatch):
    sampler = texts["ar"]
    plain = infill(InfillRequest(**MINE, parts=around("The fox", "")), sampler)
    fox = sampler.task.encode("The fox")
    assert plain.trace.tokens[0, : len(fox)].tolist() == fox
    assert plain.trace.nfe[0] == 20 - len(fox)
    monkeypatch.setitem(sampler.task.__dict__, "borders", Borders(0, 0, around=True))
    wrapped = infill(InfillRequest(**MINE, parts=around("The fox", "")), sampler)
    assert wrapped.trace.tokens[0, : 1 + len(fox)].tolist() == [0, *fox]
    assert wrapped.trace.prompt.sum() == 1 + len(fox), "the end is left to the model"
    with pytest.raises(UsageError, match="cannot fill a hole or end in given tokens"):
        infill(InfillRequest(**MINE, parts=around("The fox", "dogs")), sampler)
    monkeypatch.setitem(texts["mdlm"].task.__dict__, "borders", Borders(0, 0, around=True))
    both = infill(InfillRequest(**MINE, parts=around("The fox", "")), texts["mdlm"])
    assert both.trace.prompt[0, [0, -1]].all(), "where the method can be given an end, it is"


def test_other_models_have_no_words(chains, texts):
    with pytest.raises(
        UsageError, match="only text models write text and fill holes, but this one was trained on 'markov'"
    ):
        infill(InfillRequest(**MINE, parts=["a", None]), chains["ar"])
    with pytest.raises(UsageError, match="only models of 'gsm8k' write programs, but this one was trained on 'text'"):
        write_programs(ProgramsRequest(**MINE), texts["ar"])


# -- programs ----------------------------------------------------------------------------------------------------------


def test_questions_are_answered_by_programs_that_are_run(writer, monkeypatch):
    monkeypatch.setattr(Sandbox, "missing", ["seccomp"])
    heard = Heard()
    result = write_programs(ProgramsRequest(**MINE, n=2, seed=3, options={"nfe": 2}), writer, heard)
    short = [example for example in held_out(8, 3) if writer.task.given([example.question])[1][0]][:2]
    assert result.questions == [example.question for example in short]
    assert result.answers == [example.answer for example in short]
    assert result.programs == writer.task.programs(result.trace.tokens, result.trace.prompt)
    assert [result.correct(b) for b in range(2)] == [False, False], "the model is untrained"
    kinds = [call if isinstance(call, str) else call[0] for call in heard.calls if not isinstance(call, int)]
    assert kinds == ["sampling", "the sandbox lacks seccomp on this machine (see dbtm doctor)", "running programs"]
    asked = write_programs(ProgramsRequest(**MINE, question="How many?", run=False, options={"nfe": 1}), writer)
    assert (asked.questions, asked.answers, asked.correct(0)) == (["How many?"], [None], None)
    assert [outcome.kind for outcome in asked.outcomes] == ["not run"]


def test_running_is_cancelled(writer):
    """Two evaluations of the network, then one program of three."""
    with pytest.raises(Cancelled):
        write_programs(ProgramsRequest(**MINE, n=3, options={"nfe": 2}), writer, StopAfter(3))


def test_questions_that_make_no_sense_are_refused_without_flags(writer):
    for question, message in (("  ", "the question is empty"), ("many " * 300, "shorten the question")):
        with pytest.raises(UsageError, match=message) as error:
            write_programs(ProgramsRequest(**MINE, question=question), writer)
        assert "--" not in str(error.value)
