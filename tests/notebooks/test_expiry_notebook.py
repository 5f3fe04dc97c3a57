"""The expiry forecast as a notebook, run headlessly against a real broker."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from datetime import datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from applications import Applications
from click.testing import CliRunner
from desks import Desk

from toolkit.cli.notebooks.run import command
from toolkit.model import Cluster, TopicPartition
from toolkit.plan import Position
from toolkit.runner.parameters import read_parameters
from toolkit.runner.result import RunResult
from toolkit.runner.run_notebook import run_notebook

NOTEBOOK = Path(__file__).parent.parent.parent / "notebooks" / "30_expiry_forecast.ipynb"
HOSTILE = "<img src=x onerror=alert(1)>"
SHOWN_COMMAND = re.compile(r"<pre><code>(offsetbook run .*?)</code></pre>", re.DOTALL)
LONGER_THAN_RETENTION = "8d"  # brokers keep offsets for seven days

Run = Callable[..., RunResult]


@pytest.fixture
def desk(exclusive_cluster: Cluster, tmp_path: Path) -> Desk:
    """Return a desk at a cluster that no other test uses: the notebook is about all its groups."""
    return Desk(exclusive_cluster, tmp_path / "state")


@pytest.fixture
def apps(exclusive_apps: Applications) -> Applications:
    """Return the applications on that cluster."""
    return exclusive_apps


@pytest.fixture
def run(desk: Desk, tmp_path: Path) -> Run:
    """Return a function that runs the notebook on that cluster."""
    fleet_file = tmp_path / "fleet.yaml"
    address = desk.cluster.bootstrap_servers
    fleet_file.write_text(f"clusters:\n  test:\n    bootstrap.servers: {address}\n")

    def run_it(**parameters: Any) -> RunResult:
        given = {
            "clusters": ["test"],
            "within": LONGER_THAN_RETENTION,
            "fleet_file": str(fleet_file),
            "state": str(desk.state),
            **parameters,
        }
        return run_notebook(NOTEBOOK, parameters=given, output_dir=tmp_path / "runs")

    return run_it


@pytest.fixture
def idle(desk: Desk, apps: Applications) -> str:
    """Return an idle group of a dangerous name that committed both partitions of a topic."""
    topic = apps.create_topic(apps.name("expiring"), partitions=2, records=9)
    group = apps.name(HOSTILE)
    desk.commit(group, {TopicPartition(topic, n): Position(7, 0, "a note") for n in (0, 1)})
    return group


def report(result: RunResult) -> str:
    """Return the report of a run as it stands in the file."""
    return (result.folder / "report.html").read_text("utf-8")


def committed_at(desk: Desk, group: str) -> list[datetime]:
    """Return when a group's offsets were committed."""
    return [commit.committed_at for commit in desk.facts(group).commits if commit.committed_at]


def test_it_is_a_look_until_told_otherwise() -> None:
    """As it comes the notebook rescues nobody, approves nothing, and passes over no rule."""
    defaults = {p.name: p.default for p in read_parameters(NOTEBOOK)}

    safe = {"rescue": False, "dry_run": True, "approve": "", "overrides": [], "limits": []}
    assert safe == {name: defaults[name] for name in safe}


def test_a_look(run: Run, desk: Desk, apps: Applications, idle: str) -> None:
    """What vanishes and what is at risk is told with its reason, and nothing is changed."""
    topic = apps.create_topic(apps.name("kept"))
    live = apps.join(apps.name("live"), [topic], protocol="consumer")
    live.commit(offsets=[apps.position(TopicPartition(topic, 0), 0)], asynchronous=False)
    before = committed_at(desk, idle)

    result = run()

    assert ("done", 0, None) == (result.status, result.exit_code, result.undo)
    assert result.counts["findings"] >= 3
    assert "planned" not in result.counts
    text = report(result)
    assert "group has no members; 7 d after the commit at" in text
    assert "Expiry timeline" in text
    assert "Fingerprint" not in text
    assert HOSTILE not in text
    assert f"groups expire within {LONGER_THAN_RETENTION}" in result.summary
    assert (before, []) == (committed_at(desk, idle), desk.log)


def test_a_rescue_from_dry_run_to_done(run: Run, desk: Desk, idle: str) -> None:
    """The dry run changes nothing and shows a command that starts the clocks anew."""
    before, held = committed_at(desk, idle), desk.held(idle)

    dry = run(rescue=True, groups=[idle])

    assert ("done", 2, []) == (dry.status, dry.counts["planned"], desk.log)
    assert dry.summary.startswith("Dry run: nothing was changed.")
    assert before == committed_at(desk, idle)

    (shown,) = SHOWN_COMMAND.findall(report(dry))
    words = shlex.split(unescape(shown).replace("reason=...", "'reason=a test'"))[2:]
    words += ["--output", "json", "--quiet", "--output-dir", str(desk.state.parent / "runs")]
    done = json.loads(CliRunner().invoke(command, words, catch_exceptions=False).stdout)

    assert ("done", 2) == (done["status"], done["counts"]["changed"])
    assert held == desk.held(idle)
    assert max(before) < min(committed_at(desk, idle))
    assert ["a test"] == [entry.run.reason for entry in desk.log[:1]]
