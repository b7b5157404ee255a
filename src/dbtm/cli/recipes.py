"""`dbtm recipes`: what can be trained."""

from typing import Annotated

import typer


def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this recipe's whole configuration.")] = None,
) -> None:
    """List the recipes, or print one as JSON."""
    from dbtm.recipes import RECIPES, recipe

    if name is not None:
        from dbtm.config import dumps

        print(dumps(recipe(name)), end="")
        return
    width = max(map(len, RECIPES))
    for key, entry in RECIPES.items():
        print(f"{key:{width}}  {entry.summary}")
