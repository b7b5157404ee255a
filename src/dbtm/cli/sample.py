"""`dbtm sample CHECKPOINT`: draw texts, programs or token sequences, and watch them being refined."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import files
from dbtm.cli.common import FreshNoise, check_kappa, in_range, progress_bar, refuse_sigma, show
from dbtm.cli.sample_kinds import Kind, Texts, Tokens, Words
from dbtm.core.errors import UsageError

if TYPE_CHECKING:
    from dbtm.sampling import Sampler, Trace
    from dbtm.viz.text import Sample


def sample(
    checkpoint: Annotated[
        str, typer.Argument(help="A checkpoint folder, a run, of which the newest is taken, or a model of the package.")
    ],
    n: Annotated[int, typer.Option(help="How many samples.")] = 4,
    nfe: Annotated[int | None, typer.Option(help="Network evaluations: the budget of refinement rounds.")] = None,
    kappa: Annotated[float | None, typer.Option(help="Commit what scores at least this.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 takes the most likely token.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Scale of the prior noise.")] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="0 is off.")] = None,
    scorer: Annotated[str | None, typer.Option(help="confidence, quality, spread or none.")] = None,
    fresh_noise: FreshNoise = None,
    seed: Annotated[int, typer.Option(help="Same seed, same samples.")] = 0,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="Text that samples begin with; spaces at its end are left to the model. For programs: the question "
            "(default: built-in ones)."
        ),
    ] = None,
    suffix: Annotated[str | None, typer.Option(help="Text that samples end with.")] = None,
    infill: Annotated[
        str | None,
        typer.Option(help="Text with holes, each marked by two or more underscores: 'The ____ of ____'."),
    ] = None,
    hole: Annotated[
        int | None,
        typer.Option(
            help="Tokens in every hole of --infill; what is left of the sequence continues the text. (Default: the "
            "holes share all that the text leaves.)"
        ),
    ] = None,
    given: Annotated[
        str | None, typer.Option(help="Tokens to keep, _ where to generate: '3 1 _ _ 7' (prompt, suffix, infilling).")
    ] = None,
    run: Annotated[bool, typer.Option("--run/--no-run", help="Programs: run them in the sandbox, or not.")] = True,
    trace: Annotated[bool, typer.Option("--trace", help="Show every round.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write tokens, texts and rounds as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page that replays the rounds.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Draw samples; see them refined round by round with --trace or in a page, --html."""
    in_range("--n", n, 1)
    if hole is not None and (infill is None or hole < 1):
        raise UsageError("--hole belongs to --infill" if infill is None else "--hole must be at least 1")
    check_kappa(kappa)
    files.check_all([("--json", json_file), ("--html", html)])
    from dbtm.loading import load

    sampler = load(checkpoint, device)
    refuse_sigma(sampler, sigma)
    asked = {
        "nfe": nfe,
        "kappa": kappa,
        "temperature": temperature,
        "sigma": sigma,
        "repetition_penalty": repetition_penalty,
        "scorer": scorer,
        "fresh_noise": fresh_noise,
    }
    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    settings = sampler.with_options(**options)
    kind = _kind(sampler, Words(prompt, suffix, infill, hole, given), n, seed, run)
    wanted = trace or json_file is not None or html is not None
    result = _draw(sampler, kind, seed=seed, trace=wanted, **options)
    samples = kind.samples(result)
    if json_file is not None:  # files come first: whoever reads the rest may stop reading
        _write_json(json_file, kind, result)
    if html is not None:
        told: dict[str, Any] = {"checkpoint": checkpoint, "budget": f"{settings.nfe} network evaluations"}
        told |= {} if settings.threshold is None else {"kappa": settings.threshold}
        rest = {"temperature": settings.temperature, "sigma": settings.sigma, "scorer": settings.scorer, "seed": seed}
        _write_page(html, kind, samples, told | rest)
    kind.show(result, samples, trace)
    if json_file is not None:
        print(json_file)
    if html is not None:
        print(f"page: {html}")


def _kind(sampler: "Sampler", words: Words, n: int, seed: int, run: bool) -> Kind:
    """What was asked for, by the kind of the model; every mistake in it is found before anything is sampled."""
    from dbtm.cli.sample_programs import Programs
    from dbtm.tasks.gsm8k.task import Gsm8k
    from dbtm.tasks.text.task import Text

    task = sampler.task
    assert task is not None
    if isinstance(task, Gsm8k):
        return Programs(task, words, n, seed, run)
    if not run:
        raise UsageError("--no-run is for models that write programs: leave it out")
    return Texts(task, words, n) if isinstance(task, Text) else Tokens(task, words, n)


def _draw(sampler: "Sampler", kind: Kind, **options: Any) -> "Trace":
    """The samples, in batches small enough for a progress bar to move."""
    from functools import partial

    from dbtm.evals.draw import fitting_batch

    fits = fitting_batch(sampler)
    sampler.batch = min(sampler.batch, fits if sampler.device.type == "cuda" else max(1, fits // 16))
    with progress_bar() as progress:
        bar = progress.add_task("sampling", total=len(kind.tokens_BL))
        told = partial(show, progress, bar)
        return sampler.sample(tokens=kind.tokens_BL, clean=kind.clean_BL, progress=told, **options)


def _write_json(path: Path, kind: Kind, result: "Trace") -> None:
    import json

    rounds = [
        {"tokens": r.tokens.tolist(), "committed": r.committed.tolist(), "score": r.score.tolist()}
        for r in result.rounds
    ]
    document = {
        "tokens": result.tokens.tolist(),
        "given": result.prompt.tolist(),
        **kind.document(result),
        "nfe": result.nfe.tolist(),
        "rounds": rounds,
    }
    files.write(path, json.dumps(document) + "\n")


def _write_page(path: Path, kind: Kind, samples: "list[Sample]", facts: dict[str, Any]) -> None:
    from dbtm.viz.text_page import text_page

    count = f"{len(samples)} {kind.noun}s" if len(samples) > 1 else f"A {kind.noun}"
    files.write(path, text_page(samples, {"title": f"{count}, refined", **facts}, code=kind.noun == "program"))
