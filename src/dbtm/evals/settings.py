"""The sampler settings of an evaluation, and their description in its rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from dbtm.core.errors import UsageError
from dbtm.sampling import Sampler

BUDGETS = (1, 2, 4, 8, 16)
"""Default network evaluations of an evaluation."""


def over_budgets(
    sampler: Sampler, budgets: Sequence[int] | None = None, options: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Options per budget, `BUDGETS` by default. A sampler without a budget has one setting.

    Options that the sampler refuses are refused here, before any work.
    """
    if budgets is None:
        budgets = BUDGETS if sampler.has_budget else ()
    settings = [{**(options or {}), "nfe": nfe} for nfe in budgets] or [dict(options or {})]
    for each in settings:
        check(sampler, each)
    return settings


def check(sampler: Sampler, options: Mapping[str, Any]) -> None:
    """Refuse options that the sampler lacks, that are out of range, or that have no effect on the network."""
    sampler.with_options(**options)
    if "sigma" in options and sampler.network.config.input_norm:
        raise UsageError(
            "this network normalises its input (model.input_norm), so sigma, the scale of the noise, changes nothing: "
            "leave it out"
        )


def described(sampler: Sampler, options: Mapping[str, Any]) -> dict[str, Any]:
    """A setting for a row of results: all options that the samples depend on.

    Budget, threshold and scorer are always included if the sampler has them, so that rows can be compared: the
    requested budget, and null for an unused threshold.
    """
    chosen = sampler.with_options(**options)
    columns = {name: getattr(chosen, name) for name in ("nfe", "kappa", "scorer") if hasattr(chosen, name)}
    if hasattr(chosen, "threshold"):
        columns["kappa"] = chosen.threshold
    asked = {"nfe": options["nfe"]} if "nfe" in options else {}
    return {**columns, **chosen.shown(), **asked}
