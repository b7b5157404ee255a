"""Every command with wild words. Commands and their options are read from `dbtm` itself, so that new ones join in.

A command must do its work or refuse it in one line. Inputs are the words of a command line; words that begin with @
name files of `shelf`, which are right. The work is small: tiny models and sets, a second of training.
"""

import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from functools import cache, partial
from pathlib import Path
from typing import Any

from dbtm.core.errors import UsageError
from tests.fuzz import corpus
from tests.fuzz.forked import Ended, limit_processor, start
from tests.fuzz.harness import LONGEST, MEMORY, Files, Target, Used, put
from tests.fuzz.mutate import Draw
from tests.fuzz.registry import TARGETS

PROCESSOR = 5  # seconds
PATIENCE = 60.0  # by the clock: the machine may be busy

# -- words -------------------------------------------------------------------------------------------------------------

INTEGERS = (
    "-1", "0", "1", "2", "-9223372036854775808", str(2**31 - 1), str(2**31), str(2**32), str(2**62), str(2**63 - 1),
    str(2**63), str(10**20), str(10**22), "-" + str(10**22), "9" * 400, "9" * 5000, "1e9", "nan", "inf", "", " ", "1_0",
    "٣", "0x7f", "1.5", "+3", "--3", "1e400", "\x1b[31m7", "1" + "0" * 9, "null", "\udcff",
)  # fmt: skip
FLOATS = (
    "nan", "inf", "-inf", "1e309", "1e308", "-1e308", "5e-324", "1e-30", "-0.0", "-1", "0", "1e9",
    "9" * 400, "", "1,5",
    "\x1b[31m7", "x", "0x1p3", "1e-400", "٣.٥", "1_0.5", "Infinity", "-nan",
)  # fmt: skip
LISTS = (
    "1,", ",", "1,,2", "1," * 3000 + "1", "-1,2", "1;2", "[1,2]", "1,nan", "0", "1,1,1", " 1 , 2 ",
    "9" * 400, "1e22,1",
    str(10**22), f"1,{2**63}", ".5,inf", "1,0.5,x\x1b]0;x\x07", "30-20", "0-99999999999999999999", "-", "1e999",
    ".3,.3,.4",
)  # fmt: skip
TEXTS = (
    "", " ", "x", "\x1b]0;owned\x07", "\x1b[2J", "a\nb", "../../etc/passwd", "/dev/zero", "/proc/kmsg", "/",
    ".", "~", "-",
    "x" * 5000, "[" * 2000, "\udcff\udcfe", "\u202egnp.exe", "%s%n", "{}", "[bold]x[/]", "[/]", "$x^{$", "none",
    "all", "auto", "cuda", "@nowhere", "@plain.txt", "@markov", "@set", "@empty", "train:300", "train:10000000000",
)  # fmt: skip
VALUES = (
    "1", "-1", "0", str(2**31), str(2**63 - 1), str(10**22), "9" * 5000, "1e308", "1e999", "nan", "NaN",
    "Infinity", "-1e308",
    "5e-324", "true", "null", '"x"', "x", "[]", "[1,2]", "[" * 3000, "{" * 3000, '{"a":1}', "[[30,30]]", "",
    "\x1b[2J", '"\\u001b[2J"',
    "[1e999]", "[" + "9" * 400 + "]", "[[" * 500 + "]]" * 500, '"' + "x" * 3000 + '"', "1e9", "1" + "0" * 9,
)  # fmt: skip

GOOD: dict[str, tuple[str, ...]] = {
    "checkpoint": ("@markov", "@text", "@gsm", "@sudoku", "@ar", "@mdlm"),
    "clues": ("8", "6,8"),
    "data": ("@set", "@problems", "@tokens.npy", "@problems.jsonl"),
    "device": ("cpu", "auto"),
    "documents": ("line", "file"),
    "dtype": ("auto", "uint32"),
    "entropy": ("4.2", "4,4.1"),
    "figure": ("figure.png",),
    "files": ("@plain.txt", "@problems.jsonl"),
    "folders": ("@sweep",),
    "given": ("1 _ 2 _ _ 0", "_ _ _ _ _ _"),
    "html": ("page.html",),
    "infill": ("A ____ fox ____ on",),
    "inputs": ("@plain.txt",),
    "init": ("@markov",),
    "json_file": ("out.json",),
    "jsonl_file": ("out.jsonl",),
    "judge": ("none", "@tiny.gguf", "j"),
    "kappa": (".5", ".9"),
    "lengths": ("4", "4,8"),
    "method": ("dbtm", "ar", "mdlm"),
    "name": ("markov", "sudoku-mini"),
    "nfe": ("1", "2"),
    "oracle": ("@problems.jsonl",),
    "order": ("random", "confidence"),
    "out": ("out",),
    "p": (".5,.3,.2",),
    "prompt": ("A fox", "How many are 2 and 3?"),
    "puzzle": (corpus.PUZZLE, corpus.SMALL, "@puzzles.csv"),
    "puzzles": ("@small.csv",),
    "recipe": ("own", "markov", "simplex", "sudoku-mini", "text-small", "gsm-small"),
    "resume": ("auto", "none"),
    "samples": ("@samples.jsonl",),
    "sampler": ("refine", "iterate", "integrate"),
    "save_samples": ("samples.jsonl",),
    "scorer": ("confidence", "quality", "spread", "none"),
    "study": ("frontier", "all"),
    "suffix": ("on",),
    "temperature": ("0", ".7"),
    "tokenizer": ("@tokenizer.json", "train:300"),
    "top_p": (".9",),
    "what": ("text",),
}
"""Words that are right, by the name of the parameter."""

TINY = (
    "model.width=16", "model.depth=1", "model.heads=2", "model.cond_dim=8", "train.steps=2", "train.batch=4",
    "train.device=cpu", "train.precision=fp32", "train.compile=false", "train.graph=false", "optim.warmup=1",
)  # fmt: skip
SMALL: dict[str, tuple[str, ...]] = {
    "train": (*(word for each in TINY for word in ("--set", each)), "--max-seconds", ".3"),
    "data sudoku": ("--n", "2", "--box", "2", "--clues", "8", "--workers", "1"),
    "data text": ("--workers", "1"),
    "data lm1b": ("--workers", "1", "--local", "@corpus"),
    "data owt": ("--workers", "1", "--local", "@corpus"),
    "data gsm8k": ("--vocab", "400"),
    "eval sudoku": ("--checkpoint", "@sudoku", "--n", "2", "--nfe", "1"),
    "eval gsm8k": ("--n", "2", "--nfe", "1", "--workers", "1"),
    "eval text": ("--n", "2", "--nfe", "1", "--judge", "@tiny.gguf"),
    "eval nll": ("--n", "2"),
    "sweep text": ("--n", "2", "--nfe", "1", "--kappa", ".5", "--temperature", "0", "--repetition-penalty", "0"),
    "solve": ("--checkpoint", "@sudoku"),
    "sample": ("--n", "1"),
}
"""What keeps a command's work small, where other words do not say otherwise: options and their values."""
ON = {
    "own": ("--data", "@tokens.npy", "--vocab", "5", "--length", "6"),
    "text-small": ("--data", "@set", "--set", "task.evaluate_n=2"),
    "gsm-small": ("--data", "@problems", "--set", "task.evaluate_n=2"),
    "sudoku-mini": ("--set", "task.evaluate_n=2", "--set", "task.pool=4"),
}
"""The same for recipes."""
QUICK = {"recipes", "doctor", "theory list", "theory page", "sweep frontier", "eval own"}
"""Commands whose work is small by itself. All others, new ones too, are given a number that must be refused."""
NEVER = {
    "int": (str(10**20), "-" + str(10**20), "nan", "x", "9" * 5000),
    "float": ("nan", "x", "-" + str(10**20), "-inf"),
    "list": (str(10**20), "-" + str(10**20), "x", "nan"),
}
ONE = {"solve", "demo", "train"}  # exit code 1: a wrong answer, a diverged run


def commands() -> Iterator[tuple[str, Any]]:
    """(words, command) of everything that `dbtm` can do."""
    from typer.main import get_command

    from dbtm.cli import app

    def below(group: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from below(command, (*path, name))
            else:
                yield " ".join((*path, name)), command

    return below(get_command(app), ())


def kind(parameter: Any) -> str:
    """int, float, flag, list (numbers with commas between) or str."""
    if getattr(parameter, "is_flag", False):
        return "flag"
    described = getattr(parameter, "type_descriptor", None)
    found = str(described.annotation if described else getattr(parameter.type, "name", ""))
    for name in ("int", "float"):
        if name in found:
            return name
    return "list" if parameter.name in ("nfe", "kappa", "clues", "entropy", "lengths", "p", "sigma") else "str"


WILD = {"int": INTEGERS, "float": FLOATS, "list": (*LISTS, *INTEGERS), "str": TEXTS, "flag": ("",)}
PLAIN = {"int": ("1", "2", "3"), "float": (".5", "1"), "list": ("1", "1,2"), "str": ("x", "a b"), "flag": ("",)}


def settings_words(draw: Draw) -> str:
    return f"{draw.choice(setting_names())}={draw.choice(VALUES)}"


@cache
def setting_names() -> list[str]:
    """section.key of all settings of some recipes."""
    from dbtm import config
    from dbtm.recipes import recipe

    def names(values: dict[str, Any], path: str) -> Iterator[str]:
        for key, value in values.items():
            yield path + key
            if isinstance(value, dict):
                yield from names(value, f"{path}{key}.")

    found: dict[str, None] = {}
    for name in ("markov", "sudoku-mini", "text-small", "gsm-small"):
        for method in ("dbtm", "ar", "mdlm"):
            found |= dict.fromkeys(names(config.to_dict(recipe(name).by(method)), ""))
    return [*found, "", "x", "model..x", "..", "train.nonsense"]


def line(name: str, command: Any, draw: Draw) -> list[str]:
    """A command line. Most of its words are right, so that the wrong ones are reached."""
    options = [p for p in command.params if p.opts[0].startswith("-") and p.name not in ("help", "version")]
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    numeric = [p for p in options if kind(p) in ("int", "float", "list")]
    long = name not in SMALL and name not in QUICK
    wild = {draw.choice(numeric).name} if numeric and (long or draw.random() < 0.8) else set()
    words: list[str] = []
    for p in arguments:
        if p.required or draw.random() < 0.7:
            words.append(_word(p, draw, draw.random() < 0.1))
    given: set[str] = set()
    for p in options:
        chosen = p.name in wild or p.required or draw.random() < 0.15
        if not chosen or (p.name in ("max_seconds", "minutes") and given & {"max_seconds", "minutes"}):
            continue
        given.add(p.opts[0])
        if p.name == "set_":
            for _ in range(draw.choice((1, 1, 2))):
                words += [p.opts[0], settings_words(draw)]
        elif kind(p) == "flag":
            words.append(draw.choice([*p.opts, *p.secondary_opts]))
        else:
            odd = p.name in wild or draw.random() < 0.1
            words += [p.opts[0], draw.choice(NEVER[kind(p)]) if long and p.name in wild else _word(p, draw, odd)]
    if long and not numeric:
        words += ["--out", "@plain.txt"]
    small = [*SMALL.get(name, ()), *(word for recipe in words[:1] if name == "train" for word in ON.get(recipe, ()))]
    while small:  # pairs of an option and its value; settings come first, so that later ones win
        value, option = small.pop(), small.pop()
        if option == "--set":
            words = [option, value, *words]
        elif option not in given:
            words += [option, value]
    if draw.random() < 0.03:
        words.insert(draw.randrange(len(words) + 1), draw.choice((*TEXTS, "--", "--help", "--nonsense", "-x")))
    return [*name.split(), *words]


def _word(parameter: Any, draw: Draw, odd: bool) -> str:
    what = kind(parameter)
    if odd:
        return draw.choice(WILD[what])
    return draw.choice(GOOD.get(parameter.name, PLAIN[what]) if what in ("str", "list") else PLAIN[what])


# -- files that are right ----------------------------------------------------------------------------------------------


@cache
def shelf() -> Path:
    """A folder of small files and runs, made once and removed with the process."""
    import atexit

    from dbtm.service.training import fit
    from dbtm.tasks.gsm8k.task import Gsm8k
    from dbtm.tasks.sudoku.task import Sudoku

    folder = Path(tempfile.mkdtemp(prefix="dbtm-shelf-"))
    atexit.register(_remove, folder, os.getpid())
    files: Files = {
        "plain.txt": corpus.PLAIN, "problems.jsonl": corpus.problems(), "tokens.npy": corpus.array(),
        "tokenizer.json": corpus.tokenizer(), "samples.jsonl": corpus.samples(), "tiny.gguf": corpus.gguf(),
        "puzzles.csv": corpus.puzzles(), "corpus/a.txt": corpus.PLAIN, "small.csv": corpus.small_puzzles(),
    }  # fmt: skip
    folders = {"markov": corpus.toy_run(), "text": corpus.text_run(), "sweep": corpus.sweep()}
    files |= {f"{name}/{inner}": data for name, each in folders.items() for inner, data in each.items()}
    files |= corpus.text_set() | {f"problems/{name[4:]}": data for name, data in corpus.problem_set().items()}
    put(files, folder)
    (folder / "empty").mkdir()
    problems = Gsm8k(data=str(folder / "problems"), vocab=_sizes(folder / "problems")[0], length=240, evaluate_n=1)
    runs = {
        "sudoku": corpus.tiny_run(
            Sudoku(box=2, clues=((8, 8),), pool=8, evaluate_clues=8, evaluate_n=2), quality=False
        ),
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


# -- the target --------------------------------------------------------------------------------------------------------


def run_words(words: list[str], folder: Path) -> Ended:
    """`dbtm WORDS` in a folder, in a process of its own."""
    there = [str(shelf() / word[1:]) if word.startswith("@") else word for word in words]

    def set_up() -> None:
        os.chdir(folder)
        os.environ |= {
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
            "HF_HOME": str(folder / "hub"),
            "COLUMNS": "100",
        }
        limit_processor(PROCESSOR)

    return start([word.replace("\0", "") for word in there], set_up).wait(PATIENCE)


def fault(name: str, ended: Ended) -> str | None:
    """What a user would complain about, if anything."""
    lines = ended.errors.split("\n")
    own = [text for text in lines if text.startswith("dbtm: ")]
    if ended.code not in ((0, 1, 2) if name in ONE else (0, 2)):
        return f"exit code {ended.code}: {ended.errors[-300:]!r}"
    if "Traceback" in ended.errors or "Warning:" in ended.errors:
        return f"more than a line: {ended.errors[-300:]!r}"
    if (ended.code == 2) != (len(own) == 1) and not (ended.code == 1 and len(own) <= 1):
        return f"{len(own)} lines of its own with exit code {ended.code}: {ended.errors[-300:]!r}"
    for text in (*lines, *ended.output.split("\n")):
        if not text.replace("\t", "").isprintable():
            return f"not printable: {text[:300]!r}"
    if own and len(own[0]) > LONGEST:
        return f"a line of {len(own[0])} characters"
    return None


def run_command(name: str, folder: Path) -> Used:
    words = json.loads((folder / "words.json").read_text())
    ended = run_words(words, folder)
    used = Used(ended.seconds, max(0, ended.bytes - idle()))
    if found := fault(name, ended):
        raise AssertionError(found)
    if left := [path.name for path in folder.rglob(".*") if path.name not in (".lock", ".locks")]:
        raise AssertionError(f"left behind: {left}")
    if used.bytes > MEMORY:
        raise AssertionError(f"{used.bytes >> 20} MiB of memory")
    if ended.code == 2:
        raise UsageError(ended.errors.strip().split("\n")[-1])
    return used


@cache
def idle() -> int:
    """The memory of a forked process that does nothing."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.wait4(child, 0)[2].ru_maxrss << 10


def _make(name: str, command: Any, draw: Draw) -> Files:
    return {"words.json": json.dumps(line(name, command, draw)).encode()}


COMMANDS = dict(commands())
for _name, _command in COMMANDS.items():
    TARGETS[f"dbtm {_name}"] = Target(
        f"dbtm {_name}", partial(_make, _name, _command), partial(run_command, _name), PATIENCE
    )


def warm_up() -> None:
    """Import, in this process, what the commands import: forked ones find it there."""
    from dbtm.cli import app

    where = shelf()
    with tempfile.TemporaryDirectory() as name, corpus.silence(), redirect_stdout(io.StringIO()), chdir(name):
        for words in (
            ["sample", str(where / "text"), "--n", "1", "--html", "a.html", "--json", "a.json"],
            ["sample", str(where / "gsm"), "--n", "1"],
            ["eval", "sudoku", "--checkpoint", str(where / "sudoku"), "--clues", "8", "--n", "1", "--nfe", "1"],
            ["eval", "text", str(where / "text"), "--judge", str(where / "tiny.gguf"), "--n", "1", "--no-references"],
            ["eval", "nll", str(where / "ar"), "--n", "1"],
            [
                "data",
                "text",
                "--tokenizer",
                "train:300",
                "--length",
                "4",
                "--out",
                "a",
                str(where / "plain.txt"),
                "--workers",
                "1",
            ],
            ["sweep", "frontier", str(where / "sweep")],
            ["recipes", "markov"],
            ["theory", "list"],
            ["doctor"],
        ):
            app(words, standalone_mode=False)
