"""The smaller things that a visitor tries: links, undo, marks, what is pointed at, lists that are looked at."""

import json

import pytest

from dbtm.service.training import TrainRequest, train
from dbtm.studio import sudoku
from dbtm.studio.opening import open_studio
from dbtm.studio.shelf import Shelf
from dbtm.studio.state import Studio
from dbtm.viz.theory.page import render_page
from tests.service.conftest import TINY, prepared  # noqa: F401 - a fixture
from tests.studio.browser import MISSING, PUZZLE, ROOMS, Visit, find_browser, grid, press, write
from tests.studio.client import running

pytestmark = pytest.mark.skipif(find_browser() is None, reason=MISSING)

MOVES = """[...document.querySelectorAll("*")].filter(each => {
  const { transitionDuration, animationName } = getComputedStyle(each);
  return transitionDuration !== "0s" || animationName !== "none";
}).length"""


# -- Sudoku ------------------------------------------------------------------------------------------------------------


def test_a_copied_link_opens_the_same_puzzle_with_the_same_settings(visit):
    seen = visit()
    seen.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = seen.open(f"sudoku?p={PUZZLE}")
    page.get_by_label("Network evaluations (NFE)").press("ArrowRight")
    page.get_by_label("Seed").fill("7")
    page.get_by_label("Seed").press("Tab")
    press(page, "Copy link")
    page.get_by_role("button", name="Copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    other = seen.context.new_page()
    other.goto(link)
    other.wait_for_selector("td")
    assert grid(other) == PUZZLE
    assert other.get_by_label("Seed").input_value() == "7"
    assert other.get_by_label("Network evaluations (NFE)").get_attribute("aria-valuetext") == "6"


def test_what_was_typed_pasted_or_cleared_is_undone_step_by_step(visit):
    page = visit().open(f"sudoku?p={PUZZLE}")
    press(page, "Clear")
    page.locator("td").first.focus()
    page.keyboard.type("12")
    page.keyboard.press("Control+z")
    assert grid(page) == "1" + "0" * 80
    press(page, "Undo")
    assert grid(page) == "0" * 81
    press(page, "Undo")
    assert grid(page) == PUZZLE
    assert page.get_by_role("button", name="Undo").is_disabled()


def test_each_of_two_settings_tells_of_its_cells(visit):
    page = visit().open(f"sudoku?p={PUZZLE}&compare=1&nfe=2&nfe2=1")
    press(page, "Solve")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.lane .told')].every(each => / NFE, /.test(each.textContent))"
    )
    for lane, rounds in ((0, 2), (1, 1)):
        page.locator(".lane").nth(lane).locator(".grid td").nth(2).hover()
        history = page.locator(".lane").nth(lane).locator(".history")
        assert "row 1, column 3" in history.locator("caption").inner_text()
        assert history.locator("tbody tr").count() == rounds


def test_a_puzzle_is_asked_for_by_how_hard_it_is(visit, monkeypatch):
    asked = []
    monkeypatch.setattr(sudoku, "make_puzzle", lambda body: asked.append(body) or PUZZLE)
    page = visit().open("sudoku?p=" + "0" * 81)
    page.get_by_label("A new one").select_option("30")
    assert page.get_by_label("Clues").is_hidden()
    press(page, "New puzzle")
    page.wait_for_function("digits => location.hash.includes(digits)", arg=PUZZLE)
    assert [(body.guesses, body.clues) for body in asked] == [(30, None)]


# -- text --------------------------------------------------------------------------------------------------------------


def test_pointing_at_a_token_tells_what_else_was_likely(visit):
    page = visit().open("text?nfe=2&t=The%20river")
    write(page)
    page.locator(".sheet span").nth(30).hover()
    assert page.locator(".history caption").inner_text() == "token 31"
    assert page.locator(".history tr.others").count() >= 1


def test_text_that_is_selected_with_the_mouse_is_marked(visit):
    page = visit().open("text?nfe=1&t=The%20river")
    write(page)
    first, last = (page.locator(".sheet span").nth(i).bounding_box() for i in (4, 6))
    page.mouse.move(first["x"] + first["width"] / 3, first["y"] + first["height"] / 2)
    page.mouse.down()
    page.mouse.move(last["x"] + 0.8 * last["width"], last["y"] + last["height"] / 2)
    page.mouse.up()
    marked = (
        "[...document.querySelectorAll('.sheet span')].flatMap((e, i) => e.classList.contains('marked') ? [i] : [])"
    )
    assert page.evaluate(marked) == [4, 5, 6]
    assert page.evaluate("getSelection().isCollapsed"), "the browser's own mark would cover it"
    assert page.get_by_role("button", name="Regenerate 3 marked").is_visible()


MARKED = "[...document.querySelectorAll('.sheet span')].flatMap((e, i) => e.classList.contains('marked') ? [i] : [])"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.mark.parametrize("way", ["finger", "mouse", "keys"])
def test_a_span_is_marked_by_its_two_ends(visit, way):
    """The first pick begins it, the second ends it, the third begins anew; one that stands alone can be taken back."""
    page = visit(**(PHONE if way == "finger" else {})).open("text?nfe=1&t=The%20river")
    write(page)
    sheet = page.locator(".sheet")

    def pick(i):
        if way == "finger":
            sheet.locator("span").nth(i).tap()
        elif way == "mouse":
            sheet.locator("span").nth(i).click()
        else:
            sheet.focus()
            for key in ("Home", *["ArrowRight"] * i, "Enter"):
                sheet.press(key)
        return page.evaluate(MARKED)

    assert [pick(i) for i in (8, 5, 12, 12, 12)] == [[8], [5, 6, 7, 8], [12], [12], []]
    pick(8), pick(5)
    assert page.get_by_role("button", name="Regenerate 4 marked").is_visible()


def test_words_for_fingers_are_shown_where_there_is_no_mouse(visit):
    for room, finger, mouse in (("text", "Tap a token", "Point at a token"), ("simplex", "tap to move", "arrow keys")):
        for options, shown, hidden in ((PHONE, finger, mouse), ({}, mouse, finger)):
            words = visit(**options).open(room).locator("#room").inner_text()
            assert (shown in words, hidden in words) == (True, False), room


def test_the_page_of_the_simplex_moves_by_finger(browser, tmp_path):
    (tmp_path / "flow.html").write_text(render_page())
    seen = Visit(browser, f"file://{tmp_path}", **PHONE)
    page = seen.page
    page.goto(f"file://{tmp_path}/flow.html")
    assert "tap to move the start" in page.locator("main").inner_text()
    ratio = page.locator(".numbers tr:has-text('autonomous') td").first
    before, box = ratio.inner_text(), page.locator("canvas").bounding_box()
    page.touchscreen.tap(box["x"] + 0.45 * box["width"], box["y"] + 0.4 * box["height"])
    assert ratio.inner_text() != before
    seen.close()


def test_on_a_phone_a_token_is_told_of_where_it_was_chosen(visit):
    page = visit(viewport={"width": 360, "height": 740}).open("text?many=1&t=The%20river")
    write(page, lanes=4)
    page.locator(".sheet").nth(2).locator("span").nth(8).click()
    assert "token 9" in page.locator(".sheet-lane").nth(2).locator(".history caption").inner_text()
    assert page.locator(".history").count() == 1
    page.mouse.move(1, 1)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.wait_for_function("() => !document.querySelector('.sheet-lane .history')")
    assert "token 9" in page.locator(".staying .history caption").inner_text()


# -- maths and maps ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def writer(prepared, tmp_path_factory, few_samples_measured):  # noqa: F811
    """A studio with a writer of programs and a map on the simplex that have learned next to nothing."""
    home = tmp_path_factory.mktemp("maths")
    small = (*TINY, "task.evaluate_n=2")
    train(TrainRequest(recipe="gsm-small", data=prepared["gsm-small"], changes=small, out=home / "gsm"))
    train(TrainRequest(recipe="simplex", changes=("train.steps=3", "optim.warmup=1"), out=home / "map"))
    with running(open_studio([str(home / "gsm"), str(home / "map")], [], "cpu")) as client:
        yield client


def test_a_word_problem_gets_a_program_and_an_answer(browser, writer):
    from axe_playwright_python.sync_playwright import Axe

    seen = Visit(browser, f"http://{writer.host}", reduced_motion="reduce")
    page = seen.open("maths?nfe=3&seed=2")
    assert page.get_by_label("Network evaluations (NFE)").get_attribute("aria-valuetext") == "3", "from the link"
    page.get_by_label("Question").fill("Ann has 3 apples and buys 4. How many has she?")
    press(page, "Answer")
    page.wait_for_function("() => document.querySelector('#room').textContent.includes('with the run in the sandbox')")
    assert "Ann has 3 apples" in page.locator(".question").inner_text()
    assert page.locator(".card .outcome").inner_text().startswith(("no answer (", "returns "))
    assert "Round 3 of 3" in page.locator(".status").inner_text()
    assert page.locator(".sheet.code span").count() > 10
    assert page.get_by_role("link", name="Save as HTML").is_visible()
    assert "Ann+has+3+apples" in page.url
    assert Axe().run(page).response["violations"] == []
    seen.close()


def test_a_map_of_ones_own_is_drawn_beside_the_exact_one(browser, writer):
    seen = Visit(browser, f"http://{writer.host}", reduced_motion="reduce")
    page = seen.open("simplex")
    page.get_by_label("Your own map").select_option("map")
    page.wait_for_function("() => document.querySelectorAll('canvas').length === 2")
    exact, learned = (page.locator("canvas").nth(i) for i in (0, 1))
    left, right = exact.bounding_box(), learned.bounding_box()
    assert right["y"] == pytest.approx(left["y"], abs=2)
    assert right["x"] >= left["x"] + left["width"]
    before = learned.evaluate("canvas => canvas.toDataURL()")
    exact.click(position={"x": 80, "y": 80})
    assert learned.evaluate("canvas => canvas.toDataURL()") != before, "the start is the same in both"
    assert page.get_by_role("button", name="Train a map here").is_visible()
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    seen.close()


# -- runs and comparisons ----------------------------------------------------------------------------------------------


def test_a_list_that_changes_keeps_place_and_focus(browser, tmp_path):
    for name in [f"run-{i:02}" for i in range(30)]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    with running(Studio(Shelf({}, "cpu"), [tmp_path])) as client:
        seen = Visit(browser, f"http://{client.host}")
        page = seen.open("runs")
        page.get_by_role("link", name="run-20").focus()
        at = page.evaluate("document.querySelector('.listed').scrollTop")
        with (tmp_path / "run-20" / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"step": 77, "loss": 1.0}) + "\n")
        page.wait_for_function("() => document.querySelector('.listed').textContent.includes('77')")
        assert page.evaluate("document.activeElement.textContent") == "run-20"
        assert page.evaluate("document.querySelector('.listed').scrollTop") == at
        seen.close()


def test_figures_follow_the_method_that_is_asked_for(visit):
    page = visit().open("referee")
    assert page.locator(".chart").first.locator("path.line").count() == 2
    assert page.locator(".chart h3").all_inner_texts()[1].endswith("by FLOPs per sample")
    page.get_by_label("Method").select_option("dbtm")
    assert page.locator(".chart").first.locator("path.line").count() == 1


# -- every room --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wish", "some"), [("reduce", False), ("no-preference", True)])
def test_nothing_moves_by_itself_where_that_is_not_wanted(visit, wish, some):
    seen = visit(reduced_motion=wish)
    moving = {room: seen.open(room).evaluate(MOVES) for room in ROOMS}
    assert (sum(moving.values()) > 0) == some, moving
