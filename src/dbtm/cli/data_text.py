"""`dbtm data text`, `lm1b`, `owt`: tokenize text into the shards that the text recipes train on."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import common
from dbtm.cli.console import open_console, say
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_WORKERS

if TYPE_CHECKING:
    from rich.progress import Progress

    from dbtm.tasks.text.corpora import Corpus
    from dbtm.tasks.text.encode import Detokenizer
    from dbtm.tasks.text.prepare import Layout, Part

Open = Callable[[Callable[[int], None]], "list[Part]"]  # the documents from the start, given a progress callback

Out = Annotated[Path, typer.Option(help="Folder to write: shards, tokenizer.json, manifest.json.")]
Length = Annotated[int, typer.Option(help="Tokens per block.")]
Validation = Annotated[float, typer.Option(help="Share of documents held out for validation.")]
Seed = Annotated[int, typer.Option(help="Seed for choosing validation documents.")]
Eos = Annotated[str | None, typer.Option(help="End-of-text token (default: the tokenizer's usual one).")]
Dtype = Annotated[str, typer.Option(help="auto, uint16 or uint32.")]
Workers = Annotated[int, typer.Option(help="Processes; they do not change the result. 0: one per core.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite prepared text in --out.")]
Edges = Annotated[bool, typer.Option(help="Begin every block with BOS and end it with EOS, as the paper's samples do.")]
Local = Annotated[Path | None, typer.Option(help="Folder with a local copy (default: through Hugging Face datasets).")]
Name = Annotated[str, typer.Option(help="Name on the hub, a tokenizer.json, or train:8192 to train one.")]


def text(
    tokenizer: Name,
    length: Length,
    out: Out,
    files: Annotated[list[str] | None, typer.Argument(help="More input.", metavar="[FILE]...")] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", help="Files (.txt, .jsonl, .parquet, .tar, also .xz, .gz, .zst), folders, or - (stdin)."
        ),
    ] = None,
    field: Annotated[str | None, typer.Option(help="Key of the text in JSON lines (default: text).")] = None,
    documents: Annotated[str, typer.Option(help="What a document is in plain text: line, paragraph or file.")] = "line",
    validation: Validation = 0.01,
    seed: Seed = 0,
    edges: Edges = False,
    eos: Eos = None,
    dtype: Dtype = "auto",
    workers: Workers = 0,
    force: Force = False,
) -> None:
    """Tokenize text: documents are concatenated, each with an end-of-text token, and cut into full blocks."""
    named = [*(inputs or []), *(files or [])]
    if not named:
        raise UsageError("nothing to read: give files or folders, --input FILE..., or - for the standard input")
    from dbtm.tasks.text import sources
    from dbtm.tasks.text.prepare import Layout
    from dbtm.tasks.text.streams import called, read_once

    paths, passed_over = sources.find(named)
    once = next(filter(read_once, paths), None)
    if once is not None and tokenizer.startswith("train:"):
        raise UsageError(f"--tokenizer train: reads its input twice, {called(once)} can be read only once: give files")
    layout = Layout(length, edges, validation, seed, dtype)

    def open_all(tick: Callable[[int], None]) -> "list[Part]":
        return [(None, sources.pieces(path, tick, field, documents)) for path in paths]

    _run(open_all, paths, passed_over, tokenizer, out, layout, eos, None, workers, force)


def lm1b(
    out: Out,
    local: Local = None,
    tokenizer: Name = "bert-base-uncased",
    length: Length = 128,
    edges: Edges = True,
    dtype: Dtype = "auto",
    workers: Workers = 0,
    force: Force = False,
) -> None:
    """LM1B as in the paper: its held-out part for validation, punctuation back in place, bert-base-uncased, L = 128."""
    from dbtm.tasks.text.corpora import LM1B
    from dbtm.tasks.text.prepare import Layout

    _corpus(LM1B, local, tokenizer, out, Layout(length, edges, 0.0, 0, dtype), workers, force)


def owt(
    context: typer.Context,
    out: Out,
    local: Local = None,
    tokenizer: Name = "gpt2",
    length: Length = 1024,
    edges: Edges = True,
    validation: Annotated[float, typer.Option(help="Share of a local copy held out for validation.")] = 0.0125,
    seed: Seed = 0,
    dtype: Dtype = "auto",
    workers: Workers = 0,
    force: Force = False,
) -> None:
    """OpenWebText as in the paper: the last 100,000 documents for validation, GPT-2's BPE, L = 1024."""
    if local is None:
        common.refuse(context, ("validation", "seed"), "the hub's copy has a validation split of its own")
    from dbtm.tasks.text.corpora import OWT
    from dbtm.tasks.text.prepare import Layout

    _corpus(
        OWT, local, tokenizer, out, Layout(length, edges, validation if local else 0.0, seed, dtype), workers, force
    )


def _corpus(
    corpus: "Corpus", local: Path | None, tokenizer: str, out: Path, layout: "Layout", workers: int, force: bool
) -> None:
    if local is not None and not local.is_dir():
        raise UsageError(f"--local {local}: no such folder")
    files, passed_over = corpus.files(str(local)) if local is not None else ([], [])

    def open_all(tick: Callable[[int], None]) -> "list[Part]":
        return corpus.from_files(files, tick) if files else corpus.from_hub()

    names = [path for _, path in files] or [corpus.hub]
    _run(open_all, names, passed_over, tokenizer, out, layout, None, corpus.detokenize, workers, force)


def _run(
    open_all: Open,
    names: list[str],
    passed_over: list[str],
    tokenizer: str,
    out: Path,
    layout: "Layout",
    eos: str | None,
    detokenize: "Detokenizer | None",
    workers: int,
    force: bool,
) -> None:
    """Find or train the tokenizer, prepare the text, and print a summary."""
    from dbtm.tasks.folder import check_out
    from dbtm.tasks.text import tokenizer as tokenizers
    from dbtm.tasks.text.prepare import prepare

    if not 0 <= workers <= MOST_WORKERS:
        raise UsageError(f"--workers {workers} must be at most {MOST_WORKERS} processes, or 0 for one per core")
    size = tokenizers.asked_size(tokenizer)
    check_out(out, force)
    _tell_passed_over(passed_over)
    with _progress() as progress:
        total = sum(os.path.getsize(name) for name in names if os.path.isfile(name)) or None

        def told(what: str) -> "list[Part]":
            bar = progress.add_task(what, total=total)
            return open_all(lambda n: progress.advance(bar, n))

        if size is None:
            words = tokenizers.load(tokenizer)
        else:
            words = tokenizers.train(_training(told("training the tokenizer"), layout, detokenize), size)
        about = {
            "source": [Path(name).name if Path(name).exists() else name for name in names],
            "passed_over": [Path(name).name for name in passed_over],
            "tokenizer_name": tokenizer,
        }
        manifest = prepare(
            told("tokenizing"),
            words,
            out,
            layout,
            eos=eos,
            detokenize=detokenize,
            workers=workers or os.cpu_count() or 1,
            about=about,
        )
    _report(out, manifest, size)


def _tell_passed_over(files: list[str]) -> None:
    if not files:
        return
    names = ", ".join(Path(path).name for path in files[:3]) + (f" and {len(files) - 3} more" if files[3:] else "")
    say(f"skipped {len(files)} files without a text extension: {names}; to read one, give its path", error=True)


def _training(parts: "list[Part]", layout: "Layout", detokenize: "Detokenizer | None") -> Iterable[str]:
    """Only the training documents: the tokenizer does not learn from validation text either."""
    from dbtm.tasks.text.prepare import assigned

    texts = (item.text for item in assigned(parts, layout) if item.split == "train")
    return map(detokenize, texts) if detokenize else texts


def _report(out: Path, manifest: dict[str, Any], asked: int | None) -> None:
    train, held_out, vocab = manifest["train"], manifest["validation"], manifest["vocab"]
    fewer = f" ({asked:,} requested, but there is too little text)" if asked and vocab < asked else ""
    say(
        f"{out}: {train['tokens']:,} tokens in {train['blocks']:,} blocks of {manifest['length']} for training, "
        f"{held_out['blocks']:,} for validation; vocabulary {vocab:,}{fewer}, {manifest['dtype']}"
    )


def _progress() -> "Progress":
    """A progress bar on a terminal's stderr, in bytes of the input."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = open_console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
