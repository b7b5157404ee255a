"""A Chromium that is on the path, driven by Playwright; the page's own complaints are kept."""

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PUZZLE = "850002400720000009004000000000107002305000900040000000000080070017000000000036040"
SOLUTION = "859612437723854169164379528986147352375268914241593786432981675617425893598736241"
ROOMS = ("sudoku", "text", "maths", "simplex", "runs", "referee")
MISSING = "no Chromium is on the path (apt-get install chromium): the studio was tested over HTTP only"


def find_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Visit:
    """A page, and what it complained about or asked for elsewhere."""

    def __init__(self, browser, origin: str, **options):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page, self.origin = self.context.new_page(), origin
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("request", self._asked)
        self.page.set_default_timeout(60_000)

    def _asked(self, request) -> None:
        if not request.url.startswith((self.origin, "blob:", "data:", "file:")):
            self.elsewhere.append(request.url)

    def open(self, room: str):
        self.page.goto(f"{self.origin}/#/{room}")
        self.page.wait_for_selector("#room h1")
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.complaints == []
        assert self.elsewhere == []


# -- what the tests do and look at -------------------------------------------------------------------------------------


def grid(page) -> str:
    return page.evaluate(
        "[...document.querySelectorAll('.lane:first-child td')].map(td => td.textContent || '0').join('')"
    )


def paste(page, text):
    page.evaluate(
        """text => {
          const clipboardData = new DataTransfer();
          clipboardData.setData("text", text);
          document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        text,
    )


def press(page, words):
    page.get_by_role("button", name=words, exact=True).click()


def wait_for_round(page, text):
    page.wait_for_function("text => document.querySelector('.told').textContent.includes(text)", arg=text)


def write(page, lanes=1):
    press(page, "Write")
    page.wait_for_function(
        "n => [...document.querySelectorAll('.sheet-lane a.button')].filter(each => !each.hidden).length === n",
        arg=lanes,
    )
