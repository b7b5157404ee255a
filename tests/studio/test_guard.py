"""Strangers stay outside: names of other machines, pages of other sites, requests without the token."""

import pytest

from dbtm.studio.guard import HEADERS, Door, knows_host
from dbtm.studio.shelf import Shelf
from dbtm.studio.state import Studio
from tests.studio.client import Client, running

TOKEN = "correct horse battery"
NAMES = frozenset({"lab.example"})


@pytest.mark.parametrize(
    "host", ["127.0.0.1:80", "localhost", "localhost:8642", "[::1]:80", "10.0.0.7", "lab.example:1"]
)
def test_this_machine_is_known(host):
    assert knows_host(host, NAMES)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example@127.0.0.1x", "lab.example.",
     "127.0.0.1:x", "[::1", "127.1", "0x7f.1", "localhost\t.evil"],
)  # fmt: skip
def test_other_names_are_not(host):
    assert not knows_host(host, NAMES)


def test_a_rebound_name_gets_nothing(client):
    for path in ("/", "/static/app.js", "/api/models", "/healthz"):
        assert client.ask(path, Host="evil.example").status == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost.evil"])
def test_a_page_of_another_site_cannot_post(client, origin):
    answer = client.ask("/api/sudoku/puzzle", {}, Origin=origin)
    assert answer.status == 403
    assert "another site" in answer.json["error"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_nor_can_it_embed_what_the_studio_answers(client, site):
    assert client.ask("/api/models", Sec_Fetch_Site=site).status == 403


def test_the_studios_own_page_can(client):
    own = {"Origin": f"http://{client.host}", "Sec-Fetch-Site": "same-origin"}
    assert client.ask("/api/models", **own).status == 200


def test_a_form_cannot_post(client):
    """Forms of other sites need no permission of the browser, but cannot send JSON."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert client.ask("/api/sudoku/puzzle", b'{"clues": 30}', **{"Content-Type": kind}).status == 415


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/healthz", "/api/models", "/nowhere", "/api/runs/one?name=x"])
def test_every_answer_has_the_headers(client, path):
    headers = client.ask(path).headers
    for name, value in HEADERS.items():
        assert headers[name.lower()] == value
    assert headers["cache-control"] in ("no-store", "no-cache")
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere():
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "*" not in policy
    assert "http" not in policy


# -- the token ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def locked():
    with running(Studio(Shelf({}, "cpu"), door=Door(TOKEN))) as client:
        yield client


def test_without_the_token_there_is_the_page_and_nothing_else(locked):
    assert locked.ask("/").status == 200
    assert locked.ask("/healthz").status == 200
    for path in ("/api/models", "/api/runs", "/api/results/x", "/api/nothing"):
        answer = locked.ask(path)
        assert answer.status == 401
        assert TOKEN.encode() not in answer.body


def test_the_token_is_for_headers_not_for_addresses(locked):
    assert locked.ask(f"/api/models?token={TOKEN.replace(' ', '%20')}").status == 401
    assert locked.ask("/api/models", Authorization=f"Bearer {TOKEN}").status == 200
    assert locked.ask("/api/models", Authorization=f"Basic {TOKEN}").status == 401
    assert locked.ask("/api/models", Authorization=f"Bearer {TOKEN}x").status == 401


def test_a_browser_logs_in_for_a_cookie_that_is_not_the_token(locked):
    assert locked.ask("/api/login", {"token": "wrong"}).status == 401
    answer = locked.ask("/api/login", {"token": TOKEN})
    cookie = answer.headers["set-cookie"]
    assert answer.status == 200
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    inside = Client(locked.port, locked.studio, {"Cookie": cookie.partition(";")[0]})
    assert inside.ask("/api/models").status == 200
    assert locked.ask("/api/models", Cookie="dbtm-studio=guess").status == 401


def test_guessing_is_slowed_down(locked):
    for _ in range(10):
        assert locked.ask("/api/login", {"token": "wrong"}).status == 401
    assert locked.ask("/api/login", {"token": TOKEN}).status == 429
    assert locked.ask("/api/models", Authorization=f"Bearer {TOKEN}").status == 401, "also by header"
