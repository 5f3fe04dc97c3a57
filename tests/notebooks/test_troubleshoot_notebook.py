"""The notebook about one group in trouble, on the seeded sandbox."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest
from applications import Applications, eventually
from operators import Operator
from workspaces import Workspace, parameters_of, report, shown_command, shown_commands

from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, TopicPartition
from toolkit.sandbox.seed import POISON, POISON_OFFSET

NOTEBOOK = "90_troubleshoot_group"
SCOPE = f"{POISON.topic}:{POISON.partition}"
DRAWN = "Lag by partition"
PATIENCE = timedelta(seconds=20)  # longer than a busy machine keeps a consumer from its commits
BRIEFLY = {"sample_interval": "2s"}


@pytest.fixture
def workspace(
    cluster: Cluster, applications: Callable[[Cluster], Applications], tmp_path: Path
) -> Workspace:
    return Workspace(Operator(cluster, tmp_path / "state"), applications(cluster), tmp_path)


def stuck_for(cluster: Cluster) -> timedelta:
    """Return for how long nothing was committed of the partition with the poison record."""
    found = read_snapshot(cluster, groups=["fraud-check"], commit_times=True)
    times = {TopicPartition(c.topic, c.partition): c.committed_at for c in found.commits}
    at = times[POISON]
    return found.taken_at - at if at else timedelta()


@pytest.mark.live("consumers run")
def test_a_stuck_partition_and_its_record(workspace: Workspace, cluster: Cluster) -> None:
    """It names the stuck partition, shows the record, and the commands that help can be run."""
    before = read_snapshot(cluster).groups
    eventually(lambda: stuck_for(cluster) > PATIENCE)
    patience = f"{PATIENCE.seconds}s"
    result = workspace.run(NOTEBOOK, groups=["fraud-check"], stuck_after=patience, **BRIEFLY)
    html = report(result)
    page = unescape(html)

    assert ("done", 1) == (result.status, result.counts["findings"]), result
    assert f"stuck: {SCOPE}" in result.summary
    # At once what is there, then the picture, and only then what the second look says.
    places = [page.index(w) for w in ("Group</figcaption>", DRAWN, f"(stuck: {SCOPE})</fig")]
    assert sorted(places) == places
    # Above it all, what is worst and what to do about it.
    assert page.index("Partitions without progress</figcaption>") < places[0]
    assert f"Offset {POISON_OFFSET:,}" in page
    assert "00 ff fe" in page
    commands = [parameters_of(command) for command in shown_commands(html)]
    assert ["40", "40", "50", "40"] == [notebook[:2] for notebook, _ in commands]
    for _, given in commands:
        assert "fraud-check" in given["groups"]
        assert [SCOPE] == given["topics"]
    after = read_snapshot(cluster).groups
    assert {group.group_id for group in before} == {group.group_id for group in after}


@pytest.mark.parametrize(
    ("group", "verdict", "notebook"),
    [
        ("billing", "unsubscribed offset", "60_delete_offsets"),
        ("settlement", "open transaction", "find-hanging"),
        ("archiver", "out of range", "61_delete_groups"),
        ("share-pickers", "no committed offsets", "10_fleet_lag"),
    ],
)
def test_other_troubles_lead_elsewhere(
    workspace: Workspace, group: str, verdict: str, notebook: str
) -> None:
    """What stands still for another reason is called that, and leads to the notebook that helps."""
    told = workspace.cells(NOTEBOOK, groups=[group], after=0, **BRIEFLY)

    assert ("done", 0) == (told.ended[0], told.conclusion.counts["findings"]), told
    assert verdict in told.shown
    assert notebook in told.shown.split("Next steps")[-1]
    assert "Records are not shown (after = 0)." in told.shown


def test_a_group_that_is_not_there(workspace: Workspace) -> None:
    """A name that no group has fails with what to try, also if it looks like a pattern."""
    told = workspace.cells(NOTEBOOK, groups=["fraud-*"], **BRIEFLY)

    assert "failed" == told.ended[0]
    assert "no group named 'fraud-*'" in told.why
    assert "offsetbook groups list" in told.why
    assert "fraud-check" in told.shown


def test_no_group_is_named(workspace: Workspace, cluster: Cluster) -> None:
    """Without a name it fails with what to do, under a table of all groups to choose from."""
    told = workspace.cells(NOTEBOOK, **BRIEFLY)

    assert ("failed", 2) == told.ended
    assert "no group selected. Try: select one above, or set the parameter groups" == told.why
    groups = read_snapshot(cluster).groups
    assert f"{len(groups)} groups" in told.shown
    assert all(group.group_id in unescape(told.shown) for group in groups)


def test_unsubscribed_offsets_of_all_clusters_and_the_next_step(workspace: Workspace) -> None:
    """Without a cluster it reads all; one that is down is a row, and a command deletes the rest."""
    both = replace(workspace, others={"down": Cluster("down", "127.0.0.1:1")})

    told = both.cells("20_find_unsubscribed_offsets", clusters=[], groups=["billing", "nobody"])

    assert ("incomplete", 4) == told.ended
    assert "invoices.draft" in told.shown
    assert "Unsubscribed offsets with the largest lag" in told.shown
    assert "down" in told.shown
    notebook, given = parameters_of(shown_command(told.shown))
    expected = {"cluster": "test", "groups": ["billing"], "unsubscribed": True}
    assert ("60_delete_offsets", expected) == (notebook, {name: given[name] for name in expected})

    one = both.cells("20_find_unsubscribed_offsets", groups=["fraud-check"])
    assert ("done", 0) == one.ended
    assert "Nothing to do" in one.shown
