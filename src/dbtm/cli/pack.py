"""`dbtm pack CHECKPOINT --out DIR`: the averaged weights in 8 bits per weight, in files of at most 16 MiB."""

from pathlib import Path
from typing import Annotated

import typer

from dbtm.cli.console import say
from dbtm.cli.options import Checkpoint


def pack(
    checkpoint: Checkpoint,
    out: Annotated[Path, typer.Option(help="The new folder.")],
    bits: Annotated[int, typer.Option(help="Bits per weight of a matrix: 8.")] = 8,
) -> None:
    """Pack a checkpoint for shipping: it samples as before, and `train --init` starts from it."""
    from dbtm.service import packing

    done = packing.pack(checkpoint, out, bits)
    say(
        f"{done.folder}: {done.bytes / 1e6:.1f} MB of weights in {done.files} file{'s' * (done.files > 1)}, "
        f"{done.bytes_before / 1e6:.1f} MB before; relative error {done.error:.2%}"
    )
