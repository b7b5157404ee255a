"""Every reader with the inputs that it is given. `dbtm` reads nothing from elsewhere that is not here."""

import hashlib
import json
import random
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.fuzz import corpus
from tests.fuzz.harness import Files, Target
from tests.fuzz.mutate import Draw, json_mutated, lines_mutated, mutated, safetensors_mutated

TARGETS: dict[str, Target] = {}
Make = Callable[[Draw], Files]


def target(make: Make, quotes: bool = False) -> Callable[[Callable[[Path], object]], Callable[[Path], object]]:
    """Name a reader after its function: `def gguf(folder)` is the target gguf."""

    def add(read: Callable[[Path], object]) -> Callable[[Path], object]:
        TARGETS[read.__name__] = Target(read.__name__, make, read, quotes)
        return read

    return add


def file(name: str, good: Callable[[], bytes], damage: Callable[[Draw, bytes], bytes] = mutated) -> Make:
    """Inputs of one file. One in thirty is left as it is: the reader must accept what is right."""
    return lambda draw: {name: good() if draw.random() < 1 / 30 else damage(draw, good())}


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
        start, size = draw.choice(((0, 100), (100, 8), (108, 8), (124, 12), (124, 12), (136, 12), (156, 1), (156, 1), (257, 8), (345, 155), (386, 97), (482, 13)))
        kinds = (b"0", b"g", b"x", b"L", b"K", b"S", b"1", b"2", b"3", b"5", b"7", b"\0", b"D", b"V", b"X", b"\xff")
        numbers = (b"77777777777", b"00000000000", b"\x80" + b"\xff" * 11, b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
                   b"\xff" * 12, b"-1", b"     ", b"00000400000", b"\x00" * 12)  # fmt: skip
        value = draw.choice(kinds) if size == 1 else draw.choice((*numbers, draw.randbytes(size), b"a" * size))
        out[at + start : at + start + size] = value[:size].ljust(size, b"\0")
        out[at + 148 : at + 156] = b" " * 8
        out[at + 148 : at + 156] = b"%06o\0 " % sum(out[at : at + 512])
    return bytes(out)


@target(_archive, quotes=True)
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
        text = text.replace("(50, 6)", draw.choice(("(50, 6)", "(50,)", "(-1, 6)", "(2**40, 6)", f"({2**62}, 6)", "(50, 0)", "()", "None", "(50, 6", f"({'9' * 500},)", "(50.0, 6)", "(True, 6)", "[" * 200, "(3, 100)")))
        text = text.replace("<i8", draw.choice(("<i8", "|O", "<f8", "<V8", "|S8", "<M8[ns]", "<i3", "x" * 50, "<U99999999", "[('a','<i8')]")))
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


PROGRAMS = ("def f():\n    return 1if 2else 3", 'def f():\n    """\\d"""\n    return 0x1for x in y', "a is 1", "(" * 300, "1" * 5000, "x = '\\q' + ()()", "9**9**9", "-" * 5000 + "1", "def f():\n    return " + "+".join("1" * 3000), "\0", "é = 1\n\f x", "#coding: x\n1")  # fmt: skip


def _problems(draw: Draw) -> Files:
    data = lines_mutated(draw, corpus.problems())
    if draw.random() < 0.4:
        step = draw.choice(("<<9*9*9=729>>", "<<1if 2else 3=1>>", "<<" + "(" * 300 + "=2>>", "<<()()=1>>", "<<2**9**9=1>>", "<<07=7>>", "<<'a'*9=9>>"))
        record = {"question": "How many?", "code": draw.choice(PROGRAMS), "answer": f"{step}729 #### {draw.choice(('729', '-1', '9' * 400))}"}
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
    keys = ("model.width", "model.depth", "model.position_axes", "model.pattern", "method.loss.semigroup", "task.clues",
            "method.ril.depths", "optim.betas", "train.device", "sample.nfe", "sample.kappa", "task.pool", "method", "train",
            "train.init", "task.name", "model..x", "", "model.width.x", "optim.lr", "train.seed", "method.quality")  # fmt: skip
    values = [draw.choice((b"1", b"[1,2]", b"true", b"null", b"x", b".5", b"-3", b"1e999", b"nan", b"[[30,30]]", b"{}"))]
    values.append(json_mutated(draw, json.dumps({"a": draw.choice(((30, 30), 1, 0.5, "x"))}).encode()))
    lines = []
    for _ in range(draw.choice((1, 1, 3))):
        value = draw.choice(values) if draw.random() < 0.7 else mutated(draw, draw.choice(values))
        key = draw.choice(keys).encode()
        lines.append((key if draw.random() < 0.9 else mutated(draw, key)) + draw.choice((b"=",) * 9 + (b"",)) + value)
    return {"set": b"\0".join(lines), "recipe": draw.choice((b"sudoku-mini", b"text-small", b"own"))}


@target(_assignments, quotes=True)
def settings(folder: Path) -> None:
    from dbtm.config import override
    from dbtm.recipes import recipe

    words = (folder / "set").read_bytes().decode("utf-8", "surrogateescape").split("\0")
    override(recipe((folder / "recipe").read_text()), words)


# -- prepared sets -----------------------------------------------------------------------------------------------------


def _refit(draw: Draw, manifest: dict, files: Files, folder: str) -> None:
    """Set a manifest's sha256 to those of the files as they are now."""
    sums = {name.rpartition("/")[2]: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    for split in ("train", "validation"):
        for shard in manifest.get(split, {}).get("shards", []):
            shard["sha256"] = sums.get(shard["file"], "")
    if "sha256" in manifest.get("tokenizer", {}):
        manifest["tokenizer"]["sha256"] = sums["tokenizer.json"]
    if "files" in manifest:
        manifest["files"] = {name: sums[name] for name in manifest["files"]}


def _set(good: Callable[[], Files], key: str) -> Make:
    def make(draw: Draw) -> Files:
        files = dict(good())
        names = [name for name in files if not name.endswith("manifest.json")]
        if draw.random() < 0.6:
            name = draw.choice(names)
            damage = json_mutated if name.endswith(".json") else mutated
            files[name] = damage(draw, files[name])
        manifest = json.loads(files["set/manifest.json"])
        if draw.random() < 0.7:
            _refit(draw, manifest, files, "set")
        files["set/manifest.json"] = json.dumps(manifest).encode()
        if draw.random() < 0.6:
            files["set/manifest.json"] = json_mutated(draw, files["set/manifest.json"])
        return files

    return make


@target(_set(corpus.text_set, "text"))
def text_set(folder: Path) -> None:
    from dbtm.tasks.text.shards import Prepared
    from dbtm.tasks.text.task import Text

    found = Prepared(folder / "set")
    task = Text(data=str(folder / "set"), vocab=found.vocab, length=found.length)
    task.prepare_evaluation()
    _ = task.files(), task.data_sha256()
    _in_range(task.batch(np.arange(8)).tokens, task)
    if (held_out := task.held_out_examples(4)) is not None:
        _in_range(held_out.tokens, task)
    found.verify()


@target(_set(corpus.problem_set, "problems"))
def problem_set(folder: Path) -> None:
    from dbtm.tasks.gsm8k.prepared import Prepared
    from dbtm.tasks.gsm8k.task import Gsm8k

    found = Prepared(folder / "set")
    task = Gsm8k(data=str(folder / "set"), vocab=found.vocab, length=found.length)
    _ = task.files(), task.data_sha256()
    for start in (0, 8, 16):
        _in_range(task.batch(np.arange(start, start + 8)).tokens, task)
    found.verify()


def _in_range(tokens: np.ndarray, task) -> None:
    assert tokens.min() >= 0, "a negative token"
    assert tokens.max() < task.vocab, "a token beyond the vocabulary"
    assert tokens.shape[1] == task.length


# -- checkpoints -------------------------------------------------------------------------------------------------------


def _checkpoint(good: Callable[[], Files]) -> Make:
    def make(draw: Draw) -> Files:
        files = dict(good())
        step = next(name for name in files if name.endswith("config.json")).rpartition("/")[0]
        names = [name for name in files if name.startswith(step) and not name.endswith("manifest.json")]
        for _ in range(draw.choice((0, 1, 1, 1, 2))):
            name = draw.choice([*names, *[n for n in names if n.endswith(".json")], "best.json"])
            if name in files:
                damage = json_mutated if name.endswith(".json") else safetensors_mutated
                files[name] = damage(draw, files[name])
        manifest = json.loads(files[f"{step}/manifest.json"])
        if draw.random() < 0.8:
            manifest = {name: hashlib.sha256(files[f"{step}/{name}"]).hexdigest() for name in manifest}
        text = json.dumps(manifest).encode()
        files[f"{step}/manifest.json"] = json_mutated(draw, text) if draw.random() < 0.15 else text
        return files

    return make


def _load(folder: Path) -> None:
    import dbtm
    from dbtm.checkpoint.folder import best

    best(folder)
    sampler = dbtm.load(folder, device="cpu")
    sampler.task.text(np.zeros(sampler.task.length, dtype=np.int64))


@target(_checkpoint(corpus.toy_run), quotes=True)
def checkpoint(folder: Path) -> None:
    _load(folder)


@target(_checkpoint(corpus.text_run), quotes=True)
def text_checkpoint(folder: Path) -> None:
    _load(folder)


@target(_checkpoint(corpus.toy_run), quotes=True)
def resume(folder: Path) -> None:
    from dataclasses import replace

    from dbtm.checkpoint import folder as checkpoints
    from dbtm.checkpoint.migrate import read_config
    from dbtm.train.loop import Trainer

    newest = checkpoints.find(folder)
    checkpoints.verify(newest, ["config.json"])
    config = read_config(newest)
    trainer = Trainer(replace(config, train=replace(config.train, device="cpu")), folder, resume=True)
    assert trainer.step <= config.train.steps


# -- samples, sweeps, judges -------------------------------------------------------------------------------------------


@target(file("samples.jsonl", corpus.samples, lines_mutated), quotes=True)
def samples(folder: Path) -> None:
    from dbtm.evals.samples import read_sets

    read_sets(folder / "samples.jsonl")


def _sweep(draw: Draw) -> Files:
    files = dict(corpus.sweep())
    name = draw.choice([*files])
    files[name] = (json_mutated if name == "plan.json" else lines_mutated)(draw, files[name])
    return files


@target(_sweep, quotes=True)
def sweep(folder: Path) -> None:
    from dbtm.evals.sweep.folder import SweepFolder
    from dbtm.evals.sweep.outcome import curves, matched, matched_entropies

    found = SweepFolder(folder)
    plan = found.plan
    found.drawn()
    for judge in found.judges():
        curve = curves("a", plan, found.judged(judge))
        json.dumps(matched([curve], matched_entropies([curve])))


def _gguf(draw: Draw) -> Files:
    data = corpus.gguf()
    if draw.random() < 0.5:  # numbers of the metadata and of tensors' heads
        head = data.find(b"token_embd") + 2000
        out = bytearray(data)
        for _ in range(draw.choice((1, 1, 2))):
            size = draw.choice((1, 4, 8))
            at = draw.randrange(head)
            value = draw.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 9, 8, 12)) % (1 << (8 * size))
            out[at : at + size] = struct.pack("<Q", value)[:size]
        return {"a.gguf": bytes(out)}
    return {"a.gguf": mutated(draw, data)}


@target(_gguf)
def gguf(folder: Path) -> None:
    from dbtm.evals.judges import load_judge

    judge = load_judge(str(folder / "a.gguf"), "cpu")
    with_text = judge.encode(["the 12 inns<|endoftext|>in the end"])
    assert all(0 <= i < judge.model.config.vocab for ids in with_text for i in ids)


def warm_up() -> None:
    """Import and compile what readers need, before processes are forked and their time is counted."""
    for each in TARGETS.values():
        try:
            folder_input = each.make(random.Random(0))
        except ImportError:
            continue
        del folder_input
    from dbtm.tasks.sudoku.csvfile import read  # compiles

    import tempfile

    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "a.csv")
        path.write_bytes(corpus.puzzles())
        read(path)
