"""Command lines of right and wild words. Commands and options are read from `dbtm` itself, so that new ones join in.

Most words of a line are right, and fit together, so that the wrong ones are reached and the work is begun. Words that
begin with @ name files of `shelf`.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.fuzz import corpus
from tests.fuzz.mutate import Draw

# -- words that are wild -----------------------------------------------------------------------------------------------

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

NEVER = {
    "int": (str(10**20), "-" + str(10**20), "nan", "x", "9" * 5000),
    "float": ("nan", "x", "-" + str(10**20), "-inf"),
    "list": (str(10**20), "-" + str(10**20), "x", "nan"),
}
"""Numbers that every command must refuse."""
WILD = {"int": INTEGERS, "float": FLOATS, "list": (*LISTS, *INTEGERS), "str": TEXTS, "flag": ("",)}
PLAIN = {"int": ("1", "2", "3"), "float": (".5", "1"), "list": ("1", "1,2"), "str": ("x", "a b"), "flag": ("",)}

# -- words that are right ----------------------------------------------------------------------------------------------

GOOD: dict[str, tuple[str, ...]] = {
    "checkpoint": ("@markov", "@text", "@gsm", "@sudoku", "@ar", "@mdlm", "@own"),
    "checkpoints": ("@markov", "@text", "@sudoku"),
    "clues": ("8", "6,8"),
    "data": ("@set", "@problems", "@tokens.npy", "@rows.csv"),
    "device": ("cpu", "auto"),
    "documents": ("line", "file"),
    "dtype": ("auto", "uint32"),
    "effort": ("0-3",),
    "entropy": ("4.2", "4,4.1"),
    "figure": ("simplex", "births", "figure.png"),
    "files": ("@plain.txt", "@problems.jsonl"),
    "folders": ("@sweep",),
    "given": ("1 _ 2 _ _ 0", "_ _ _ _ _ _"),
    "host": ("127.0.0.1", "localhost"),
    "html": ("page.html",),
    "infill": ("A ____ fox ____ on",),
    "inputs": ("@plain.txt",),
    "init": ("@markov",),
    "json_file": ("out.json",),
    "jsonl_file": ("out.jsonl",),
    "judge": ("none", "@tiny.gguf", "j"),
    "kappa": (".5", ".9"),
    "lengths": ("4", "4,8"),
    "local": ("@corpus",),
    "merge": ("@referee",),
    "method": ("dbtm", "ar", "mdlm"),
    "methods": ("ar", "ar,mdlm", "all"),
    "metric": ("@metric.py:ones",),
    "name": ("markov", "sudoku-mini"),
    "nfe": ("1", "2"),
    "oracle": ("@problems.jsonl",),
    "order": ("random", "confidence"),
    "out": ("out",),
    "p": (".5,.3,.2",),
    "prompt": ("A fox", "How many are 2 and 3?"),
    "puzzle": (corpus.SMALL, corpus.SMALL, corpus.PUZZLE, "@small.csv"),
    "puzzles": ("@small.csv",),
    "recipe": ("own", "markov", "simplex", "sudoku-mini", "text-small", "gsm-small"),
    "remask": ("none", "cap", "rescale"),
    "resume": ("auto", "none"),
    "rounds": ("equal", "planned"),
    "rule": ("commit", "revise"),
    "runs": ("@markov", "@text"),
    "samples": ("@samples.jsonl",),
    "sampler": ("refine", "iterate", "integrate"),
    "save_samples": ("samples.jsonl",),
    "scale": ("trial", "small"),
    "scorer": ("confidence", "quality", "spread", "none"),
    "seed": ("0", "7"),
    "size": ("paper", "small"),
    "study": ("frontier", "all"),
    "suffix": ("on",),
    "tail": ("sample", "argmax"),
    "task": ("markov",),
    "temperature": ("0", ".7"),
    "token": ("a long enough token",),
    "tokenizer": ("@tokenizer.json", "train:300"),
    "top_p": (".9",),
    "what": ("text",),
}
"""By the name of the parameter."""
FIT: dict[str, dict[str, tuple[str, ...]]] = {
    "eval gsm8k": {"checkpoint": ("@gsm",), "data": ("@problems",)},
    "eval own": {"checkpoint": ("@own",), "data": ("@rows.csv",)},
    "eval sudoku": {"checkpoint": ("@sudoku",)},
    "eval text": {"checkpoint": ("@text",), "data": ("@set",), "judge": ("@tiny.gguf",)},
    "eval nll": {"checkpoint": ("@markov", "@ar", "@mdlm", "@text"), "data": ("@set",)},
    "pack": {"checkpoint": ("@markov", "@text", "@ar")},
    "plot": {"out": ("a.svg", "a.png"), "name": ("loss", "validation")},
    "reproduce": {"name": ("list", "sudoku-threshold-sweep", "simplex-dynamics"), "data": ("text=@set",)},
    "solve": {"checkpoint": ("@sudoku",)},
    "sweep text": {"checkpoint": ("@text",), "data": ("@set",), "judge": ("@tiny.gguf",), "sigma": ("1", ".8,1")},
    "tune": {"checkpoint": ("@own",), "data": ("@rows.csv",)},
    "theory draw": {"figure": ("simplex", "implied", "nonsense")},
}
"""What fits a command better."""

TINY = (
    "model.width=16", "model.depth=1", "model.heads=2", "train.steps=2", "train.batch=4",
    "train.device=cpu", "train.precision=fp32", "train.compile=false", "train.graph=false", "optim.warmup=1",
)  # fmt: skip
COUNTS = ("--n", "2", "--nfe", "1")
JUDGED = ("--judge", "@tiny.gguf", "--data", "@set")
SMALL: dict[str, tuple[str, ...]] = {
    "train": (*(word for each in TINY for word in ("--set", each)), "--max-seconds", ".3"),
    "data sudoku": ("--n", "2", "--box", "2", "--clues", "8", "--workers", "1"),
    "data text": ("--workers", "1"),
    "data lm1b": ("--workers", "1", "--local", "@corpus", "--tokenizer", "@tokenizer.json", "--length", "16"),
    "data owt": ("--workers", "1", "--local", "@corpus", "--tokenizer", "@tokenizer.json", "--length", "16"),
    "data gsm8k": ("--vocab", "400"),
    "eval sudoku": ("--checkpoint", "@sudoku", "--n", "2", "--nfe", "1", "--clues", "8"),
    "eval gsm8k": ("--n", "2", "--nfe", "1", "--workers", "1"),
    "eval own": ("--n", "2", "--nfe", "1"),
    "eval text": (*COUNTS, *JUDGED),
    "eval nll": ("--n", "2"),
    "sweep text": (
        "--n",
        "2",
        "--nfe",
        "1",
        "--kappa",
        ".5",
        "--temperature",
        "0",
        "--repetition-penalty",
        "0",
        *JUDGED,
    ),
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
QUICK = {"recipes", "doctor", "plot", "pack", "theory list", "theory page", "sweep frontier"}
"""Commands whose work is small by itself. All others, new ones too, are given a number that must be refused."""
QUICK_FORMS = {
    "referee": (("--report-only", "--out", "@referee"), ("--merge", "@referee")),
    "reproduce": (("--plan",),),
}
"""Words that make a long command quick."""

# -- the command -------------------------------------------------------------------------------------------------------


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


METHODS = {"@ar": "ar", "@mdlm": "mdlm"}  # of checkpoints; all others are dbtm's


@cache
def sampler_options(method: str) -> frozenset[str]:
    """Options of commands that a method's sampler takes."""
    from dataclasses import fields

    from dbtm.core.registry import METHODS as REGISTRY

    return frozenset(field.name for field in fields(REGISTRY.get(method).Options))


@cache
def foreign(method: str) -> frozenset[str]:
    """Options of samplers that this method lacks."""
    from dbtm.cli.options import SAMPLER

    return frozenset(SAMPLER) - sampler_options(method)


@cache
def methods() -> list[str]:
    from dbtm.core.registry import METHODS as REGISTRY

    return REGISTRY.names()


@cache
def setting_names(recipe_name: str, method: str) -> list[str]:
    """section.key of all settings of a recipe by a method, and some that there are not."""
    from dbtm import config
    from dbtm.recipes import recipe

    def names(values: dict[str, Any], path: str) -> Iterator[str]:
        for key, value in values.items():
            yield path + key
            if isinstance(value, dict):
                yield from names(value, f"{path}{key}.")

    found = [*names(config.to_dict(recipe(recipe_name).by(method)), "")]
    return [*found, *(name for name in found if name.startswith("method.")), "", "x", "model..x", "train.nonsense"]


def settings_words(draw: Draw, recipe_name: str, method: str) -> str:
    recipe_name = recipe_name if recipe_name in GOOD["recipe"] else "markov"
    return f"{draw.choice(setting_names(recipe_name, method))}={draw.choice(VALUES)}"


# -- lines -------------------------------------------------------------------------------------------------------------


def line(name: str, command: Any, draw: Draw) -> list[str]:
    """A command line: a quarter of them all right, most others with one wild word."""
    options = [p for p in command.params if p.opts[0].startswith("-") and p.name not in ("help", "version")]
    numeric = [p for p in options if kind(p) in ("int", "float", "list")]
    form = draw.choice(QUICK_FORMS[name]) if name in QUICK_FORMS and draw.random() < 0.6 else ()
    long = not (name in SMALL or name in QUICK or form)
    wildness = draw.choice((0, 0, 1, 1, 1, 1, 2, 3))
    words, method = [], "dbtm"
    for p in command.params:
        if not p.opts[0].startswith("-") and (p.required or draw.random() < 0.8):
            words.append(_word(name, p, draw, wildness > 0 and draw.random() < 0.12))
            method = METHODS.get(words[-1], method)
    if name in ("train", "recipes") and draw.random() < 0.7:
        method = draw.choice(methods())
        words += ["--method", method]
    optional = [p for p in options if not p.required and (p.name not in foreign(method) or draw.random() < 0.1)]
    chosen = [p for p in options if p.required] + draw.sample(optional, min(len(optional), draw.choice((0, 1, 2, 3))))
    wild = {p.name for p in draw.sample(chosen, min(len(chosen), wildness))}
    if long and numeric:
        chosen.append(draw.choice(numeric))
        wild.add(chosen[-1].name)
    given = {word for word in (*words, *form) if word.startswith("--")}
    for p in chosen:
        if p.opts[0] in given or (p.name in ("max_seconds", "minutes") and given & {"--max-seconds", "--minutes"}):
            continue
        given.add(p.opts[0])
        if p.name == "set_":
            for _ in range(draw.choice((1, 1, 2))):
                words += [p.opts[0], settings_words(draw, words[0] if words else "", method)]
        elif kind(p) == "flag":
            words.append(draw.choice([*p.opts, *p.secondary_opts]))
        else:
            never = long and p.name in wild and kind(p) in NEVER
            words += [p.opts[0], draw.choice(NEVER[kind(p)]) if never else _word(name, p, draw, p.name in wild)]
    if long and not numeric:
        words += ["--out", "@plain.txt"]
    words = _made_small([*words, *form], given, name)
    if wildness and draw.random() < 0.03:
        words.insert(draw.randrange(len(words) + 1), draw.choice((*TEXTS, "--", "--help", "--nonsense", "-x")))
    return [*name.split(), *words]


def _made_small(words: list[str], given: set[str], name: str) -> list[str]:
    small = [*SMALL.get(name, ()), *(word for recipe in words[:1] if name == "train" for word in ON.get(recipe, ()))]
    pairs = list(zip(small[::2], small[1::2], strict=True))
    settings = [word for option, value in pairs if option == "--set" for word in (option, value)]
    others = [word for option, value in pairs if option != "--set" and option not in given for word in (option, value)]
    return [*settings, *words, *others]  # settings come first, so that later ones win


def _word(command: str, parameter: Any, draw: Draw, odd: bool) -> str:
    what = kind(parameter)
    if odd:
        return draw.choice(WILD[what])
    good = FIT.get(command, {}).get(parameter.name) or GOOD.get(parameter.name)
    return draw.choice(good or PLAIN[what])
