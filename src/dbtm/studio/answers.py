"""Answers as JSON. What visitors and files say is quoted in them, and need not be text that UTF-8 can hold."""

import json
from typing import Any

from starlette.responses import JSONResponse


class Json(JSONResponse):
    """JSON in ASCII: half of a surrogate pair stays what it is."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
