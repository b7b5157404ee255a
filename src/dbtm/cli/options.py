"""Options that several commands share, each declared once."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

Checkpoint = Annotated[
    str, typer.Argument(help="A checkpoint folder, a run (its newest checkpoint is used), or a packaged model.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Seed = Annotated[int, typer.Option(help="Same seed, same samples.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the numbers as JSON, with model, data and machine.")]
Html = Annotated[Path | None, typer.Option(help="Write a self-contained page that replays the rounds.")]
Batch = Annotated[int | None, typer.Option(help="Samples per batch (default: what fits).")]
Budgets = Annotated[
    str | None, typer.Option("--nfe", help="Budgets of network evaluations, such as 1,4,16 (default: 1,2,4,8,16).")
]

PANEL = "Sampler (defaults are the checkpoint's own)"


def _option(kind: Any, help: str, *names: str) -> Any:
    """An option that is None if left out."""
    return Annotated[kind | None, typer.Option(*names, help=help, rich_help_panel=PANEL)]


# The sampler options of all methods; a method refuses options that it lacks.
SAMPLER: dict[str, Any] = {
    "nfe": _option(int, "Network evaluations: the budget of refinement rounds."),
    "kappa": _option(float, "Commit tokens that score at least this (default: tuned for the budget)."),
    "scorer": _option(str, "Commit order: confidence, quality, spread or none."),
    "rounds": _option(str, "Scorer spread: commits per round, equal or planned (dbtm tune)."),
    "temperature": _option(float, "0 takes the most likely token."),
    "top_p": _option(float, "Draw from the most likely tokens that together reach this probability."),
    "order": _option(str, "mdlm: unmask at random, by confidence or by the probability of the drawn token."),
    "tail": _option(str, "mdlm, duo, s-flm: the last step draws a sample, or takes the argmax."),
    "remask": _option(str, "mdlm: mask tokens again (ReMDM): none, cap, rescale, confidence or loop."),
    "eta": _option(float, "mdlm: strength of remasking (default: the published one)."),
    "psi": _option(float, "duo: share of the posterior in a step; the rest renoises a clean sample."),
    "velocity": _option(str, "s-flm: move towards the exact mean, a drawn token (sample), or the top one."),
    "step": _option(str, "candi: noise schedule of a step, as released or by the equation (ode)."),
    "towards": _option(str, "candi: a step moves towards a sample or the mean."),
    "sigma": _option(float, "Scale of the prior noise."),
    "repetition_penalty": _option(float, "Penalty on tokens that already occur; 0 is off."),
    "fresh_noise": _option(bool, "Draw new noise after the first round, or keep it.", "--fresh-noise/--same-noise"),
    "commit": _option(bool, "Commit tokens, or hold distributions.", "--commit/--no-commit"),
    "rule": _option(str, "commit (the paper's), or revise: tokens may change until a check confirms the answer."),
    "check": _option(int, "Network evaluations for checking the answer, and for drawing another if the check fails."),
    "loops": _option(int, "Loops of the blocks per evaluation, for maps trained with several."),
    "sampler": _option(str, "refine, iterate (T^k) or integrate (the map's field)."),
    "horizon": _option(float, "integrate: end time of the integration."),
    "tolerance": _option(float, "iterate, --no-commit: stop when a round changes no probability by more than this."),
}


def takes_sampler_options(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the sampler options to a command, except `left_out`; it receives the given ones as `options`."""
    names = [name for name in SAMPLER if name not in left_out]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.name != "options"]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=SAMPLER[name])
            for name in names
        ]

        @wraps(command)
        def with_options(*arguments: Any, **given: Any) -> None:
            options = {name: given.pop(name) for name in names}
            command(*arguments, **given, options={n: v for n, v in options.items() if v is not None})

        with_options.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        with_options.__annotations__ = {p.name: p.annotation for p in (*own, *more)}
        return with_options

    return decorate
