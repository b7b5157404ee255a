"""Answers as JSON. They quote visitors and files, whose text may not be valid UTF-8."""

import json
from typing import Any

from starlette.responses import JSONResponse


class Json(JSONResponse):
    """JSON in ASCII: half of a surrogate pair is kept."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
