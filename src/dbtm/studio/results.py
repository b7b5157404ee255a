"""Recent results under unguessable names, so that a page can save them as files."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable

MOST = 64


class Results:
    """Names to functions that make a page; the oldest are dropped."""

    def __init__(self, most: int = MOST):
        self.most = most
        self.kept: OrderedDict[str, Callable[[], str]] = OrderedDict()
        self.lock = threading.Lock()

    def keep(self, page: Callable[[], str]) -> str:
        """A name for a result that `page` turns into HTML."""
        name = secrets.token_urlsafe(16)
        with self.lock:
            self.kept[name] = page
            while len(self.kept) > self.most:
                self.kept.popitem(last=False)
        return name

    def page(self, name: str) -> str | None:
        """The page of a result, or None if it is gone."""
        with self.lock:
            make = self.kept.get(name)
        return None if make is None else make()
