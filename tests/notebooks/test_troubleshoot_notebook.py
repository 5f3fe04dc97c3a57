"""The notebook about one group in trouble, on the seeded sandbox."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from applications import eventually

from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, TopicPartition
from toolkit.runner.notebooks import find_notebook
from toolkit.runner.parameters import check_parameters, parse_parameters, read_parameters
from toolkit.runner.result import RunResult
from toolkit.runner.run_notebook import run_notebook
from toolkit.sandbox.fleet import Sandbox
from toolkit.sandbox.seed import POISON, POISON_OFFSET

NOTEBOOK = next(Path(__file__).parents[2].glob("notebooks/90_*.ipynb"))
SCOPE = f"{POISON.topic}:{POISON.partition}"
DRAWN = "Lag by partition"
PATIENCE = timedelta(seconds=20)  # longer than a busy machine keeps a consumer from its commits
Troubleshoot = Callable[..., tuple[RunResult, str]]


@pytest.fixture
def troubleshoot(sandbox: Sandbox, tmp_path: Path) -> Troubleshoot:
    """Return a function that runs the notebook for a group, and returns its result and report."""

    def run(group: str, **more: Any) -> tuple[RunResult, str]:
        given = {
            "group": group,
            "sample_interval": "2s",
            "fleet_file": str(sandbox.fleet_file),
            "state": str(tmp_path / "state"),
            **more,
        }
        result = run_notebook(NOTEBOOK, parameters=given, output_dir=tmp_path / "runs")
        return result, unescape((result.folder / "report.html").read_text("utf-8"))

    return run


def stuck_for(cluster: Cluster) -> timedelta:
    """Return for how long nothing was committed of the partition with the poison record."""
    found = read_snapshot(cluster, groups=["fraud-check"], commit_times=True)
    times = {TopicPartition(c.topic, c.partition): c.committed_at for c in found.commits}
    at = times[POISON]
    return found.taken_at - at if at else timedelta()


def test_a_stuck_partition_and_its_record(troubleshoot: Troubleshoot, cluster: Cluster) -> None:
    """It names the stuck partition, shows the record, and the commands that help can be run."""
    before = read_snapshot(cluster).groups
    eventually(lambda: stuck_for(cluster) > PATIENCE)
    result, report = troubleshoot("fraud-check", stuck_after=f"{PATIENCE.seconds}s")

    assert ("done", 1) == (result.status, result.counts["findings"]), result
    assert f"stuck: {SCOPE}" in result.summary
    # At once what is there, then the picture, and only then what the second look says.
    places = [report.index(w) for w in ("The group</figcaption>", DRAWN, f"stuck: {SCOPE}</fig")]
    assert sorted(places) == places
    assert f"Offset {POISON_OFFSET:,}" in report
    assert "00 ff fe" in report
    commands = [line for line in report.split("<pre><code>") if line.startswith("offsetbook run")]
    assert ["40", "50", "40"] == [command.split()[2][:2] for command in commands]
    for command in commands:
        _, _, name, *words = shlex.split(command.split("</code>")[0])
        declared = read_parameters(find_notebook(name))
        pairs = [word.partition("=") for word in words if word != "-p"]
        given = [(name, value) for name, _, value in pairs]
        values = parse_parameters(declared, given, notebook=name)
        check_parameters(declared, values, notebook=name)
        assert "fraud-check" in {values.get("group"), *values.get("groups", [])}
        assert [SCOPE] == values["topics"]
    after = read_snapshot(cluster).groups
    assert {group.group_id for group in before} == {group.group_id for group in after}


@pytest.mark.parametrize(
    ("group", "verdict", "notebook"),
    [
        ("billing", "left over", "60_delete_offsets"),
        ("settlement", "open transaction", "find-hanging"),
        ("archiver", "outside its log", "61_delete_groups"),
        ("share-pickers", "it has committed nothing", "10_fleet_lag"),
    ],
)
def test_other_troubles_lead_elsewhere(
    troubleshoot: Troubleshoot, group: str, verdict: str, notebook: str
) -> None:
    """What stands still for another reason is called that, and leads to the notebook that helps."""
    result, report = troubleshoot(group, after=0)

    assert ("done", 0) == (result.status, result.counts["findings"]), result
    assert verdict in report
    assert notebook in report.split("What next")[-1]
    assert "No records are shown, as asked." in report


def test_a_group_that_is_not_there(troubleshoot: Troubleshoot) -> None:
    """A name that no group has fails with what to try, also if it looks like a pattern."""
    result, report = troubleshoot("fraud-*")

    assert "failed" == result.status
    assert result.error
    assert "no group named 'fraud-*'" in result.error.reason
    assert "offsetbook groups list" in result.error.reason
    assert "fraud-check" in report


def test_no_group_is_named(troubleshoot: Troubleshoot, cluster: Cluster) -> None:
    """Without a name it fails with what to do, under a table of all groups to choose from."""
    result, report = troubleshoot("")

    assert ("failed", 2) == (result.status, result.exit_code)
    assert result.error
    assert "no group is named. Try: choose one, or set the parameter group" == result.error.reason
    groups = read_snapshot(cluster).groups
    assert f"{len(groups)} groups" in report
    assert all(group.group_id in report for group in groups)
