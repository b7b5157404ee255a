"""`dbtm recipes`: the recipes, and the meaning of each setting."""

import json
from typing import Annotated, Any

import typer

from dbtm.cli.common import print_whole
from dbtm.cli.console import open_console, say


def recipes(
    name: Annotated[str | None, typer.Argument(help="Explain every setting of this recipe.")] = None,
    method: Annotated[str | None, typer.Option(help="Use this method instead of the recipe's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole configuration as JSON.")] = False,
) -> None:
    """List the recipes, or explain one: its settings, their defaults and meanings."""
    from dbtm.recipes import RECIPES, recipe

    if name is None:
        width = max(map(len, RECIPES))
        for key, entry in RECIPES.items():
            say(f"{key:{width}}  {entry.summary}")
        return
    config = recipe(name) if method is None else recipe(name).by(method)
    if as_json:
        from dbtm.config import dumps

        say(dumps(config), end="")
        return
    from rich.table import Table

    from dbtm.service.explaining import explain

    settings = explain(config)
    table = Table(box=None, pad_edge=False)
    for column in ("setting", "value", "default"):
        table.add_column(column, no_wrap=True)
    table.add_column("meaning", min_width=30)
    section = ""
    for setting in settings:
        here = setting.name.rpartition(".")[0]
        if here != section:
            table.add_row("", "", "", "") if section else None
            section = here
        value, default = _word(setting.value), _word(setting.default)
        style = "bold" if setting.changed else "dim"
        table.add_row(setting.name, value, default if setting.changed else "", setting.meaning, style=style)
    summary = RECIPES[name].summary
    console = open_console()
    console.print(f"{name}: {summary}", markup=False)
    console.print(f"task {config.task.name}, method {config.method_name}; the default is shown for changed settings\n")
    print_whole(table) if console.width < 100 else console.print(table)


def _word(value: Any) -> str:
    """A setting as it is written after --set section.key=."""
    return value if isinstance(value, str) and value else json.dumps(value)
