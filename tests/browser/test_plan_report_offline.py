"""The report of a notebook that changes something, opened without any network."""

from pathlib import Path

import pytest
from applications import Applications
from playwright.sync_api import Locator, Page, expect
from watched_pages import DARK, HOSTILE, Watched
from workspaces import Workspace

from toolkit.model import TopicPartition

pytestmark = pytest.mark.browser("a report")

BROKEN_WORDS = """[...document.querySelectorAll(".ob-command code span")]
    .filter(word => word.getClientRects().length > 1).map(word => word.innerText)"""


@pytest.fixture
def report(apps: Applications, workspace: Workspace) -> Path:
    """Return the report of a dry run about a group whose name is mark-up."""
    group, topic = apps.name(HOSTILE), apps.create_topic(apps.name("orders"), records=9)
    apps.commit(group, {TopicPartition(topic, 0): 7})
    done = workspace.run("50_reset_offsets", groups=[group], mode="to-earliest")
    return done.folder / "report.html"


@pytest.mark.parametrize("watched", [DARK], indirect=True)
def test_a_plan_is_shown_whole_and_safe(watched: Watched, report: Path) -> None:
    """The report asks nothing of the network, and shows the plan, the picture and the command."""
    watched.open(report)
    page = watched.page

    expect(page.locator(".ob-status")).to_have_text("Dry run: nothing was changed")
    expect(page.locator(".ob-notice code")).to_contain_text("offsetbook run 50_reset_offsets")
    expect(page.locator(".ob-notice code")).to_contain_text("plan.json")
    expect(page.locator(".ob-chart .ytick text").first).to_contain_text(HOSTILE[:12])
    expect(page.locator("main table.ob-data").nth(1)).to_contain_text("the log start")
    assert 0 == page.locator("main img").count()
    watched.screenshot("plan_report_dark")
    copied(page, page.locator(".ob-notice .ob-command"))
    # What a browser has where the page came by HTTP.
    page.evaluate("delete Navigator.prototype.clipboard")
    copied(page, page.locator(".ob-notice .ob-command"))
    watched.is_one_quiet_file()
    assert [] == page.evaluate(BROKEN_WORDS)


def test_a_long_word_of_a_command_is_not_broken(watched: Watched, report: Path) -> None:
    """On a narrow page a command is broken at its spaces, and a longer word scrolls."""
    watched.page.set_viewport_size({"width": 320, "height": 800})
    watched.open(report)

    assert [] == watched.page.evaluate(BROKEN_WORDS)
    assert 320 == watched.width


def copied(page: Page, command: Locator) -> None:
    """Copy a command by its button, and compare what is pasted."""
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<textarea></textarea>')")
    command.get_by_role("button", name="Copy").click()
    expect(command.get_by_role("button", name="Copied")).to_be_visible()
    box = page.locator("textarea").last
    box.press("Control+V")
    expect(box).to_have_value(str(command.locator("code").text_content()))
    expect(command.get_by_role("button", name="Copy", exact=True)).to_be_visible()
