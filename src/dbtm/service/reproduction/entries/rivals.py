"""The paper's rivals as methods of ours: which exist here, and which are missing."""

from typing import NamedTuple

from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS
from dbtm.service.reproduction.steps.training import Train


class Rival(NamedTuple):
    """A method of the paper's tables by our names."""

    method: str
    teacher: str | None = None
    """The method that its teacher is trained by."""


RIVALS = {
    "AR": Rival("ar"),
    "MDLM": Rival("mdlm"),
    "Duo": Rival("duo"),
    "CANDI": Rival("candi"),
    "FLM": Rival("flm"),
    "S-FLM": Rival("sflm"),
    "MDLM + SDTT": Rival("sdtt", "mdlm"),
    "MDLM + Di4C": Rival("di4c", "mdlm"),
    "Duo + DCD": Rival("dcd", "duo"),
    "FMLM": Rival("fmlm", "flm"),
    "FMLM+": Rival("fmlm-plus", "flm"),
    "CFM": Rival("cfm", "flm"),
    "DFM (PSD)": Rival("dfm", "flm"),
}


def trained(names: tuple[str, ...], run: Train, method_changes: tuple[str, ...]) -> tuple[dict[str, Train], list[str]]:
    """Runs of the rivals that exist here, on the task and network of a run of ours, and the names of the others.

    `method_changes` are settings of the run that belong to our method alone: a rival has its own defaults.
    """
    changes = tuple(change for change in run.changes if change not in method_changes)
    found, missing = {}, []
    for name in names:
        rival = RIVALS.get(name)
        if rival is None or not {rival.method, rival.teacher or rival.method} <= set(METHODS.names()):
            missing.append(name)
            continue
        kwargs = {"recipe": run.recipe, "changes": changes, "data": run.data, "seconds": run.seconds}
        teacher = None if rival.teacher is None else Train(method=rival.teacher, **kwargs)  # type: ignore[arg-type]
        step = Train(method=rival.method, init=teacher, **kwargs)  # type: ignore[arg-type]
        try:
            step.configuration()
        except UsageError:
            missing.append(name)
        else:
            found[name] = step
    return found, missing


def missing_note(missing: list[str]) -> tuple[str, ...]:
    return (f"not implemented here, so the paper's number stands alone: {', '.join(missing)}",) if missing else ()
