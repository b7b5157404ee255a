"""A Firefox that is on the path, driven by WebDriver BiDi: what it shows, what it complains about, what it asks for.

Playwright drives its own build of Firefox only. A released one speaks BiDi by itself: JSON over a WebSocket.
"""

import json
import re
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.processes import PATIENCE

NAMES = ("firefox-esr", "firefox")
MISSING = "no Firefox is on the path (apt-get install firefox-esr): the studio was not tested in it"
QUIET = {  # no requests of its own, no first-run pages
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,",
    "toolkit.telemetry.enabled": False,
}


def find_firefox() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Firefox:
    """One tab of a browser of its own, with a profile in `home`. Arguments of commands are named as BiDi names them."""

    def __init__(self, home: Path, origin: str, settings: dict[str, Any] | None = None):
        from websockets.sync.client import connect

        lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in {**QUIET, **(settings or {})}.items()]
        (home / "user.js").write_text("\n".join(lines))
        words = ["--headless", "--no-remote", "--profile", str(home), "--remote-debugging-port", "0", "about:blank"]
        binary = find_firefox()
        assert binary is not None
        self.process = subprocess.Popen([binary, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        found = None
        while found is None and (line := self.process.stderr.readline()):
            found = re.search(r"WebDriver BiDi listening on (ws://\S+)", line)
        assert found is not None, "Firefox did not start"
        self.opened = ExitStack()
        self.socket = self.opened.enter_context(connect(f"{found[1]}/session", max_size=None, open_timeout=PATIENCE))
        self.origin, self.number = origin, 0
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.ask("session.new", capabilities={})
        self.tab = self.ask("browsingContext.getTree")["contexts"][0]["context"]
        self.ask("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"], contexts=[self.tab])

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a command; what the page does meanwhile is noted."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            told = json.loads(self.socket.recv(timeout=PATIENCE))
            if told.get("id") == self.number:
                assert told["type"] == "success", told
                return told["result"]
            self._note(told)

    def _note(self, told: dict[str, Any]) -> None:
        if told.get("method") == "log.entryAdded" and told["params"]["level"] == "error":
            self.complaints.append(str(told["params"]["text"]))
        if told.get("method") == "network.beforeRequestSent":
            url = told["params"]["request"]["url"]
            if not url.startswith((self.origin, "blob:", "data:", "about:")):
                self.elsewhere.append(url)

    # -- what a visitor does -------------------------------------------------------------------------------------------

    def size(self, width: int, height: int) -> None:
        self.ask("browsingContext.setViewport", context=self.tab, viewport={"width": width, "height": height})

    def open(self, room: str) -> None:
        """A room from the address bar: a new page, not a step from the last one."""
        for url in ("about:blank", f"{self.origin}/#/{room}"):
            self.ask("browsingContext.navigate", context=self.tab, url=url, wait="complete")
        self.wait("document.querySelector('#room h1')")

    def get(self, expression: str) -> Any:
        """The value of an expression in the page, by way of JSON."""
        told = self.ask(
            "script.evaluate", expression=f"JSON.stringify({expression})", target={"context": self.tab},
            awaitPromise=True,
        )  # fmt: skip
        assert told["type"] == "success", told["exceptionDetails"]["text"]
        return json.loads(told["result"].get("value", "null"))

    def wait(self, condition: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.get(f"Boolean({condition})"):
            assert time.monotonic() < deadline, condition
            time.sleep(0.05)

    def click(self, element: str) -> None:
        """A click of the mouse in the middle of an element, given as an expression."""
        place = f"(e => (e.scrollIntoView({{ block: 'center' }}), e.getBoundingClientRect()))({element})"
        box = self.get(f"(b => [b.x + b.width / 2, b.y + b.height / 2].map(Math.round))({place})")
        moves = [{"type": "pointerMove", "x": box[0], "y": box[1]}, {"type": "pointerDown", "button": 0},
                 {"type": "pointerUp", "button": 0}]  # fmt: skip
        self.ask("input.performActions", context=self.tab, actions=[{"type": "pointer", "id": "m", "actions": moves}])

    def press(self, words: str) -> None:
        """A click on the button that is called so."""
        self.click(f"[...document.querySelectorAll('button')].find(b => b.textContent === {json.dumps(words)})")

    def type(self, text: str) -> None:
        keys = [{"type": kind, "value": letter} for letter in text for kind in ("keyDown", "keyUp")]
        self.ask("input.performActions", context=self.tab, actions=[{"type": "key", "id": "k", "actions": keys}])

    def close(self) -> None:
        self.opened.close()
        self.process.terminate()
        self.process.wait(PATIENCE)
