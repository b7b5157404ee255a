"""Access control of the studio: checks before every route, and headers on every answer.

A page of another site can make a browser send requests to this machine. So requests must name this machine (against
DNS rebinding), come from a page of the studio itself (against cross-site requests), and have the token if one is set.
"""

import hmac
import ipaddress
import secrets
import time
from collections import deque
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dbtm.studio.answers import Json

COOKIE = "dbtm-studio"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
OPEN = ("/healthz", "/api/login")
"""Answered without a token, as are pages and styles, which have no private data."""
TRIES, WINDOW = 10, 60.0  # wrong tokens per number of seconds


class Door:
    """The token, and the sessions of logged-in browsers."""

    def __init__(self, token: str | None):
        self.token = token
        self.session = secrets.token_urlsafe(32)
        self.wrong: deque[float] = deque(maxlen=TRIES)

    def closed(self) -> bool:
        """Whether there were too many wrong tokens recently to check another."""
        return len(self.wrong) == TRIES and time.monotonic() - self.wrong[0] < WINDOW

    def fits(self, token: str) -> bool:
        """Whether this is the token, compared in constant time."""
        if self.token is None:
            return True
        if hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self.token.encode()):
            return True
        self.wrong.append(time.monotonic())
        return False

    def knows(self, headers: Headers) -> bool:
        """Whether a request has the token, or the cookie of a logged-in browser."""
        if self.token is None:
            return True
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        if cookie and hmac.compare_digest(cookie.encode(), self.session.encode()):
            return True
        kind, _, token = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and not self.closed() and self.fits(token.strip())


class Guard:
    """Middleware: refuses unauthorised requests, and adds the headers."""

    def __init__(self, app: ASGIApp, door: Door, names: frozenset[str]):
        self.app, self.door, self.names = app, door, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        refused = self.refusal(scope)
        if refused is not None:
            await refused(scope, receive, answer)
            return
        await self.app(scope, receive, answer)

    def refusal(self, scope: Scope) -> Json | None:
        """The refusal of a request, or None."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not knows_host(host, self.names):
            return _refuse(403, "the request names another machine: use the address that the studio printed")
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        api = scope["path"].startswith("/api/")
        if origin is not None and _netloc(origin) != host.lower():
            return _refuse(403, "the request comes from a page of another site")
        if api and site not in ("same-origin", "none"):
            return _refuse(403, "the request comes from a page of another site")
        if api and scope["path"] not in OPEN and not self.door.knows(headers):
            return _refuse(401, "this studio needs its token: log in, or send Authorization: Bearer TOKEN")
        return None


def _netloc(origin: str) -> str | None:
    """Host and port of an origin; None if it is not an address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def knows_host(host: str, names: frozenset[str]) -> bool:
    """Whether a Host header names this machine: a numeric address, localhost, or one of `names`.

    A name under someone else's control can be pointed here; a numeric address cannot be rebound.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        urlsplit(f"//{host}").port  # noqa: B018 - a port that is no number is refused
    except ValueError:
        return False
    if name in names or name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _refuse(status: int, sentence: str) -> Json:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return Json({"error": sentence}, status, headers)
