"""A page from its template: one HTML file with the viewer in it, no network, no external fonts or scripts."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from typing import Any

from dbtm.core.terminal import visible

WEB = files("dbtm.viz") / "web"
STYLES = ("base.css", "viewer.css")
REPLAY = ("dom.js", "player.js", "grid.js", "sheet.js", "viewer.js", "replay.js")
_IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class)\b)", re.MULTILINE)


def read_asset(name: str) -> str:
    """A style sheet or a module of the viewer."""
    return (WEB / name).read_text(encoding="utf-8")


def join_modules(names: Iterable[str]) -> str:
    """Modules as one script, each after those that it imports: a page opened from disk cannot import modules.

    Their top-level names must differ (tests/viz/test_template.py).
    """
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", read_asset(name))) for name in names)


def digest(text: str) -> str:
    """The content security policy's hash of an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def as_script_data(data: Any) -> str:
    """JSON with "<" escaped, so that it cannot end its script element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def fill_template(title: str, meta: Mapping[str, object], data: Any, view: str) -> str:
    """The page that replays `data` in the element `view`: its heading, and the rest of `meta` as facts, in order."""
    facts = "".join(
        f"<div><dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in meta.items()
        if name != "title"
    )
    style, script = "\n".join(map(read_asset, STYLES)), join_modules(REPLAY)
    fields = {
        "TITLE": escape(str(meta.get("title", title))),
        "FACTS": facts,
        "DATA": as_script_data(data),
        "VIEW": view,
        "STYLE": style,
        "SCRIPT": script,
        "STYLE_SHA": digest(style),
        "SCRIPT_SHA": digest(script),
    }
    # split at the fields and join once, so that text such as @@DATA@@ inside a field is not replaced
    parts = read_asset("replay.html").split("@@")
    return visible("".join(fields[part] if index % 2 else part for index, part in enumerate(parts)))
