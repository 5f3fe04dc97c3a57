"""
Plan where committed offsets go: to the start, the end, an offset, a time, or what was written down.

A target outside the log is moved to the nearest existing offset, and the change says so. Metadata
is kept where an offset moves, except Kafka Streams' own, which holds the stream time of the old
position: kept beside an older offset it would make the application drop records as too late.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from toolkit.model import Commit, Group, GroupType, LogOffsets, Snapshot, TopicPartition
from toolkit.plan import (
    NEW_TOPICS,
    Action,
    Change,
    Finding,
    Intent,
    Plan,
    Position,
    Severity,
    Step,
)
from toolkit.planning.epochs import leader_epoch_at
from toolkit.planning.idle import choose_groups, is_plannable, why_not_idle
from toolkit.planning.index import Index
from toolkit.planning.scope import TopicScope, choose_partitions, parse_topics
from toolkit.planning.targets import Aim, Place, Target
from toolkit.planning.written_offsets import narrow

SHOWN_GROUPS = 5


def plan_reset(
    snapshot: Snapshot,
    target: Target,
    *,
    groups: Sequence[str],
    topics: Sequence[str] = (),
    new_topics: bool = False,
) -> Plan:
    """
    Plan to move the committed offsets of groups to a target; the same facts give the same plan.

    `groups` holds names and shell patterns, `topics` scopes as `toolkit.planning.scope` reads them.
    `new_topics` lets groups commit topics that they never committed. A group that is live, or of
    which something is unknown, is planned as far as it can be and blocked by a finding. Raises
    UsageError where a scope cannot be read or no group is named.
    """
    scopes = parse_topics(topics)
    request = _Request(Index.of(snapshot), target, scopes, new_topics)
    chosen, findings = choose_groups(request.index, groups)
    findings += target.findings(request.index, chosen)
    steps = []
    for group in chosen:
        findings += why_not_idle(request.index, group)
        if is_plannable(request.index, group):
            changes, found = _plan_group(request, group)
            findings += found
            if changes:
                steps.append(_step(request.index, group, changes))
    return Plan(
        intent=Intent.RESET,
        request=_in_words(groups, scopes, target),
        cluster=snapshot.cluster,
        cluster_id=snapshot.cluster_id,
        made_at=snapshot.taken_at,
        steps=tuple(steps),
        findings=tuple(findings),
        allows=frozenset({NEW_TOPICS} if new_topics else ()),
    )


@dataclass(frozen=True, slots=True)
class _Request:
    index: Index
    target: Target
    scopes: Sequence[TopicScope]
    new_topics: bool


def _plan_group(request: _Request, group: Group) -> tuple[list[Change], list[Finding]]:
    """Return the changes of one group, in order of partition, and what is to be said."""
    index = request.index
    partitions, findings = _partitions(request, group.group_id)
    commits = index.commits.get(group.group_id, {})
    changes = []
    for partition in partitions:
        place = _place(group, partition, commits.get(partition), index.snapshot.logs[partition])
        aim = request.target.aim(place, index)
        findings += _findings(aim, place)
        if aim.to is not None:
            held = Position.of(place.commit) if place.commit else None
            after, notes = _after(aim.to, place, held)
            if after != held:
                why = "; ".join((aim.why, *notes)) if notes else aim.why
                changes.append(Change(partition, held, after, why))
    return changes, findings


def _partitions(
    request: _Request, group_id: str
) -> tuple[tuple[TopicPartition, ...], list[Finding]]:
    """Return the partitions meant: by the scopes, by what is written down, or by both."""
    scopes = request.scopes
    findings: list[Finding] = []
    named = request.target.named(group_id)
    if named is not None:
        scopes, findings = narrow(named, scopes, group_id)
        if not scopes:
            return (), findings
    chosen = choose_partitions(request.index, group_id, scopes, new_topics=request.new_topics)
    return chosen.partitions, [*findings, *chosen.findings]


def _place(
    group: Group, partition: TopicPartition, commit: Commit | None, log: LogOffsets
) -> Place:
    start, end = log.log_start or 0, log.log_end or 0
    stable = end if log.last_stable is None else min(max(log.last_stable, start), end)
    return Place(group, partition, commit, log, start, end, stable)


def _findings(aim: Aim, place: Place) -> Iterator[Finding]:
    """Yield what the target says of a place, what is gone there, and what is about to happen."""
    about = (place.group.group_id, *place.partition)
    if place.commit and place.commit.pending:
        why = "an open transaction is about to commit here"
        yield Finding("pending-transaction", Severity.BLOCK, why, *about)
    if aim.rule:
        yield Finding(aim.rule, aim.severity, aim.why, *about)
    elif aim.to is not None and max(0, _offset(aim.to)) < place.log_start:
        why = f"{_offset(aim.to)} is before the log start {place.log_start}: records are gone"
        yield Finding("before-log-start", Severity.NOTE, why, *about)


def _after(
    wanted: int | Position, place: Place, held: Position | None
) -> tuple[Position, list[str]]:
    """Return what is to be committed for what is wanted, and in words what had to differ."""
    offset, notes = _nearest(_offset(wanted), place)
    epoch = leader_epoch_at(place.log, offset)
    source = wanted if isinstance(wanted, Position) else held
    if source is None:
        return Position(offset, epoch), notes
    if source.offset == offset:
        is_known = source is held or _can_have(source.leader_epoch, place.log)
        return source if is_known else replace(source, leader_epoch=epoch), notes
    metadata = source.metadata
    if metadata and (place.group.type is GroupType.STREAMS or _is_stream_time(metadata)):
        metadata = ""
        notes.append("the stream time of the old position is cleared")
    return Position(offset, epoch, metadata), notes


def _offset(wanted: int | Position) -> int:
    return wanted.offset if isinstance(wanted, Position) else wanted


def _nearest(wanted: int, place: Place) -> tuple[int, list[str]]:
    """Return the nearest offset that exists, and why it had to move."""
    start, end = place.log_start, place.log_end
    if wanted < start:
        return start, [f"moved to the log start {start}: {wanted} is before it"]
    if wanted > end:
        return end, [f"moved to the log end {end}: {wanted} is past it"]
    return wanted, []


def _can_have(leader_epoch: int | None, log: LogOffsets) -> bool:
    """Whether a log can have an epoch: in a topic made anew they begin at 0 again."""
    newest = log.epochs[-1].leader_epoch if log.epochs else None
    return leader_epoch is None or newest is None or leader_epoch <= newest


def _is_stream_time(metadata: str) -> bool:
    """
    Whether metadata is what Kafka Streams writes beside an offset, also under the classic protocol.

    It is Base64 of a version (1 or 2), the stream time in 8 bytes and, from 2 on, more
    (Kafka's `TopicPartitionMetadata`).
    """
    try:
        raw = b64decode(metadata, validate=True)
    except ValueError:
        return False
    return len(raw) >= 9 and raw[0] in {1, 2}


def _step(index: Index, group: Group, changes: Sequence[Change]) -> Step:
    commits = index.commits.get(group.group_id, {}).values()
    times = [commit.committed_at for commit in commits if commit.committed_at]
    last = max(times, default=None)
    return Step(
        group.group_id, Action.COMMIT, tuple(changes), group.type, group.state, last_commit_at=last
    )


def _in_words(groups: Sequence[str], scopes: Sequence[TopicScope], target: Target) -> str:
    names = groups if len(groups) <= SHOWN_GROUPS else [f"{len(groups):,} groups"]
    what = ", ".join([" ".join(names), *map(str, scopes)])
    return f"reset {what} {target.words}"
