"""`dbtm sample` on a model of text and one of programs, both untrained, and both far from their data."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dbtm
from dbtm.checkpoint import folder as checkpoint
from dbtm.config import ModelConfig, RunConfig, dumps
from dbtm.core.terminal import visible
from dbtm.methods.dbtm import Config, Options, QualityConfig
from dbtm.sampling import Trace
from dbtm.tasks.gsm8k.layout import train_tokenizer
from dbtm.tasks.gsm8k.prepared import Source, write
from dbtm.tasks.gsm8k.synthetic import held_out, problem
from dbtm.tasks.gsm8k.task import Gsm8k
from dbtm.tasks.text import tokenizer as tokenizers
from dbtm.tasks.text.prepare import Layout, prepare
from dbtm.tasks.text.sources import whole
from dbtm.tasks.text.task import Text
from tests.evals.tiny import chain, random_network, write_checkpoint

LENGTH = 24
SENTENCES = [f"The naïve fox jumps over {i} lazy dogs of 北京." for i in range(60)]


def save(folder, task, method="dbtm", **model):
    """A checkpoint of random weights; the data that its task names may go."""
    sizes = ModelConfig(width=16, depth=1, heads=2, **model)
    run = RunConfig("test", task, sizes, Config(quality=QualityConfig(enabled=False)), Options()).by(method)
    tensors = {"ema": random_network(run).state_dict()}
    return checkpoint.write(folder / method / "step-00000001", tensors, {"config": dumps(run)}, task.files())


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Models of text of every method, far from their data."""
    folder = tmp_path_factory.mktemp("text")
    words = tokenizers.train(SENTENCES, 300)
    prepare([(None, whole(SENTENCES))], words, folder / "data", Layout(LENGTH, validation=0))
    task = Text(data=str(folder / "data"), vocab=300, length=LENGTH)
    saved = {method: save(folder, task, method) for method in ("dbtm", "mdlm", "ar")}
    shutil.rmtree(task.data)
    return saved


@pytest.fixture(scope="module")
def text(texts):
    return texts["dbtm"]


@pytest.fixture(scope="module")
def writers(tmp_path_factory):
    """Models of programs, far from their data."""
    folder, examples = tmp_path_factory.mktemp("programs"), [problem(key) for key in range(30)]
    words = train_tokenizer((f"{e.question}\n{e.code}" for e in examples), 500)
    write(folder / "data", words, 240, [Source({}, examples)])
    task = Gsm8k(data=str(folder / "data"), vocab=500, length=240)
    saved = {method: save(folder, task, method) for method in ("dbtm", "ar")}
    shutil.rmtree(task.data)
    return saved


@pytest.fixture(scope="module")
def programs(writers):
    return writers["dbtm"]


@pytest.fixture
def sample(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: command("sample", *words)


def test_texts_are_what_the_sampler_draws(sample, text):
    code, out, _ = sample(text, "--n", 3, "--nfe", 2, "--temperature", 1, "--seed", 5)
    assert code == 0
    sampler = dbtm.load(text)
    trace = sampler.sample(3, nfe=2, temperature=1.0, seed=5)
    want = [visible(sampler.task.text(row).replace("<|endoftext|>", "∎")) for row in trace.tokens]
    assert len(set(want)) == 3
    heading = "sample {} of 3  {} NFE\n"
    assert out == "".join(f"{heading.format(b + 1, trace.nfe[b])}{want[b]}\n\n" for b in range(3))


def test_many_samples_do_not_depend_on_the_batch(sample, text, monkeypatch):
    from dbtm.service import generation

    whole = sample(text, "--n", 5, "--nfe", 2)[1]
    monkeypatch.setattr(generation, "fitting_batch", lambda sampler: 32)  # two at a time
    assert sample(text, "--n", 5, "--nfe", 2)[1] == whole


def test_a_text_with_holes_is_printed_to_its_end(sample, text):
    """And no further: the model continues it, which the rounds show. A hole has three tokens by default."""
    words = [text, "--n", 1, "--nfe", 2, "--infill", "The ____ fox ____ dog."]
    first, second = sample(*words)[1], sample(*words, "--trace")[1]
    assert first.rstrip().endswith(" dog.")
    assert not second.rstrip().endswith(" dog.")
    assert first == sample(*words, "--hole", 3)[1] != sample(*words, "--hole", 1)[1]
    prompted = sample(text, "--n", 1, "--nfe", 2, "--prompt", "The fox", "--json", "s.json")[1]
    task, whole = dbtm.load(text).task, np.array(json.loads(Path("s.json").read_text())["tokens"])
    assert json.loads(Path("s.json").read_text())["text"] == task.decode(whole), prompted


def test_what_is_given_stays_and_the_json_tells_all(sample, text):
    words = ["--n", 2, "--nfe", 3, "--infill", "The ____ of ____.", "--hole", 4, "--json", "s.json"]
    code, out, _ = sample(text, *words)
    assert code == 0
    document = json.loads(Path("s.json").read_text())
    task = dbtm.load(text).task
    clean = np.array(document["given"])
    start, middle = (len(task.encode(part)) for part in ("The", " of"))
    assert document["text"] == task.decode(np.array(document["tokens"])[:, : start + middle + 9]), (
        "what follows is context"
    )
    assert np.array(document["tokens"]).shape == clean.shape == (2, task.length)
    for row, line in zip(document["tokens"], document["text"], strict=True):
        assert line.startswith("The")
        assert task.text(np.array(row[start + 4 : start + 4 + middle])) == " of"
        assert task.text(np.array(row)[start + 8 + middle :])[0] == "."
    assert (clean.sum(-1) == start + middle + 1).all()
    assert len(document["rounds"]) == max(document["nfe"])
    last = document["rounds"][-1]
    assert (last["tokens"], np.array(last["committed"]).all()) == (document["tokens"], True)
    assert out.count("sample ") == 2


def test_the_trace_tells_given_committed_and_refining_apart(sample, text):
    code, out, _ = sample(text, "--n", 1, "--nfe", 3, "--prompt", "The fox ", "--suffix", "dogs", "--trace")
    assert code == 0
    rounds = re.findall(r"^round (\d)  (\d+)/(\d+) committed$", out, re.M)
    assert [int(number) for number, _, _ in rounds] == list(range(1, len(rounds) + 1))
    assert rounds[-1][1] == rounds[-1][2]
    assert out.count("«The fox»") == len(rounds)
    assert out.count("« dogs»") + out.count(" «dogs»") == len(rounds)
    assert out.splitlines()[-2].startswith("«given»   committed   ‹refining›")


def test_the_page_replays_the_samples(sample, text):
    code, out, _ = sample(text, "--n", 2, "--nfe", 3, "--prompt", "The", "--html", "p.html", "--json", "s.json")
    assert (code, "page: p.html" in out) == (0, True)
    page = Path("p.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    document = json.loads(Path("s.json").read_text())
    assert [len(each["rounds"]) for each in data] == document["nfe"]
    assert [each["given"] for each in data] == np.array(document["given"]).astype(int).tolist()
    assert "<h1>2 texts, refined</h1>" in page


def test_tokens_can_still_be_given_by_number(sample, text):
    code, out, _ = sample(text, "--n", 1, "--given", " ".join(["0"] * 3 + ["_"] * (LENGTH - 3)))
    assert (code, out.splitlines()[1][:3]) == (0, "∎∎∎")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--prompt", "fox " * 40],
            r"\d+ given and at least 1 generated tokens do not fit into this model's sequences of 24",
        ),
        (["--infill", "no hole"], "has no hole"),
        (["--infill", "a ____", "--hole", "0"], "--hole must be at least 1"),
        (["--infill", "a ____", "--hole", "99"], "at least 99 generated tokens"),
        (["--hole", "3"], "--hole needs --infill"),
        (["--infill", "a ____", "--prompt", "b"], "--prompt cannot be combined with --infill"),
        (["--given", "1 _", "--suffix", "b"], "--suffix and --given cannot be combined"),
        (["--given", "1 _"], "--given has 2 entries, the model's sequences have 24"),
        (["--prompt", "a\udcff"], "not UTF-8"),
        (["--html", "no/p.html"], "there is no folder no"),
        (["--html", "p", "--json", "p"], "--json and --html name the same file p"),
        (["--no-run"], "--no-run is for models that write programs"),
        (["--nfe", "0"], "nfe=0 must be positive"),
        (["--kappa", "2"], "--kappa 2 must be between 0 and 1"),
        (["--scorer", "quality"], "no quality head"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(sample, text, tmp_path, words, message):
    code, out, err = sample(text, *words)
    assert (code, out) == (2, "")
    assert re.search(message, err)
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_words_are_for_models_that_know_them(sample):
    for option in ("--prompt", "--suffix", "--infill"):
        code, _, err = sample("sudoku", option, "a __")
        assert (code, f"{option} is for text, but this model was trained on 'sudoku'" in err) == (2, True)


def test_a_page_of_plain_tokens(sample, untrained):
    code, _, _ = sample(untrained, "--n", 1, "--nfe", 2, "--html", "p.html")
    assert code == 0
    (each,) = json.loads(re.search(r'id="data">(.*?)</script>', Path("p.html").read_text(encoding="utf-8"))[1])
    assert all(part.strip().isdecimal() for part in each["rounds"][0]["parts"])


# -- other methods -----------------------------------------------------------------------------------------------------


def page_data(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', Path(path).read_text(encoding="utf-8"))[1])


def test_mdlm_writes_texts_with_holes(sample, texts):
    words = ["--n", 2, "--nfe", 3, "--prompt", "The", "--suffix", "dogs", "--trace"]
    code, out, err = sample(texts["mdlm"], *words, "--json", "s.json", "--html", "p.html")
    assert (code, err) == (0, "")
    assert out.count("«The»") == out.count("«dogs»") == 6
    titles = re.findall(r"^round (\d)  (\d+)/(\d+) committed  t = (\S+)$", out, re.M)
    assert [(number, time) for number, _, _, time in titles[:3]] == [("1", "0.667"), ("2", "0.333"), ("3", "0")]
    document = json.loads(Path("s.json").read_text())
    assert document["settings"]["method"] == "mdlm"
    assert [round_["time"] for round_ in document["rounds"]] == pytest.approx([2 / 3, 1 / 3, 0])
    for each, row in zip(page_data("p.html"), document["tokens"], strict=True):
        assert each["rounds"][-1]["kinds"].count("g") == sum(each["given"])
        assert len(each["rounds"][-1]["parts"]) == len(row)


def test_ar_goes_on_with_a_prompt_and_shows_nothing_where_it_has_not_written(sample, texts):
    code, out, err = sample(texts["ar"], "--n", 2, "--prompt", "The", "--trace", "--json", "s.json", "--html", "p.html")
    assert (code, err) == (0, "")
    document = json.loads(Path("s.json").read_text())
    given = sum(document["given"][0])
    free = LENGTH - given
    assert document["nfe"] == [free, free] == [len(document["rounds"])] * 2
    assert all(round_["score"] is None for round_ in document["rounds"])
    assert f"12 of {free} rounds, evenly spaced" in out
    assert out.count("round ") == 2 * 12
    assert f"round 1  1/{free} committed" in out
    assert "░ nothing yet" in out
    assert "‹" not in out, "nothing is refined"
    kinds = [round_["kinds"] for round_ in page_data("p.html")[0]["rounds"]]
    assert kinds == ["g" * given + "c" * done + "n" * (free - done) for done in range(1, free + 1)]


def test_samples_are_those_of_the_sampler_whatever_the_method(sample, texts):
    for method, nfe in (("mdlm", {"nfe": 2}), ("ar", {})):
        options = [word for name, value in nfe.items() for word in (f"--{name}", value)]
        code, _, _ = sample(texts[method], "--n", 3, "--seed", 4, "--temperature", ".7", *options, "--json", "s.json")
        assert code == 0
        trace = dbtm.load(texts[method]).sample(3, seed=4, temperature=0.7, **nfe)
        assert json.loads(Path("s.json").read_text())["tokens"] == trace.tokens.tolist()


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--no-commit"], {"commit": False}),
        (["--sampler", "iterate", "--tolerance", ".1"], {"sampler": "iterate", "tolerance": 0.1}),
        (["--sampler", "integrate", "--horizon", "2"], {"sampler": "integrate", "horizon": 2.0}),
    ],
)
def test_other_ways_to_sample_are_those_of_the_sampler(sample, texts, words, options):
    assert sample(texts["dbtm"], "--n", 3, "--seed", 4, "--nfe", 3, *words, "--json", "s.json")[0] == 0
    trace = dbtm.load(texts["dbtm"]).sample(3, seed=4, nfe=3, **options)
    assert json.loads(Path("s.json").read_text())["tokens"] == trace.tokens.tolist()


@pytest.mark.parametrize(
    ("method", "words", "message"),
    [
        ("ar", ["--nfe", "4"], "'ar' needs one network evaluation per generated token"),
        ("ar", ["--suffix", "dogs"], "it cannot fill a hole or end in given tokens"),
        ("ar", ["--infill", "The ____ fox"], "it cannot fill a hole or end in given tokens"),
        ("ar", ["--repetition-penalty", "1"], "the sampler of 'ar' has no option 'repetition_penalty'"),
        ("mdlm", ["--kappa", ".9"], "the sampler of 'mdlm' has no option 'kappa'"),
        ("mdlm", ["--no-commit"], "the sampler of 'mdlm' has no option 'commit'"),
        ("dbtm", ["--top-p", ".9"], "top_p changes nothing at temperature 0"),
        ("dbtm", ["--scorer", "spread", "--kappa", ".9"], "kappa changes nothing where commits are spread"),
    ],
)
def test_what_a_method_lacks_is_refused_in_one_line(sample, texts, tmp_path, method, words, message):
    code, out, err = sample(texts[method], "--html", "p.html", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not list(tmp_path.iterdir())


def test_a_scale_of_the_noise_that_the_map_does_not_see_is_refused(sample, texts, tmp_path):
    blind = save(tmp_path, dbtm.load(texts["dbtm"]).task, input_norm=True)
    code, _, err = sample(blind, "--sigma", "2")
    assert (code, "sigma, the scale of the noise, changes nothing" in err) == (2, True)
    one, other = (dbtm.load(blind).sample(4, nfe=3, sigma=sigma).tokens for sigma in (1.0, 2.0))
    assert (one == other).all(), "what the refusal says is so"


def test_rounds_of_plain_tokens(sample, tmp_path):
    for method, lines in (
        ("ar", [r"  round 1  t = 0.25: \d _ _ _", r"  round 4  t = 1: \d \d \d \d"]),
        ("mdlm", [r"  round 1  t = 0.5: (\(?\d\)? ?){4}", r"  round 2  t = 0: \d \d \d \d"]),
    ):
        budget = [] if method == "ar" else ["--nfe", 2]
        code, out, _ = sample(write_checkpoint(chain(method), tmp_path / method), "--n", 1, "--trace", *budget)
        assert code == 0
        shown = out.splitlines()
        assert re.fullmatch(lines[0], shown[0])
        assert re.fullmatch(lines[1], shown[-2])
        assert shown[-1].startswith(shown[-2].partition(": ")[2])


def test_programs_token_by_token_behind_questions_of_different_length(sample, writers):
    """A longer question starts later in the batch: its rounds are its own, and the last is the program."""
    code, out, _ = sample(writers["ar"], "--n", 2, "--no-run", "--trace", "--json", "s.json", "--html", "p.html")
    assert code == 0
    document = json.loads(Path("s.json").read_text())
    one, other = (sum(given) for given in document["given"])
    assert one != other
    assert document["nfe"] == [240 - one, 240 - other]
    for each, nfe in zip(page_data("p.html"), document["nfe"], strict=True):
        assert [round_["committed"] for round_ in each["rounds"]] == list(range(1, nfe + 1))
    assert out.count(" rounds, evenly spaced") == 2


# -- programs ----------------------------------------------------------------------------------------------------------


def test_a_question_is_answered_by_programs(sample, programs):
    question = "Tom has 3 apples and buys 4 more. How many apples has he now?"
    code, out, _ = sample(programs, "--n", 2, "--nfe", 2, "--prompt", question, "--json", "s.json", "--html", "p.html")
    assert code == 0
    assert out.count(question) == 2
    assert out.count("no answer (") == 2, "the model is untrained"
    document = json.loads(Path("s.json").read_text())
    assert document["questions"] == [question] * 2
    assert document["answers"] == [None, None]
    assert [outcome["value"] for outcome in document["outcomes"]] == [None, None]
    assert document["programs"] == dbtm.load(programs).task.programs(
        np.array(document["tokens"]), np.array(document["given"])
    )
    page = Path("p.html").read_text(encoding="utf-8")
    assert 'class="sheet code"' in page
    (first, _) = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert first["question"] == question
    assert not any(first["given"]), "the question is not shown twice"


def test_without_a_question_held_out_ones_are_asked(sample, programs):
    code, out, _ = sample(programs, "--n", 2, "--nfe", 1, "--seed", 3, "--trace")
    assert code == 0
    for example in held_out(2, 3):
        assert example.question in out
    assert out.count("round 1  ") == 2


def test_a_right_program_is_run_and_shown(sample, programs, monkeypatch):
    """The map is replaced by the gold answers: the first is right, the second wrong by one."""
    from dbtm.sampling.sampler import Sampler

    examples = held_out(2)
    examples[1] = examples[1]._replace(code=examples[1].code.replace("return ", "return 1 + "))

    def gold(self, *, tokens, clean, **more):
        rows, _ = self.task.layout.fill(self.task.layout.rows(examples))
        assert (rows[clean] == tokens[clean]).all()
        return Trace(rows, np.ones(len(rows), int), clean)

    monkeypatch.setattr(Sampler, "sample", gold)
    code, out, _ = sample(programs, "--n", 2)
    assert code == 0
    for example in examples:
        assert example.code.strip("\n") in out
    right, wrong = (example.answer for example in examples)
    assert re.search(rf"^returns {right:g}(\.0)?, correct$", out, re.M)
    assert re.search(rf"^returns {wrong + 1:g}(\.0)?, wrong: it is {wrong:g}$", out, re.M)


def test_programs_that_cannot_be_run_are_shown(sample, programs, monkeypatch):
    from dbtm.core.errors import UsageError
    from dbtm.service import generation

    class Broken:
        def __enter__(self):
            raise UsageError("programs cannot be run here")

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(generation, "Sandbox", Broken)
    code, out, _ = sample(programs, "--n", 1, "--nfe", 1)
    assert (code, "no answer (not run: programs cannot be run here)" in out) == (0, True)


def test_programs_are_run_with_a_warning_where_confinement_lacks_something_or_not_at_all(sample, programs, monkeypatch):
    from dbtm.sandbox import Sandbox

    monkeypatch.setattr(Sandbox, "missing", ["seccomp"])
    code, _, err = sample(programs, "--n", 1, "--nfe", 1)
    assert (code, "warning: the sandbox lacks seccomp on this machine" in err) == (0, True)
    monkeypatch.setattr(Sandbox, "run", None)
    code, out, err = sample(programs, "--n", 2, "--nfe", 1, "--no-run")
    assert (code, err, out.count("no answer (not run: as asked)")) == (0, "", 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--suffix", "x"], "--suffix is for text: a program is generated from its question"),
        (["--given", "1"], "--given is for text"),
        (["--prompt", "  "], "the question is empty"),
        (
            ["--prompt", "many apples " * 100],
            r"\d{3} given and at least 1 generated tokens do not fit into this model's sequences of 240",
        ),
    ],
)
def test_questions_that_make_no_sense(sample, programs, words, message):
    code, out, err = sample(programs, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(message, err)


def test_problems_that_leave_no_room(sample, programs, tmp_path):
    task = replace(dbtm.load(programs).task, length=8)
    code, _, err = sample(save(tmp_path, task))
    assert (code, "too long for 8 tokens: give your own question" in err) == (2, True)
