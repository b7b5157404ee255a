"""`dbtm data gsm8k`: tokenize word problems with programs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import common
from dbtm.cli.console import say
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_SEED

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from dbtm.tasks.gsm8k.data import Example
    from dbtm.tasks.gsm8k.prepared import Source

FEWEST_VOCAB = 300  # all bytes, the two special tokens, and something to learn
MOST_LENGTH = (1 << 16) - 1  # a prompt's length is written as 16 bits
MOST_COPIES = 10_000  # of one example
TRAIN_SYNTHETIC = 20_000  # synthetic problems that a trained tokenizer sees beside the examples


def gsm8k(
    out: Annotated[Path, typer.Option(help="Folder to write: tokens, tokenizer.json, manifest.json.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="JSON lines or Parquet with question and code, or GSM8K's.", metavar="[FILE]..."),
    ] = None,
    hub: Annotated[
        str | None, typer.Option(help="A data set of the Hugging Face hub, such as TinyGSM/TinyGSM.")
    ] = None,
    synthetic: Annotated[int, typer.Option(help="Number of synthetic problems to add.")] = 0,
    renumber: Annotated[int, typer.Option(help="Copies per example of files and hub with other numbers, at most.")] = 0,
    tokenizer: Annotated[
        str | None, typer.Option(help="A tokenizer.json, or a name on the hub (default: train one).")
    ] = None,
    vocab: Annotated[int | None, typer.Option(help="Size of the trained tokenizer (default: 4096).")] = None,
    length: Annotated[int, typer.Option(help="Tokens per example; longer ones are left out and counted.")] = 256,
    plain: Annotated[bool, typer.Option("--plain", help="Reformat programs, without comments and docstrings.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic problems, and of the copies' numbers.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a prepared set in --out.")] = False,
) -> None:
    """Tokenize word problems with their programs, for the recipes tinygsm and gsm-small."""
    if not files and hub is None and not synthetic:
        raise UsageError("nothing to prepare: give files with question and code, --hub NAME or --synthetic N")
    common.in_range("--length", length, 16, MOST_LENGTH)
    common.in_range("--synthetic", synthetic, 0)
    common.in_range("--renumber", renumber, 0, MOST_COPIES)
    common.in_range("--seed", seed, 0, MOST_SEED)
    if renumber and not files and hub is None:
        raise UsageError("--renumber copies examples of files and of --hub: give some, or leave --renumber out")
    if tokenizer is not None and tokenizer.startswith("train:"):
        raise UsageError(f"--tokenizer {tokenizer}: leave --tokenizer out to train one (--vocab N)")
    if tokenizer is not None and vocab is not None:
        raise UsageError("--vocab is for a trained tokenizer: leave it out with --tokenizer")
    if vocab is not None and not FEWEST_VOCAB <= vocab <= 1 << 16:
        raise UsageError(f"--vocab {vocab} must be from {FEWEST_VOCAB} to {1 << 16}")

    from dbtm.tasks.folder import check_out
    from dbtm.tasks.gsm8k import prepared
    from dbtm.tasks.gsm8k.data import check
    from dbtm.tasks.text.tokenizer import load

    check_out(out, force)
    for path in files or []:
        check(path)

    def sources(renumber: int = 0) -> "Iterator[Source]":
        return _sources(files or [], hub, synthetic, renumber, seed, plain)

    with common.progress_bar() as progress:
        bar = progress.add_task("reading", total=None)

        def show(stage: str) -> Callable[[int], None]:
            return lambda done: progress.update(bar, description=stage, completed=done)

        if tokenizer is None:
            words = _train(sources(), vocab or 4096, show("training the tokenizer"))
        else:
            words = load(tokenizer)
        trained = "trained on these examples and synthetic problems"
        named = Path(tokenizer).name if tokenizer and Path(tokenizer).exists() else tokenizer
        about = {"plain": plain, "renumber": renumber, "tokenizer": named or trained}
        manifest = prepared.write(out, words, length, sources(renumber), about, show("writing examples"))
    others = f", {manifest['not_programs']:,} that are not programs" if manifest["not_programs"] else ""
    say(
        f"{out}: {manifest['examples']:,} examples, {manifest['tokens']:,} tokens, vocabulary {manifest['vocab']:,}; "
        f"{manifest['too_long']:,} longer than {length}{others} left out"
    )


def _sources(
    files: list[Path], hub: str | None, synthetic: int, renumber: int, seed: int, plain: bool
) -> "Iterator[Source]":
    """All examples from the start; files, then the hub, then synthetic ones."""
    from dbtm.core.digest import sha256
    from dbtm.tasks.gsm8k import data
    from dbtm.tasks.gsm8k.plain import plain as print_anew
    from dbtm.tasks.gsm8k.prepared import Source

    def source(about: dict[str, Any], problems: "Iterator[Example]", renumber: int) -> Source:
        programs: Iterator[Example | None] = (example if example.code else None for example in problems)
        examples = (example and print_anew(example) for example in programs) if plain else programs
        return Source(about, _with_copies(examples, renumber, seed) if renumber else examples)

    for path in files:
        yield source({"file": path.name, "sha256": sha256(path)}, data.read(path, "question", "code"), renumber)
    if hub is not None:
        yield source({"hub": hub}, data.hub(hub, "question", "code"), renumber)
    if synthetic:  # they have new numbers already, and a copy could be a held-out program
        yield source({"synthetic": synthetic, "seed": seed}, _synthetic(synthetic, seed), 0)


def _with_copies(examples: "Iterator[Example | None]", n: int, seed: int) -> "Iterator[Example | None]":
    """Each example, followed by its copies with other numbers."""
    from dbtm.tasks.gsm8k.renumber import copies

    for i, example in enumerate(examples):
        yield example
        if example is not None:
            yield from copies(example, n, (seed << 64) + i)


def _synthetic(n: int, seed: int) -> "Iterator[Example]":
    from dbtm.tasks.gsm8k.synthetic import problem

    return (problem((seed << 64) + i) for i in range(n))


def _train(sources: "Iterator[Source]", vocab: int, progress: Callable[[int], None]) -> "Tokenizer":
    """A tokenizer for the examples and for the synthetic problems that training generates."""
    from dbtm.tasks.gsm8k.layout import train_tokenizer

    def texts() -> Iterator[str]:
        n = 0
        for examples in (*(source.examples for source in sources), _synthetic(TRAIN_SYNTHETIC, 0)):
            for example in filter(None, examples):
                yield f"{example.question}\n{example.code}"
                n += 1
                if n % 1000 == 0:
                    progress(n)

    return train_tokenizer(texts(), vocab)
