"""J7: a group's offsets under another name, and on a mirror, from the dry run to the undo."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from applications import Applications
from operators import Held, Operator
from timed_records import produce
from workspaces import NotebookOutcome, Workspace, shown_command

from toolkit.errors import ParameterError
from toolkit.model import Cluster, TopicPartition
from toolkit.plan import Position

TIMES = [datetime(2025, 10, 9, 9, tzinfo=UTC) + timedelta(seconds=n) for n in range(17)]
EARLIER = 7  # records that only the mirror has, before all others
PREFIX = "eu."
HOSTILE = "<img src=x onerror=alert(1)>"
DONE, BLOCKED = ("done", 0), ("blocked", 3)
LIMITS = {"limits": ["max_groups=1", "max_partitions=1"]}


class Mirrored:
    """A group, its topic, and a mirror that has the same records under other offsets."""

    def __init__(self, workspace: Workspace, there: Applications, mirror: Operator) -> None:
        """Make the topic at both ends and the group, which has read 4 of the 10 records."""
        self.workspace, self.mirror = workspace, mirror
        self.topic = workspace.apps.create_topic(workspace.apps.name("orders"))
        there.create_topic(PREFIX + self.topic)
        produce(workspace.apps.address, TopicPartition(self.topic, 0), TIMES[EARLIER:])
        produce(there.address, TopicPartition(PREFIX + self.topic, 0), TIMES)
        self.group = workspace.apps.name(HOSTILE)
        self.before: Held = {self.group: {TopicPartition(self.topic, 0): Position(4, 0, "a note")}}
        workspace.operator.commit(self.group, self.before[self.group])

    def cells(self, **parameters: Any) -> NotebookOutcome:
        return self.workspace.cells("52_copy_offsets", **{"groups": [self.group], **parameters})

    def on_mirror(self, offset: int, metadata: str) -> dict[TopicPartition, Position]:
        """Return what the group holds on the mirror once it is there."""
        return {TopicPartition(PREFIX + self.topic, 0): Position(offset, 0, metadata)}


@pytest.fixture
def mirrored(workspace: Workspace, applications: Any, kafka_39: Cluster) -> Mirrored:
    # One cluster may have two names; and nobody listens where one was.
    gone = Cluster("gone", "127.0.0.1:1")
    others = {"mirror": kafka_39, "alias": workspace.operator.cluster, "gone": gone}
    mirror = replace(workspace.operator, cluster=kafka_39)
    return Mirrored(replace(workspace, others=others), applications(kafka_39), mirror)


TO_MIRROR = {"to_cluster": "mirror", "topic_prefix": PREFIX}


def test_to_a_mirror_by_time_from_dry_run_to_undo(mirrored: Mirrored) -> None:
    """The group goes on at its next record, whatever its offset there; the source may go on too."""
    workspace, group = mirrored.workspace, mirrored.group

    dry = mirrored.cells(**TO_MIRROR)

    assert (DONE, {"findings": 1, "planned": 1, "changed": 0}) == (dry.ended, dry.conclusion.counts)
    assert dry.conclusion.summary.startswith("Dry run: nothing was changed.")
    assert ({}, []) == (mirrored.mirror.held(group), workspace.operator.log)
    assert "the next record has timestamp 2025-10-09 09:00:11 UTC" in dry.shown
    assert "no group matches this name" not in dry.shown  # it is to be made

    # What was approved is this plan, whatever the source commits meanwhile.
    workspace.operator.commit(group, {TopicPartition(mirrored.topic, 0): 9})
    done = workspace.invoke(shown_command(dry.shown), "a test")

    counts = {"findings": 1, "planned": 1, "changed": 1, "refused": 0}
    assert ("done", counts) == (done["status"], done["counts"])
    assert mirrored.on_mirror(4 + EARLIER, "") == mirrored.mirror.held(group)[group]
    assert {TopicPartition(mirrored.topic, 0): Position(9)} == workspace.operator.held(group)[group]
    assert ["a test"] == [entry.run.reason for entry in workspace.operator.log[:1]]
    assert HOSTILE not in Path(done["folder"], "report.html").read_text("utf-8")

    standing = {"dry_run": False, "approve": "within limits", "reason": "a mistake", **LIMITS}
    undone = workspace.cells(
        "70_undo", cluster="", run=done["undo"], **standing
    )  # "": the changed one

    assert (DONE, {}) == (undone.ended, mirrored.mirror.held(group)), undone.conclusion


def test_to_a_mirror_by_offset_under_another_name(mirrored: Mirrored) -> None:
    """Equal offsets, within the limits of a standing approval, also when the source is gone."""
    name = mirrored.group + "-2"
    given = {**TO_MIRROR, "to_group": name, "by": "offset", "topics": [mirrored.topic]}
    standing = {"dry_run": False, "approve": "within limits", "reason": "a test"}

    over = mirrored.cells(**given, **standing, limits=["max_groups=1", "max_partitions=0"])
    assert (BLOCKED, {}) == (over.ended, mirrored.mirror.held(name))

    saved = {"cluster": "gone", "to_cluster": "mirror", "plan_file": str(over.folder / "plan.json")}
    done = mirrored.cells(**saved, **standing, **LIMITS)

    assert DONE == done.ended, done.conclusion
    assert {name: mirrored.on_mirror(4, "a note")} == mirrored.mirror.held(name)


def test_within_the_cluster(mirrored: Mirrored) -> None:
    """A new name in the same cluster gets what the group has; a group with members is refused."""
    workspace, name = mirrored.workspace, mirrored.group + "-2"

    done = workspace.approve(shown_command(mirrored.cells(to_group=name).shown), "a test")

    assert DONE == done.ended
    assert {name: mirrored.before[mirrored.group]} == workspace.operator.held(name)
    assert mirrored.before == workspace.operator.held(mirrored.group)

    workspace.apps.join(name, [mirrored.topic])
    live = mirrored.cells(to_group=name)
    assert BLOCKED == live.ended
    assert "Blocked by group-live: nothing was changed." in live.conclusion.summary


def test_invalid_copies_are_refused(mirrored: Mirrored) -> None:
    """A cluster that the fleet file does not have, a second source, and no group."""
    misspelt, alias = mirrored.cells(to_cluster="miror"), mirrored.cells(to_cluster="alias")
    nobody = mirrored.cells(**TO_MIRROR, groups=["no-such-group-1"])

    assert {"failed"} == {misspelt.ended[0], alias.ended[0]}
    assert "did you mean 'mirror'?" in misspelt.why
    assert "test and alias are the same cluster" in alias.why
    assert BLOCKED == nobody.ended
    assert "Blocked by no-such-group: nothing was changed." in nobody.conclusion.summary
    assert "no-such-group-1" in nobody.shown
    assert [] == mirrored.workspace.operator.log


def test_only_two_ways_are_known(workspace: Workspace) -> None:
    """The declared type of a parameter is checked before a kernel is started."""
    said = "parameter by must be one of time, offset, got 'size'"
    with pytest.raises(ParameterError, match=said):
        workspace.run("52_copy_offsets", groups=["g"], by="size")
    assert not Path(workspace.folder, "runs").exists()
