"""The studio in a real browser: what a visitor does, by mouse, keyboard and on a phone."""

import re
import subprocess
import sys

import pytest

from dbtm.studio.guard import Door
from dbtm.studio.shelf import Shelf
from dbtm.studio.state import Studio
from tests.studio.browser import (
    MISSING,
    PUZZLE,
    ROOMS,
    SOLUTION,
    Visit,
    find_browser,
    grid,
    paste,
    press,
    wait_for_round,
    write,
)
from tests.studio.client import running
from tests.studio.samples import HOSTILE

pytestmark = pytest.mark.skipif(find_browser() is None, reason=MISSING)


# -- Sudoku ------------------------------------------------------------------------------------------------------------


def test_solve_by_typing(visit):
    page = visit().open("sudoku")
    press(page, "Clear")
    page.locator("td").first.focus()
    page.keyboard.type(PUZZLE.replace("0", "."))
    assert grid(page) == PUZZLE
    press(page, "Solve")
    wait_for_round(page, "Solved in")
    assert grid(page) == SOLUTION
    assert "NFE" in page.locator(".told").inner_text()
    assert re.search(r"\d ms|\d s", page.locator(".told").inner_text())


@pytest.mark.parametrize("shape", [str, lambda digits: "\n".join(digits[i : i + 9] for i in range(0, 81, 9))])
def test_solve_by_paste_anywhere(visit, shape):
    page = visit().open("sudoku?p=" + "0" * 81)
    paste(page, shape(PUZZLE))
    assert grid(page) == PUZZLE
    press(page, "Solve")
    wait_for_round(page, "Solved in")


def test_a_paste_that_is_no_puzzle_is_told(visit):
    page = visit().open(f"sudoku?p={PUZZLE}")
    paste(page, "<b>hello</b>")
    assert "is not a puzzle" in page.locator(".board > .outcome").inner_text()
    assert grid(page) == PUZZLE


def test_a_clash_is_shown_while_typing(visit):
    page = visit().open("sudoku?p=" + "0" * 81)
    page.locator("td").first.focus()
    page.keyboard.type("55")
    assert "row 1 has two 5s" in page.locator(".board > .outcome").inner_text()
    assert page.locator("td.wrong").count() == 2
    assert page.get_by_role("button", name="Solve", exact=True).is_disabled()
    press(page, "Undo")
    assert page.locator("td.wrong").count() == 0
    assert page.get_by_role("button", name="Solve", exact=True).is_enabled()


def test_cancel_and_closing_the_tab_end_the_work(visit, client, monkeypatch):
    from dbtm.studio import sudoku
    from tests.studio.test_requests import wait_until

    begun = []

    def endless(studio, job, body, puzzle, model):
        begun.append(job)
        job.send("start", {"puzzle": puzzle.tolist()})
        while not job.stop.wait(0.005):
            pass
        job.check()

    monkeypatch.setattr(sudoku, "run_solve", endless)
    page = visit().open(f"sudoku?p={PUZZLE}")
    press(page, "Solve")
    wait_until(lambda: len(begun) == 1)
    assert not begun[0].cancelled()
    press(page, "Cancel")
    wait_for_round(page, "Cancelled")
    wait_until(begun[0].cancelled)
    press(page, "Solve")
    wait_until(lambda: len(begun) == 2)
    page.close()
    wait_until(begun[1].cancelled)


def test_two_settings_side_by_side_and_a_link_that_holds_them(visit):
    page = visit().open(f"sudoku?p={PUZZLE}&compare=1&nfe=4&nfe2=1&seed2=3")
    press(page, "Solve")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.lane .told')].every(each => / NFE, /.test(each.textContent))"
    )
    first, second = (page.locator(".lane .told").nth(i).inner_text() for i in (0, 1))
    assert "of 4 NFE" in first
    assert "1 of 1 NFE" in second
    link = page.evaluate("location.href")
    assert "nfe2=1" in link
    assert "seed2=3" in link
    assert f"p={PUZZLE}" in link


def test_rounds_are_replayed_and_saved(visit, tmp_path):
    seen = visit(accept_downloads=True)
    page = seen.open(f"sudoku?p={PUZZLE}")
    press(page, "Solve")
    wait_for_round(page, "Solved in")
    page.get_by_label("One round back").click()
    assert "Round 1 of 2" in page.locator(".status").first.inner_text()
    assert page.locator("td.refining").count() > 0
    with page.expect_download() as download:
        page.get_by_role("link", name="Save as HTML").click()
    download.value.save_as(tmp_path / "saved.html")
    page.goto(f"file://{tmp_path}/saved.html#1")
    page.keyboard.press("ArrowRight")
    assert "Round 2 of 2: 59 of 59" in page.locator(".status").inner_text()
    assert "".join(page.locator("td.clue, td.committed").all_inner_texts()) == SOLUTION


def test_a_new_puzzle_and_a_small_grid(visit):
    page = visit().open("sudoku")
    press(page, "New puzzle")
    page.wait_for_function("before => location.hash.includes('p=') && !location.hash.includes(before)", arg=PUZZLE)
    assert sum(digit != "0" for digit in grid(page)) == 30
    page.get_by_label("Built in").select_option(label="4 x 4, 4 clues")
    assert page.locator("td").count() == 16


def test_keyboard_alone(visit):
    """From the address bar: tab to Solve, press it, tab into the grid, move, and leave it again."""
    page = visit().open(f"sudoku?p={PUZZLE}")
    focused = "document.activeElement.textContent + '|' + (document.activeElement.getAttribute('aria-label') || '')"

    def tab_to(words):
        for _ in range(40):
            page.keyboard.press("Tab")
            if words in page.evaluate(focused):
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", f"{words} has no visible focus"
                return
        raise AssertionError(f"no tab leads to {words}")

    tab_to("Skip to the room")
    tab_to("Solve")
    page.keyboard.press("Enter")
    wait_for_round(page, "Solved in")
    tab_to("row 1, column 1")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert "row 2, column 2" in page.evaluate(focused)
    assert "row 2, column 2" in page.locator(".history caption").inner_text()
    tab_to("Play")


# -- text --------------------------------------------------------------------------------------------------------------


def test_infill_keeps_what_is_given(visit):
    page = visit().open("text?nfe=2")
    page.get_by_label("Your text").fill("The capital city was built in 1900 by the king.")
    page.evaluate("const box = document.getElementById('prompt'); box.setSelectionRange(4, 16)")
    press(page, "Make a hole")
    assert page.get_by_label("Your text").input_value() == "The ____ was built in 1900 by the king."
    write(page)
    given = "".join(page.locator(".sheet span.given").all_inner_texts())
    assert given.startswith("The")
    assert "was built in 1900 by the king." in given
    assert page.locator(".sheet span.committed").count() > 50


def test_the_same_noise_side_by_side(visit):
    page = visit().open("text?many=1&t=The%20river")
    write(page, lanes=4)
    assert page.locator(".sheet-lane h2").all_inner_texts() == ["1 NFE", "2 NFE", "4 NFE", "16 NFE"]
    first = [page.locator(".sheet").nth(i).evaluate("each => each.textContent") for i in range(4)]
    assert len(set(first)) == 4
    assert page.locator(".sheet.by-round").count() == 4


def test_what_else_was_likely_and_a_span_made_anew(visit):
    page = visit().open("text?nfe=2&t=The%20river")
    write(page)
    before = page.locator(".sheet span").all_inner_texts()
    page.locator(".sheet span").nth(20).click()
    assert "token 21" in page.locator(".history caption").inner_text()
    assert len(page.locator(".history tr.others").first.inner_text().split()) >= 4
    page.locator(".sheet span").nth(25).click(modifiers=["Shift"])
    press(page, "Regenerate 6 marked")
    page.wait_for_function("() => document.querySelectorAll('.sheet span.given').length === 122")
    page.wait_for_function("() => !document.querySelector('.sheet-lane a.button').hidden")
    after = page.locator(".sheet span").all_inner_texts()
    assert after[:20] == before[:20]
    assert after[27:] == before[27:]


def test_what_a_visitor_writes_is_never_markup(visit):
    page = visit().open("text")
    page.get_by_label("Your text").fill("<img src=x onerror=alert(1)><script>alert(2)</script> ____ <b>bold</b>")
    write(page)
    assert page.locator("#room img, #room script, #room b").count() == 0
    assert "<script>alert(2)</script>" in page.locator(".sheet").evaluate("each => each.textContent")


def test_a_mistake_is_a_sentence(visit):
    seen = visit()
    page = seen.open("text")
    page.get_by_label("Your text").fill("many words " * 200)
    press(page, "Write")
    page.wait_for_selector(".outcome.bad")
    assert "do not fit into" in page.locator(".outcome.bad").inner_text()
    assert all("400" in complaint for complaint in seen.complaints), "the browser notes the status, nothing else"
    seen.complaints.clear()


# -- the other rooms ---------------------------------------------------------------------------------------------------


def test_the_simplex_moves_by_mouse_and_keyboard(visit):
    page = visit().open("simplex")
    page.wait_for_function("() => document.querySelector('.numbers tbody td:last-child').textContent !== '…'")
    shares = [float(cell) for cell in page.locator(".numbers tbody tr td:nth-child(3)").all_inner_texts()[:3]]
    assert sum(shares) == pytest.approx(1, abs=0.002)
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.05)
    ratio = page.locator(".numbers tr:has-text('autonomous') td").first
    before = ratio.inner_text()
    page.locator("canvas").first.focus()
    page.keyboard.press("ArrowUp")
    assert ratio.inner_text() != before


def test_a_live_training_run_moves(browser, tmp_path):
    """A real run in a process of its own: its curves appear and grow."""
    out = tmp_path / "runs" / "live"
    words = ["markov", "--out", str(out), "--set", "train.steps=100000", "--set", "train.log_every=1",
             "--set", "train.checkpoint_every=20", "--set", "model.width=16", "--set", "train.batch=8"]  # fmt: skip
    training = subprocess.Popen([sys.executable, "-m", "dbtm", "train", *words], stderr=subprocess.DEVNULL)
    try:
        with running(Studio(Shelf({}, "cpu"), [tmp_path / "runs"])) as client:
            seen = Visit(browser, f"http://{client.host}")
            page = seen.open("runs")
            page.wait_for_selector(".badge.live", timeout=120_000)
            page.wait_for_selector(".chart path.line")
            steps = "document.querySelector('.data tbody td:nth-child(4)').textContent"
            first = page.evaluate(steps)
            page.wait_for_function(f"first => {steps} !== first", arg=first)
            page.wait_for_function("() => document.querySelectorAll('.section .data tbody tr').length > 0")
            titles = page.locator(".chart h3 span:first-child").all_inner_texts()
            assert "loss" in titles
            assert "learning rate" in titles
            seen.close()
    finally:
        training.kill()
        training.wait()


def test_samples_over_training(visit):
    page = visit().open("runs?run=mini")
    press(page, "Draw samples")
    page.wait_for_selector(".samples-over table")
    assert page.locator(".samples-over td").count() == 16


def test_comparisons_are_sorted_and_filtered(visit):
    page = visit().open("referee")
    cells = "[...row.cells].slice(0, 2).map(cell => cell.textContent).join('')"
    rows = f"[...document.querySelectorAll('[aria-label=Measured] tbody tr')].map(row => {cells})"
    assert page.evaluate(rows) == ["dbtm4", "mdlm4", "dbtm1", "mdlm1"], "the best first"
    page.get_by_role("button", name="entry").click()
    assert page.evaluate(rows)[:2] == ["dbtm4", "dbtm1"] or page.evaluate(rows)[:2] == ["dbtm1", "dbtm4"]
    page.get_by_label("NFE", exact=True).select_option("4")
    assert page.evaluate(rows) == ["dbtm4", "mdlm4"]
    assert HOSTILE in page.locator("[aria-label=Entries]").inner_text()
    assert page.locator("#room script").count() == 0


def test_a_room_without_a_model_says_how_to_get_one(visit):
    page = visit().open("maths")
    assert "dbtm train gsm-small" in page.locator(".empty-state").inner_text()


def test_a_token_is_asked_for_and_kept_out_of_the_address(browser):
    token = "a token of the tests"
    with running(Studio(Shelf({}, "cpu"), door=Door(token))) as client:
        seen = Visit(browser, f"http://{client.host}")
        page = seen.page
        page.goto(f"{seen.origin}/#/runs")
        page.get_by_label("Token").fill("wrong")
        press(page, "Enter")
        page.wait_for_selector(".outcome.bad:not(:empty)")
        page.get_by_label("Token").fill(token)
        press(page, "Enter")
        page.wait_for_selector(".empty-state")
        assert token not in page.url
        assert all("401" in complaint for complaint in seen.complaints)
        seen.complaints.clear()
        seen.close()


# -- every room --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [360, 768, 1920])
def test_nothing_is_wider_than_the_screen(visit, width):
    seen = visit(viewport={"width": width, "height": 800})
    for room in ROOMS:
        page = seen.open(room)
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, room


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("room", ROOMS)
def test_no_accessibility_violation(visit, room, theme):
    from axe_playwright_python.sync_playwright import Axe

    page = visit(color_scheme=theme).open(room)
    if room == "text":
        write(page)
        page.locator(".sheet span").nth(5).click()
    if room == "sudoku":
        press(page, "Solve")
        wait_for_round(page, "Solved in")
        page.get_by_label("One round back").click()
    found = Axe().run(page)
    told = [(rule["id"], [node["html"][:120] for node in rule["nodes"]]) for rule in found.response["violations"]]
    assert told == []
