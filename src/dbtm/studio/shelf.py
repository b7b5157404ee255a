"""The models of a studio: by name, loaded once at first use, in the worker thread."""

import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbtm.core.errors import UsageError, nearest

if TYPE_CHECKING:
    from dbtm.service.models import ModelCard, Sampler


class Shelf:
    """Names to checkpoints. A request names a model; paths in requests are never used."""

    def __init__(self, paths: dict[str, str], device: str = "auto"):
        self.paths, self.device = paths, device
        self.cards: dict[str, ModelCard] = {}
        self.loaded: dict[str, Sampler] = {}
        self.failed: dict[str, str] = {}
        self.lock = threading.Lock()

    def card(self, name: str) -> "ModelCard":
        """The description of a model, without reading its weights."""
        from dbtm.service.models import describe_model

        if name not in self.paths:
            raise UsageError(f"there is no model '{name[:80]}' here{nearest(name[:80], self.paths)}")
        with self.lock:
            if name not in self.cards:
                self.cards[name] = describe_model(name, self.paths[name])
            return self.cards[name]

    def describe(self) -> list[dict[str, Any]]:
        """All models for the page's list; an unreadable one has its error."""
        out = []
        for name in self.paths:
            try:
                out.append({**asdict(self.card(name)), "state": self._state(name), "error": self.failed.get(name)})
            except UsageError as error:
                out.append({"name": name, "room": "", "state": "failed", "error": str(error)})
        return out

    def _state(self, name: str) -> str:
        if name in self.failed:
            return "failed"
        return "ready" if name in self.loaded else "not loaded yet"

    def names(self, room: str) -> list[str]:
        return [card["name"] for card in self.describe() if card["room"] == room]

    def pick(self, name: str | None, room: str) -> str:
        """The model of a request: the named one, which must fit the room, or the room's first."""
        if name is None:
            fitting = self.names(room)
            if not fitting:
                raise UsageError(
                    f"there is no model for {room} here: start the studio with one (a run or a checkpoint)"
                )
            return fitting[0]
        card = self.card(name)
        if card.room != room:
            raise UsageError(f"the model '{name[:80]}' was trained on '{card.task}': it does not belong to {room}")
        return name

    def load(self, name: str) -> "Sampler":
        """The sampler of a model; called only from the worker thread."""
        if name not in self.loaded:
            from dbtm.service.models import load_model

            try:
                self.loaded[name] = load_model(self.paths[name], self.device)
            except UsageError as error:
                self.failed[name] = str(error)
                raise
            self.failed.pop(name, None)
        return self.loaded[name]


def name_models(checkpoints: list[str], packaged: list[str]) -> dict[str, str]:
    """Short unique names for checkpoints, of their last folders, before the packaged models."""
    out: dict[str, str] = {}
    for checkpoint in checkpoints:
        parts = Path(checkpoint).resolve().parts
        count = 2 if parts[-1].startswith("step-") and len(parts) > 2 else 1
        while (name := "/".join(parts[-count:])) in out or name in packaged:
            if count >= len(parts):
                break
            count += 1
        out[name] = checkpoint
    return out | {name: name for name in packaged}
