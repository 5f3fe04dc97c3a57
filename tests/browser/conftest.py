"""A headless Chromium for the browser tests, cut off from every network."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    "--no-sandbox",  # containers rarely allow Chromium's own
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# A busy machine draws a chart in more than the five seconds that are usual.
expect.set_options(timeout=60_000)
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"


@dataclass
class Watched:
    """A page, and everything on it that should not have happened."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)  # console, page errors, dialogs

    def open(self, path: Path) -> None:
        """Open a report and wait until its tables and charts are there."""
        self.page.goto(path.resolve().as_uri())
        self.page.wait_for_selector("html[data-ready=yes]", timeout=30_000)

    def screenshot(self, name: str) -> None:
        """Keep a picture of the whole page among the artefacts of the test run."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def chromium() -> str:
    """Return the path of an installed Chromium or Chrome."""
    named = os.environ.get("OFFSETBOOK_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if not found:
        pytest.fail(
            "No browser: install Chromium (apt-get install chromium, brew install --cask chromium) "
            "or name one in OFFSETBOOK_CHROMIUM.",
            pytrace=False,
        )
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """
    Start a browser for the tests of one module.

    Not for the whole session: while playwright is started, the main thread counts as inside an
    event loop, for every test that comes after.
    """
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_QUIET))
        yield browser
        browser.close()


@pytest.fixture
def watched(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Watched]:
    """Give a page that records requests and complaints; parametrise it with context options."""
    context = browser.new_context(
        **getattr(request, "param", {"viewport": {"width": 1200, "height": 900}})
    )
    watched = Watched(context.new_page())

    def block_network(route: Route) -> None:
        if route.request.url.startswith(("file:", "blob:", "data:")):
            route.continue_()
        else:
            route.abort()

    context.route("**/*", block_network)
    page = watched.page
    page.on("request", lambda sent: watched.requests.append(sent.url))
    page.on("console", lambda message: watched.complaints.append(message.text))
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (watched.complaints.append("dialog"), dialog.dismiss()))
    yield watched
    context.close()
