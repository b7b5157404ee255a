"""A page from its template: one HTML file, no network, no fonts or scripts from elsewhere."""

import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any


def fill_template(template: str, title: str, meta: Mapping[str, object], data: Any, **fields: str) -> str:
    """`template` with its @@FIELDS@@ filled in: TITLE, FACTS (the rest of `meta`, in order), DATA, and others."""
    facts = "".join(
        f"<div><dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in meta.items()
        if name != "title"
    )
    # "<" is written as its code, so that nothing in the data can end the script element it stands in
    script = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    fields |= {"TITLE": escape(str(meta.get("title", title))), "FACTS": facts, "DATA": script}
    # split at the fields and join once, so that text such as @@DATA@@ inside a field stays what it is
    parts = files("dbtm.viz").joinpath(template).read_text(encoding="utf-8").split("@@")
    return "".join(fields[part] if index % 2 else part for index, part in enumerate(parts))
