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
    "MDLM + SDTT": "mdlm-sdtt",
    "MDLM + Di4C": "mdlm-di4c",
    "Duo + DCD": "duo-dcd",
    "Duo + Di4C": "duo-di4c",
    "FMLM": "fmlm",
    "FMLM+": "fmlm-plus",
    "CFM": "cfm",
    "DFM (PSD)": "dfm",
    "DFM (ESD)": "dfm-esd",
}
"""Names of the paper's tables, and our methods of that kind."""


def trained(
    names: tuple[str, ...], run: Train, method_changes: tuple[str, ...], distilled: int
) -> tuple[dict[str, Train], list[str]]:
    """Runs of the rivals that exist here, on the task and network of a run of ours, and the names of the others.

    `method_changes` are settings of the run that belong to our method alone: a rival has its own defaults. A method
    that needs a teacher starts from a run of the method that trains one, and makes `distilled` steps.
    """
    changes = tuple(change for change in run.changes if change not in method_changes)
    found, missing = {}, []
    for name in names:
        step = _run(RIVALS.get(name, ""), run, changes, distilled)
        if step is None:
            missing.append(name)
        else:
            found[name] = step
    return found, missing


def _run(method: str, like: Train, changes: tuple[str, ...], distilled: int) -> Train | None:
    """A method's run, or None where the method is not here or does not take the settings."""
    if method not in METHODS.names():
        return None
    cls, teacher, own = METHODS.get(method), None, changes
    if "teacher" in cls.needs:
        teacher = _run(cls.teacher, like, changes, distilled)
        if teacher is None:
            return None
        own = (*own, f"train.steps={distilled}", f"optim.warmup={distilled // 10}", "train.milestones=[]")
    if (copies := cls.Config().copies) > 1:
        batch = next(int(change.partition("=")[2]) for change in changes if change.startswith("train.batch="))
        own = (*own, f"train.batch={max(1, batch // copies)}")
    seconds = like.seconds if teacher is None else like.seconds / 4
    step = Train(recipe=like.recipe, changes=own, method=method, init=teacher, data=like.data, seconds=seconds)
    try:
        step.configuration()
    except UsageError:
        return None
    return step


def missing_note(missing: list[str]) -> tuple[str, ...]:
    return (f"not implemented here, the paper's number only: {', '.join(missing)}",) if missing else ()
