"""Every room in Firefox: the same page does the same there as in Chromium, without a complaint."""

import pytest

from tests.studio.browser import PUZZLE, ROOMS, SOLUTION
from tests.studio.firefox import MISSING, Firefox, find_firefox

pytestmark = pytest.mark.skipif(find_firefox() is None, reason=MISSING)


@pytest.fixture(scope="module")
def firefox(client, tmp_path_factory):
    settings = {"ui.prefersReducedMotion": 1}
    opened = Firefox(tmp_path_factory.mktemp("firefox"), f"http://{client.host}", settings)
    opened.size(1280, 900)
    yield opened
    opened.close()


@pytest.fixture
def page(firefox):
    """The tab; a test ends without a complaint of the page and without a request to anyone else."""
    yield firefox
    firefox.get("1")  # what has happened until now is noted
    assert firefox.complaints == []
    assert firefox.elsewhere == []


def texts(selector: str) -> str:
    return f"[...document.querySelectorAll({selector!r})].map(each => each.textContent)"


def test_a_sudoku_is_typed_and_solved(page):
    page.open("sudoku")
    page.press("Clear")
    page.click("document.querySelector('td')")
    page.type(PUZZLE.replace("0", "."))
    page.press("Solve")
    page.wait("document.querySelector('.told').textContent.includes('Solved in')")
    assert "".join(page.get(texts(".grid td"))) == SOLUTION
    page.click("document.querySelector('[aria-label=\"One round back\"]')")
    assert "Round 1 of 2" in page.get("document.querySelector('.status').textContent")


def test_a_text_is_filled_in_and_a_span_made_anew(page):
    page.open("text?nfe=2&t=The%20____%20was%20built%20in%201900.")
    page.press("Write")
    done = "document.querySelector('.sheet-lane a.button') && !document.querySelector('.sheet-lane a.button').hidden"
    page.wait(done)
    assert "was built in 1900." in "".join(page.get(texts(".sheet span.given")))
    free = page.get("[...document.querySelectorAll('.sheet span')].findIndex(span => span.className !== 'given')")
    page.click(f"document.querySelectorAll('.sheet span')[{free}]")
    assert page.get("document.querySelectorAll('.history tr.others').length") > 0, "what else was likely"
    page.press("Regenerate 1 marked")
    page.wait("document.querySelectorAll('.sheet span.given').length === 127")
    page.wait(done)


def test_the_same_noise_side_by_side(page):
    page.open("text?many=1&t=The%20river")
    page.press("Write")
    page.wait("[...document.querySelectorAll('.sheet-lane a.button')].filter(each => !each.hidden).length === 4")
    assert len(set(page.get(texts(".sheet")))) == 4


def test_the_simplex_is_drawn_and_measured(page):
    page.open("simplex")
    page.wait("document.querySelector('.numbers tbody td:last-child').textContent !== '…'")
    shares = [float(share) for share in page.get(texts(".numbers tbody tr td:nth-child(3)"))[:3]]
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.05)
    before = page.get("document.querySelector('canvas').toDataURL()")
    page.click("document.querySelector('canvas')")
    assert page.get("document.querySelector('canvas').toDataURL()") != before, "the start is moved"


def test_runs_and_comparisons_are_shown(page):
    page.open("runs?run=mini")
    page.wait("document.querySelector('.chart path.line')")
    page.press("Draw samples")
    page.wait("document.querySelectorAll('.samples-over td').length === 16")
    page.open("referee")
    page.wait("document.querySelectorAll('[aria-label=Measured] tbody tr').length === 4")
    page.open("maths")
    assert "dbtm train gsm-small" in page.get("document.querySelector('.empty-state').textContent")


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_screen_and_nothing_moves(page, width):
    """`moves` are elements with an animation or a transition, though the visitor wants none."""
    page.size(width, 800)
    moves = "getComputedStyle(e).transitionDuration !== '0s' || getComputedStyle(e).animationName !== 'none'"
    for room in ROOMS:
        page.open(room)
        assert page.get("document.documentElement.scrollWidth") <= width, room
        assert page.get(f"[...document.querySelectorAll('*')].filter(e => {moves}).length") == 0
    page.size(1280, 900)
