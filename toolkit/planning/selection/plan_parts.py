"""
Shared helpers of the planners: build steps, findings and plans from a snapshot.

A planner yields steps and findings; `plan_of` makes a plan of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from toolkit.model import Commit, GroupState, GroupType, Snapshot, TopicPartition
from toolkit.model.garbage_collection import no_garbage_collection
from toolkit.model.names import shown_name
from toolkit.model.snapshot import MISSING_LOG
from toolkit.plan import Action, Change, Finding, Intent, Plan, Position, Severity, Step
from toolkit.planning.selection.group_selection import (
    commit_action,
    is_plannable,
    unread_facts,
    why_not_idle,
)
from toolkit.planning.selection.partition_selection import unread_offset
from toolkit.planning.selection.snapshot_index import SnapshotIndex

Part = Step | Finding

SHOWN_NAMES = 5
SHOWN_METADATA = 40  # characters
PENDING = "an open transaction has a pending offset commit for this partition"


class Facts:
    """A snapshot's groups and commits, and steps made from them; Dead groups are excluded."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.index = SnapshotIndex(snapshot)
        self.groups = {g.group_id: g for g in snapshot.groups if g.state is not GroupState.DEAD}

    def commits(self, group_id: str) -> Mapping[TopicPartition, Commit]:
        return self.index.commits.get(group_id, {})

    def committed_position(self, group_id: str, partition: TopicPartition) -> Position | None:
        commit = self.commits(group_id).get(partition)
        return Position.of(commit) if commit else None

    def newest_commit_at(self, group_id: str) -> datetime | None:
        """Return when a group last committed; None if the time of any commit is unknown."""
        times = [commit.committed_at for commit in self.commits(group_id).values()]
        known = [at for at in times if at]
        return max(known) if known and len(known) == len(times) else None

    def outside_log(self, partition: TopicPartition, offset: int) -> str:
        """Return that an offset is out of range; "" if it is in range or unknown."""
        log = self.index.snapshot.logs.get(partition)
        if log is None or log.log_start is None or log.log_end is None:
            return ""
        if log.log_start <= offset <= log.log_end:
            return ""
        return out_of_range(offset, log.log_start, log.log_end)

    def why_gone(self, partition: TopicPartition) -> str:
        """Return that a partition does not exist any more; "" if it does, or that is unknown."""
        problem = self.index.log_problem(partition)
        return problem.why if problem and problem.why in MISSING_LOG else ""

    def unlisted(self, group_id: str) -> Iterator[Finding]:
        """Yield that it is not known whether a group exists, where not all could be listed."""
        why = self.index.snapshot.listing_problem
        if why and group_id not in self.groups:
            yield block("unreadable", f"unknown whether the group exists: {why}", group_id)

    def unread_commits(self, group_id: str) -> Iterator[Finding]:
        """Yield why no committed offset of a group could be read: it may have some."""
        for problem in self.index.about_group.get(group_id, ()):
            if problem.hides_commits:
                yield unread_facts(group_id, problem)

    def unreadable(self, group_id: str) -> Iterator[Finding]:
        """Yield the read errors of a group and its committed offsets."""
        for problem in self.index.about_group.get(group_id, ()):
            yield unread_facts(group_id, problem)
        for partition, reason in self.index.unread.get(group_id, {}).items():
            yield unread_offset(group_id, partition, reason)

    def step(
        self, group_id: str, action: Action, changes: Iterable[Change], *, needs: str | None = None
    ) -> Step:
        """Return a step on the group's current state; a missing group will be a simple group."""
        group = self.groups.get(group_id)
        return Step(
            group_id,
            action,
            tuple(sorted(changes, key=attrgetter("partition"))),
            type=group.type if group else GroupType.SIMPLE,
            state=group.state if group else None,
            last_commit_at=self.newest_commit_at(group_id),
            needs=needs,
        )


def commit_step(
    facts: Facts, group_id: str, positions: Mapping[TopicPartition, tuple[Position, str]]
) -> Iterator[Part]:
    """
    Yield the step that commits positions, each with its reason, and what blocks it.

    The group is empty, does not exist yet, or has all of them paused. Any other live group is
    planned and blocked.
    """
    group = facts.groups.get(group_id)
    if unlisted := tuple(facts.unlisted(group_id)):
        yield from unlisted
        return
    unread = facts.index.unread.get(group_id, {})
    changes = [
        Change(partition, facts.committed_position(group_id, partition), position, why)
        for partition, (position, why) in positions.items()
        if partition not in unread and facts.committed_position(group_id, partition) != position
    ]
    changed = [change.partition for change in changes]
    if group:
        yield from why_not_idle(facts.index, group, changed)
    for partition in positions.keys() & unread.keys():
        yield unread_offset(group_id, partition, unread[partition])
    if changes and (group is None or is_plannable(facts.index, group)):
        yield facts.step(group_id, commit_action(group, changed), changes)


@no_garbage_collection()
def plan_of(
    snapshot: Snapshot,
    parts: Iterable[Part],
    *,
    intent: Intent,
    request: str,
    allows: frozenset[str] = frozenset(),
) -> Plan:
    """Return the plan made of steps and findings, as of the snapshot."""
    parts = list(parts)
    steps = tuple(part for part in parts if isinstance(part, Step))
    topics = sorted({change.partition.topic for step in steps for change in step.changes})
    return Plan(
        intent=intent,
        request=request,
        cluster=snapshot.cluster,
        cluster_id=snapshot.cluster_id,
        made_at=snapshot.taken_at,
        steps=steps,
        findings=tuple(part for part in parts if isinstance(part, Finding)),
        allows=allows,
        topic_ids={name: snapshot.topic_ids[name] for name in topics if name in snapshot.topic_ids},
    )


def out_of_range(offset: int, log_start: int, log_end: int) -> str:
    log = f"log start offset {log_start:,}, log end offset {log_end:,}"
    return f"offset {offset:,} is out of range: {log}"


def block(rule: str, why: str, group_id: str, at: TopicPartition | None = None) -> Finding:
    return Finding(rule, Severity.BLOCK, why, group_id, *(at or ()))


def note(rule: str, why: str, group_id: str, at: TopicPartition | None = None) -> Finding:
    return Finding(rule, Severity.NOTE, why, group_id, *(at or ()))


def shown(position: Position | None, other: Position | None) -> str:
    """Return an offset or, beside another position at the same offset, also what may differ."""
    if position is None:
        return "nothing"
    offset, epoch, metadata = position
    if other is None or other.offset != offset:
        return str(offset)
    of_epoch = "no leader epoch" if epoch is None else f"leader epoch {epoch}"
    return f"{offset} ({of_epoch}, metadata {metadata[:SHOWN_METADATA]!r})"


def list_names(names: Sequence[str], what: str = "groups") -> str:
    are_few = len(names) <= SHOWN_NAMES
    return " ".join(map(shown_name, names)) if are_few else f"{len(names):,} {what}"
