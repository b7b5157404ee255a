"""`dbtm eval nll`: the likelihood of held-out examples, or an upper bound on its negative logarithm, per token."""

from typing import Annotated

import typer

from dbtm.cli import common, files, tables
from dbtm.cli.options import Batch, Checkpoint, Device, Json
from dbtm.core.errors import UsageError


def nll(
    checkpoint: Checkpoint,
    n: Annotated[int, typer.Option("--n", help="Largest number of held-out examples.")] = 1000,
    data: tables.Data = None,
    seed: Annotated[int, typer.Option(help="Seed of the random times at which a bound is estimated.")] = 0,
    json_file: Json = None,
    batch: Batch = None,
    device: Device = "auto",
) -> None:
    """Nats, bits and perplexity per token of held-out examples, with intervals.

    The exact likelihood (ar) or an upper bound on its negative logarithm (mdlm); given tokens do not count.
    """
    common.in_range("--n", n, 1)
    common.in_range("--batch", batch, 1)
    files.check("--json", json_file)

    from dbtm.service.likelihood import LikelihoodRequest, NoTextError, evaluate_likelihood

    with common.shown_progress() as progress:
        request = LikelihoodRequest(checkpoint=checkpoint, n=n, data=data, seed=seed, batch=batch, device=device)
        try:
            result = evaluate_likelihood(request, progress)
        except NoTextError as error:
            raise UsageError(f"{error}; give its path with --data") from None
    tables.write_json(json_file, result.document())
    tables.print_likelihood(result.score)
    tables.print_paths(json_file)
