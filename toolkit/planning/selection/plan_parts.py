"""What planners share: they yield steps and findings, and `plan_of` makes a plan of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from toolkit.model import LogOffsets, Snapshot, TopicPartition
from toolkit.model.garbage_collection import no_garbage_collection
from toolkit.model.names import shown_name
from toolkit.plan import Action, Change, Finding, Intent, Plan, Position, Step
from toolkit.planning.selection.findings import unread
from toolkit.planning.selection.group_selection import commit_action, is_plannable, why_not_idle
from toolkit.planning.selection.snapshot_index import SnapshotIndex

Part = Step | Finding

SHOWN_NAMES = 5
SHOWN_METADATA = 40  # characters
PENDING = "an open transaction has a pending offset commit for this partition"


def commit_step(
    facts: SnapshotIndex, group_id: str, positions: Mapping[TopicPartition, tuple[Position, str]]
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
    unknown = facts.unread_of(group_id)
    changes = [
        Change(partition, facts.committed_position(group_id, partition), position, why)
        for partition, (position, why) in positions.items()
        if partition not in unknown and facts.committed_position(group_id, partition) != position
    ]
    changed = [change.partition for change in changes]
    if group:
        yield from why_not_idle(facts, group, changed)
    yield from (unread(unknown[partition]) for partition in positions.keys() & unknown.keys())
    if changes and (group is None or is_plannable(facts, group)):
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


def out_of_range(offset: int, log: LogOffsets | None) -> str:
    """Return that an offset is outside of its log; "" if it is not, or that is unknown."""
    start, end = (log.log_start, log.log_end) if log else (None, None)
    if start is None or end is None or start <= offset <= end:
        return ""
    return f"offset {offset:,} is out of range: log start offset {start:,}, log end offset {end:,}"


def moved_offsets(
    step: Step, committed: Mapping[TopicPartition, Position], *, may_be_made: bool
) -> Iterator[tuple[TopicPartition, Change | None]]:
    """
    Yield what is committed otherwise than a step expects; without a change where it is new.

    With `may_be_made`, a change that is made already is expected. The deletion of a group expects
    no offset that is not in the plan.
    """
    for change in step.changes:
        found = committed.get(change.partition)
        if found != change.before and not (may_be_made and found == change.after):
            yield change.partition, change
    if step.action is Action.DELETE_GROUP:
        planned = {change.partition for change in step.changes}
        yield from ((place, None) for place in committed if place not in planned)


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
