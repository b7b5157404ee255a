"""The settings of a sampler that an evaluation runs through, and what its rows of results say of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from dbtm.core.errors import UsageError
from dbtm.sampling import Sampler

BUDGETS = (1, 2, 4, 8, 16)
"""Network evaluations of an evaluation that is not told others."""


def over_budgets(
    sampler: Sampler, budgets: Sequence[int] | None = None, options: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Options for every budget, `BUDGETS` by default. A sampler that has no budget to choose has one setting.

    What the sampler refuses is refused here, before any work.
    """
    if budgets is None:
        budgets = BUDGETS if sampler.has_budget else ()
    settings = [{**(options or {}), "nfe": nfe} for nfe in budgets] or [dict(options or {})]
    for each in settings:
        check(sampler, each)
    return settings


def check(sampler: Sampler, options: Mapping[str, Any]) -> None:
    """Refuse options that the sampler lacks, that are out of range, or that the network would not notice."""
    sampler.with_options(**options)
    if "sigma" in options and sampler.network.config.input_norm:
        raise UsageError(
            "this network normalises its input (model.input_norm): sigma, the scale of the noise, changes nothing, so "
            "leave it out"
        )


def described(sampler: Sampler, options: Mapping[str, Any]) -> dict[str, Any]:
    """A setting as a row of results holds it: all options that the samples depend on.

    Budget, threshold and scorer, where the sampler has them, stand there in any case, so that rows can be compared: the
    budget as it was asked for, the threshold as null where it has no part.
    """
    chosen = sampler.with_options(**options)
    columns = {name: getattr(chosen, name) for name in ("nfe", "kappa", "scorer") if hasattr(chosen, name)}
    if hasattr(chosen, "threshold"):
        columns["kappa"] = chosen.threshold
    asked = {"nfe": options["nfe"]} if "nfe" in options else {}
    return {**columns, **chosen.shown(), **asked}
