"""The report of a notebook that changes something, opened without any network."""

from pathlib import Path

import pytest
from applications import Applications
from playwright.sync_api import expect
from watched_pages import DARK, HOSTILE, Watched

from toolkit.model import Cluster, TopicPartition
from toolkit.runner.run_notebook import run_notebook

pytestmark = pytest.mark.browser("a report")

NOTEBOOK = Path(__file__).parent.parent.parent / "notebooks" / "50_reset_offsets.ipynb"


@pytest.fixture
def report(apps: Applications, bare_cluster: Cluster, tmp_path: Path) -> Path:
    """Return the report of a dry run about a group whose name is mark-up."""
    group, topic = apps.name(HOSTILE), apps.create_topic(apps.name("orders"), records=9)
    apps.commit(group, {TopicPartition(topic, 0): 7})
    fleet = tmp_path / "fleet.yaml"
    address = bare_cluster.bootstrap_servers
    fleet.write_text(f"clusters:\n  test:\n    bootstrap.servers: {address}\n")
    given = {"cluster": "test", "fleet_file": str(fleet), "state": str(tmp_path / "state")}
    asked = {"groups": [group], "mode": "to-earliest"}
    return run_notebook(NOTEBOOK, parameters=given | asked, output_dir=tmp_path).folder / (
        "report.html"
    )


@pytest.mark.parametrize("watched", [DARK], indirect=True)
def test_a_plan_is_shown_whole_and_safe(watched: Watched, report: Path) -> None:
    """The report asks nothing of the network, and shows the plan, the picture and the command."""
    watched.open(report)
    page = watched.page

    expect(page.locator(".ob-status")).to_have_text("Dry run: nothing was changed")
    expect(page.locator(".ob-notice code")).to_contain_text("offsetbook run 50_reset_offsets")
    expect(page.locator(".ob-notice code")).to_contain_text("plan.json")
    expect(page.locator(".ob-chart .ytick text").first).to_contain_text(HOSTILE)
    expect(page.locator("main table.ob-data").nth(1)).to_contain_text("the log start")
    assert 0 == page.locator("main img").count()
    watched.is_one_quiet_file()
    watched.screenshot("plan_report_dark")
