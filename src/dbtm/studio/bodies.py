"""Request bodies: small JSON objects, parsed strictly into frozen dataclasses, within the studio's limits."""

import asyncio
import json
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from starlette.requests import Request

from dbtm.core.errors import UsageError
from dbtm.core.settings import read

MOST_BYTES = 64 << 10
SLOWEST = 10.0  # seconds for a body to arrive
MOST_NFE = 64
MOST_TEXT = 20_000  # characters
Body = TypeVar("Body")


class Refused(UsageError):
    """A request that is refused with its own status."""

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class ModelBody:
    """Common fields of requests to a model. Missing or null fields use the checkpoint's values."""

    model: str | None = None
    seed: int = 0
    nfe: int | None = None
    kappa: float | None = None
    scorer: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    order: str | None = None

    def __post_init__(self):
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"seed {self.seed}: give a whole number from 0 to 2^63 - 1")
        if self.nfe is not None and not 1 <= self.nfe <= MOST_NFE:
            raise UsageError(f"nfe {self.nfe}: the studio allows 1 to {MOST_NFE} network evaluations")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str) and len(value) > MOST_TEXT:
                raise UsageError(f"{field.name} has {len(value)} characters: the studio allows {MOST_TEXT}")

    def options(self) -> dict[str, Any]:
        """The given sampler options."""
        names = [field.name for field in fields(ModelBody) if field.name not in ("model", "seed")]
        return {name: value for name in names if (value := getattr(self, name)) is not None}


async def read_body(request: Request, kind: type[Body]) -> Body:
    """Parse the body of a request into a dataclass, or say what is wrong with it."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "the body must be JSON: send Content-Type: application/json")
    try:
        data = await asyncio.wait_for(_bytes(request), SLOWEST)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {SLOWEST:g} s") from None
    try:
        values = json.loads(data or b"{}")
    except (ValueError, RecursionError):  # also a number of thousands of digits
        raise UsageError("the body is not JSON") from None
    if not isinstance(values, dict):
        raise UsageError("the body must be a JSON object")
    try:
        return read(kind, values)
    except TypeError as error:
        raise UsageError(str(error)) from None


async def _bytes(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BYTES:
            raise Refused(413, f"the body is larger than {MOST_BYTES >> 10} KiB")
    return bytes(data)
