"""The paper's rivals as methods of ours: which exist here, and which are missing."""

from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS
from dbtm.service.reproduction.steps.training import Train

RIVALS = {
    "AR": "ar",
    "MDLM": "mdlm",
    "Duo": "duo",
    "CANDI": "candi",
    "FLM": "flm",
    "S-FLM": "s-flm",
    "MDLM + SDTT": "sdtt",
    "MDLM + Di4C": "di4c",
    "Duo + DCD": "dcd",
    "FMLM": "fmlm",
    "FMLM+": "fmlm-plus",
    "CFM": "cfm",
    "DFM (PSD)": "dfm",
}
"""Names of the paper's tables, and our methods of that kind."""


def trained(names: tuple[str, ...], run: Train, method_changes: tuple[str, ...]) -> tuple[dict[str, Train], list[str]]:
    """Runs of the rivals that exist here, on the task and network of a run of ours, and the names of the others.

    `method_changes` are settings of the run that belong to our method alone: a rival has its own defaults. A method
    that needs a teacher starts from a run of the method that trains one.
    """
    changes = tuple(change for change in run.changes if change not in method_changes)
    found, missing = {}, []
    for name in names:
        step = _run(RIVALS.get(name, ""), run, changes)
        if step is None:
            missing.append(name)
        else:
            found[name] = step
    return found, missing


def _run(method: str, like: Train, changes: tuple[str, ...]) -> Train | None:
    """A method's run, or None where the method is not here or does not take the settings."""
    if method not in METHODS.names():
        return None
    cls, teacher = METHODS.get(method), None
    if "teacher" in cls.needs:
        teacher = _run(cls.teacher, like, changes)
        if teacher is None:
            return None
    step = Train(recipe=like.recipe, changes=changes, method=method, init=teacher, data=like.data, seconds=like.seconds)
    try:
        step.configuration()
    except UsageError:
        return None
    return step


def missing_note(missing: list[str]) -> tuple[str, ...]:
    return (f"not implemented here, so the paper's number stands alone: {', '.join(missing)}",) if missing else ()
