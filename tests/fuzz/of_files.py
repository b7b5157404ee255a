"""Readers of single files and words: text, archives, tables, arrays, tokenizers, puzzles, problems, settings."""

import json
import tarfile
from pathlib import Path

import numpy as np

from tests.fuzz import corpus
from tests.fuzz.harness import Files
from tests.fuzz.mutate import Draw, json_mutated, lines_mutated, mutated
from tests.fuzz.registry import file, target

# -- plain files -------------------------------------------------------------------------------------------------------


def _text(path: Path, **options) -> None:
    from dbtm.tasks.text.sources import find, pieces

    for found in find([str(path)]).files:
        for _ in pieces(found, lambda _: None, **options):
            pass


def _words(draw: Draw) -> Files:
    how = draw.choice(("", "", "gz", "xz", "zst"))
    data = corpus.PLAIN if draw.random() < 0.03 else mutated(draw, corpus.PLAIN)
    stream = corpus.packed(data, how)
    name = draw.choice(("a.txt", "a", "a.log")) + (f".{how}" if how else "")
    return {name: mutated(draw, stream) if how and draw.random() < 0.7 else stream}


@target(_words)
def plain_text(folder: Path) -> None:
    for documents in ("line", "paragraph", "file"):
        _text(next(folder.iterdir()), documents=documents)


def _json_lines(draw: Draw) -> Files:
    how = draw.choice(("", "", "gz", "xz", "zst"))
    stream = corpus.packed(lines_mutated(draw, corpus.LINES), how)
    return {"a.jsonl" + (f".{how}" if how else ""): mutated(draw, stream) if how and draw.random() < 0.3 else stream}


@target(_json_lines)
def json_lines(folder: Path) -> None:
    _text(next(folder.iterdir()))


def _archive(draw: Draw) -> Files:
    kind = draw.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
    long = "x" * draw.choice((3, 120)) + "/b.txt"
    data = corpus.archive({"a.jsonl": lines_mutated(draw, corpus.LINES), long: corpus.PLAIN, "c": b""}, kind)
    data = _tar_mutated(draw, data)
    how = draw.choice(("", "", "gz", "xz", "zst"))
    stream = corpus.packed(data, how)
    return {"a.tar" + (f".{how}" if how else ""): mutated(draw, stream) if how and draw.random() < 0.3 else stream}


def _tar_mutated(draw: Draw, data: bytes) -> bytes:
    """Headers with a field changed and the checksum set right, or any bytes."""
    out = bytearray(data)
    heads = [i for i in range(0, len(out) - 511, 512) if out[i + 257 : i + 262] == b"ustar"]
    if not heads or draw.random() < 0.3:
        return mutated(draw, data)
    for _ in range(draw.choice((0, 1, 1, 2))):
        at = draw.choice(heads)
        start, size = draw.choice(
            (
                (0, 100),
                (100, 8),
                (108, 8),
                (124, 12),
                (124, 12),
                (136, 12),
                (156, 1),
                (156, 1),
                (257, 8),
                (345, 155),
                (386, 97),
                (482, 13),
            )
        )
        kinds = (b"0", b"g", b"x", b"L", b"K", b"S", b"1", b"2", b"3", b"5", b"7", b"\0", b"D", b"V", b"X", b"\xff")
        numbers = (
            b"77777777777",
            b"00000000000",
            b"\x80" + b"\xff" * 11,
            b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xff" * 12,
            b"-1",
            b"     ",
            b"00000400000",
            b"\x00" * 12,
        )
        value = draw.choice(kinds) if size == 1 else draw.choice((*numbers, draw.randbytes(size), b"a" * size))
        out[at + start : at + start + size] = value[:size].ljust(size, b"\0")
        out[at + 148 : at + 156] = b" " * 8
        out[at + 148 : at + 156] = b"%06o\0 " % sum(out[at : at + 512])
    return bytes(out)


@target(_archive)
def archives(folder: Path) -> None:
    _text(next(folder.iterdir()))


@target(file("a.parquet", lambda: corpus.parquet("text")))
def parquet(folder: Path) -> None:
    _text(folder / "a.parquet")


def _array(draw: Draw) -> Files:
    data = corpus.array(draw.choice(("<i8", ">i4", "|u1", "<u8")))
    if draw.random() < 0.7:
        head = bytearray(data[:128])
        text = data[10:128].decode()
        text = text.replace(
            "(50, 6)",
            draw.choice(
                (
                    "(50, 6)",
                    "(50,)",
                    "(-1, 6)",
                    "(2**40, 6)",
                    f"({2**62}, 6)",
                    "(50, 0)",
                    "()",
                    "None",
                    "(50, 6",
                    f"({'9' * 500},)",
                    "(50.0, 6)",
                    "(True, 6)",
                    "[" * 200,
                    "(3, 100)",
                )
            ),
        )
        text = text.replace(
            "<i8",
            draw.choice(("<i8", "|O", "<f8", "<V8", "|S8", "<M8[ns]", "<i3", "x" * 50, "<U99999999", "[('a','<i8')]")),
        )
        text = text.replace("False", draw.choice(("False", "True", "None", "__import__('os')")))
        head[10:] = text.encode().ljust(118)[:118]
        data = bytes(head) + data[128:]
    return {"a.npy": mutated(draw, data) if draw.random() < 0.6 else data}


@target(_array)
def arrays(folder: Path) -> None:
    from dbtm.tasks.own import Own

    Own(data=str(folder / "a.npy"), vocab=5, length=6).batch(np.arange(4))


@target(file("tokenizer.json", corpus.tokenizer, json_mutated))
def tokenizer(folder: Path) -> None:
    from dbtm.tasks.text import tokenizer as tokenizers

    found = tokenizers.load(str(folder))
    size = tokenizers.size(found)
    tokenizers.edges(found)
    with tokenizers.guarded(folder):
        ids = found.encode("A naïve fox <|endoftext|> 北京 \0 12", add_special_tokens=False).ids
        found.decode_batch([ids, [0, max(0, size - 1)]], skip_special_tokens=False)


# -- puzzles, problems, settings ---------------------------------------------------------------------------------------


def _puzzle(draw: Draw) -> Files:
    rows = "\n".join(corpus.PUZZLE[i : i + 9] for i in range(0, 81, 9))
    text = draw.choice((corpus.PUZZLE, rows, corpus.SMALL, rows.replace("0", "."))).encode()
    for _ in range(draw.choice((0, 1, 3, 20))):  # clues changed or emptied
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice((b"0", b".", b"%d" % draw.randrange(10))) + text[at + 1 :]
    return {"puzzle": mutated(draw, text) if draw.random() < 0.5 else text}


@target(_puzzle)
def puzzle(folder: Path) -> None:
    from dbtm.tasks.sudoku.puzzle import check, parse

    check(parse((folder / "puzzle").read_bytes().decode("utf-8", "replace")))


@target(file("a.csv", corpus.puzzles))
def puzzle_file(folder: Path) -> None:
    from dbtm.tasks.sudoku.csvfile import read

    read(folder / "a.csv")


PROGRAMS = (
    "def f():\n    return 1if 2else 3",
    'def f():\n    """\\d"""\n    return 0x1for x in y',
    "a is 1",
    "(" * 300,
    "1" * 5000,
    "x = '\\q' + ()()",
    "9**9**9",
    "-" * 5000 + "1",
    "def f():\n    return " + "+".join("1" * 3000),
    "\0",
    "é = 1\n\f x",
    "#coding: x\n1",
)


def _problems(draw: Draw) -> Files:
    data = lines_mutated(draw, corpus.problems())
    if draw.random() < 0.4:
        step = draw.choice(
            (
                "<<9*9*9=729>>",
                "<<1if 2else 3=1>>",
                "<<" + "(" * 300 + "=2>>",
                "<<()()=1>>",
                "<<2**9**9=1>>",
                "<<07=7>>",
                "<<'a'*9=9>>",
            )
        )
        record = {
            "question": "How many?",
            "code": draw.choice(PROGRAMS),
            "answer": f"{step}729 #### {draw.choice(('729', '-1', '9' * 400))}",
        }
        if draw.random() < 0.5:
            del record["code"]
        data += json.dumps(record).encode() + b"\n"
    return {"a.jsonl": data}


@target(_problems)
def problems(folder: Path) -> None:
    from dbtm.tasks.gsm8k.data import read
    from dbtm.tasks.gsm8k.plain import plain
    from dbtm.tasks.gsm8k.renumber import copies

    for example in read(folder / "a.jsonl", "question", "code"):
        plain(example)
        for _ in copies(example, 1):
            pass


@target(lambda draw: {"a.parquet": mutated(draw, corpus.parquet("question", "code"))})
def problem_table(folder: Path) -> None:
    from dbtm.tasks.gsm8k.data import read

    for _ in read(folder / "a.parquet", "question", "answer"):
        pass


def _assignments(draw: Draw) -> Files:
    keys = (
        "model.width",
        "model.depth",
        "model.position_axes",
        "model.pattern",
        "method.loss.semigroup",
        "task.clues",
        "method.ril.depths",
        "optim.betas",
        "train.device",
        "sample.nfe",
        "sample.kappa",
        "task.pool",
        "method",
        "train",
        "train.init",
        "task.name",
        "model..x",
        "",
        "model.width.x",
        "optim.lr",
        "train.seed",
        "method.quality",
    )
    values = [
        draw.choice((b"1", b"[1,2]", b"true", b"null", b"x", b".5", b"-3", b"1e999", b"nan", b"[[30,30]]", b"{}"))
    ]
    values.append(json_mutated(draw, json.dumps({"a": draw.choice(((30, 30), 1, 0.5, "x"))}).encode()))
    lines = []
    for _ in range(draw.choice((1, 1, 3))):
        value = draw.choice(values) if draw.random() < 0.7 else mutated(draw, draw.choice(values))
        key = draw.choice(keys).encode()
        lines.append((key if draw.random() < 0.9 else mutated(draw, key)) + draw.choice((b"=",) * 9 + (b"",)) + value)
    return {"set": b"\0".join(lines), "recipe": draw.choice((b"sudoku-mini", b"text-small", b"own"))}


@target(_assignments)
def settings(folder: Path) -> None:
    from dbtm.config import override
    from dbtm.recipes import recipe

    words = (folder / "set").read_bytes().decode("utf-8", "surrogateescape").split("\0")
    override(recipe((folder / "recipe").read_text()), words)
