"""Judges of text: causal language models that say how unlikely they find what a map generates."""

from pathlib import Path
from typing import TYPE_CHECKING

from dbtm.core.errors import UsageError

if TYPE_CHECKING:
    from dbtm.evals.judges.base import Judge
    from dbtm.train.team import Team


def load_judge(name: str, device: str = "auto") -> "Judge":
    """`smollm2`, a GGUF file, or a causal language model of transformers by its name or folder. Where several processes
    share an evaluation, all of them load it.
    """
    from dbtm.train.team import current

    if (team := current()) is not None:
        team.everywhere(_hold, name, device)
        judge: Judge = team.held["judge"]
        return judge
    judge = _load(name, device)
    judge.source = (name, device)
    return judge


def _hold(team: "Team", name: str, device: str) -> None:
    team.held["judge"] = load_judge(name, device)


def _load(name: str, device: str) -> "Judge":
    from dbtm.core.device import pick_device

    target = pick_device(device)
    if name == "smollm2":
        from dbtm.evals.judges import smollm2
        from dbtm.evals.judges.gguf import GGUFJudge, require_package

        require_package()  # before 98 MB are fetched for it
        return GGUFJudge(smollm2.weights(), target, name="smollm2")
    if name.endswith(".gguf"):
        from dbtm.evals.judges.gguf import GGUFJudge

        if not Path(name).is_file():
            raise UsageError(f"there is no file {name} to judge with")
        return GGUFJudge(Path(name), target)
    from dbtm.evals.judges.huggingface import HuggingFaceJudge

    return HuggingFaceJudge(name, target)
