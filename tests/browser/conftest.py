"""A headless Chromium for the browser tests, cut off from every network."""

import re
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from chromium import chromium
from lab import BROWSER, Lab, close_notebooks, lab_context, running_lab
from playwright.sync_api import Browser, BrowserContext, Error, Page, Route, expect, sync_playwright
from watched_pages import DESK, Watched

# No test claims this limit: a busy machine takes long to start a browser or draw a chart.
PATIENCE_MS = 300_000
expect.set_options(timeout=PATIENCE_MS)
FAILURES = Path(__file__).parents[2] / "build" / "failures"
# What a page of JupyterLab has open, with the outputs that are not saved yet.
NOTEBOOK = """() => {
    const open = window.jupyterapp?.shell.currentWidget?.context?.model;
    return open ? JSON.stringify(open.toJSON(), null, 1) : "";
}"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what a failed test had open: each page as a picture, its console, its notebook."""
    report = yield
    browser = getattr(item, "funcargs", {}).get("browser")
    if report.failed and browser:
        folder = FAILURES / re.sub(r"[^\w-]+", "-", item.name)
        pages = [page for context in browser.contexts for page in context.pages]
        shutil.rmtree(folder, ignore_errors=True)
        for number, page in enumerate(pages, 1):
            keep(page, folder / f"page-{number}")
        report.sections.append(("Pages of the browser", f"{len(pages)} kept in {folder}"))
    return report


def keep(page: Page, folder: Path) -> None:
    """Write what can still be read of a page into a folder."""
    folder.mkdir(parents=True)
    try:
        said = [f"{message.type}: {message.text}" for message in page.console_messages()]
        said += [f"page error: {error}" for error in page.page_errors()]
        (folder / "console.txt").write_text("\n".join([page.url, *said]), "utf-8")
        page.screenshot(path=folder / "screenshot.png", full_page=True)
        if notebook := page.evaluate(NOTEBOOK):
            (folder / "notebook.ipynb").write_text(notebook, "utf-8")
    except Error as exc:  # the browser itself may be what failed
        (folder / "not-kept.txt").write_text(str(exc), "utf-8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """
    Start a browser for the tests of one module.

    Not for the whole session: while playwright is started, the main thread counts as inside an
    event loop, for every test that comes after. A start costs a second of processor time.
    """
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=list(BROWSER), timeout=PATIENCE_MS
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def _lab_context(browser: Browser) -> Iterator[BrowserContext]:
    with lab_context(browser) as context:
        yield context


@pytest.fixture
def notebooks(_lab_context: BrowserContext, lab: Lab) -> Iterator[BrowserContext]:
    """Have a context for notebooks of the JupyterLab; they and their kernels end with the test."""
    yield _lab_context
    close_notebooks(_lab_context, lab)


@pytest.fixture
def watched(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Watched]:
    """Give a page that records requests and complaints; parametrise it with context options."""
    context = browser.new_context(**getattr(request, "param", DESK))
    context.set_default_timeout(PATIENCE_MS)
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
