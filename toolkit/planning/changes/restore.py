"""
Plan to restore a backup: offset, leader epoch and metadata, exactly as saved.

An offset that is out of range is clamped to the log, and the change says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from toolkit.errors import UsageError
from toolkit.model import Snapshot, TopicPartition
from toolkit.model.groups import all_meant
from toolkit.model.names import shown_name
from toolkit.plan import NEW_GROUP, Finding, Intent, Plan, Position, Severity
from toolkit.plan.saved_offsets import SavedOffsets
from toolkit.planning.changes.clamp import placed
from toolkit.planning.changes.copy import is_new, uncommitted, without_offset
from toolkit.planning.changes.targets import narrow
from toolkit.planning.changes.topic_recreated import OffsetsOrigin, with_recreated_topics
from toolkit.planning.selection.findings import block, note
from toolkit.planning.selection.partition_selection import (
    TopicScope,
    choose_partitions,
    parse_topics,
)
from toolkit.planning.selection.plan_parts import Part, commit_step, plan_of
from toolkit.planning.selection.snapshot_index import SnapshotIndex


def plan_restore(
    snapshot: Snapshot,
    saved: SavedOffsets,
    *,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    into: str | None = None,
) -> Plan:
    """
    Plan to commit saved offsets, for the same groups or, for a single one, `into`.

    `groups` holds names and shell patterns, `topics` scopes (`TOPIC` or `TOPIC:0,1`); none means
    all saved offsets. A missing group is created. Offsets that are not in the backup stay. Offsets
    of a topic that was re-created since block. A CSV file does not name its cluster, nor
    has it metadata, which stays where the offset stays. Raises UsageError if a scope cannot be
    parsed, and if `into` would take several groups or is needed and missing.
    """
    scopes = parse_topics(topics)
    if not saved.names_groups and into is None:
        raise UsageError(
            "the file does not say which group each row is of", hint="name the group: --into GROUP"
        )
    facts = SnapshotIndex(snapshot)
    by_group = _by_group(saved)
    chosen, missing = all_meant(groups, by_group) if groups else (by_group, [])
    names = sorted(chosen)
    origin = OffsetsOrigin(saved.cluster_id, saved.topic_ids)
    if into is not None and len(names) != 1:
        raise UsageError(
            f"the offsets of {len(names):,} groups cannot be restored into one group, {into!r}",
            hint="select one group of the backup",
        )

    def parts() -> Iterator[Part]:
        yield from _other_cluster(saved, snapshot)
        for name in missing:
            yield block("no-row", "the backup has no offsets of this group", name)
        for name in names:
            target = name if into is None else into
            restored = _restored(facts, target, by_group[name], scopes)
            yield from with_recreated_topics(restored, origin, snapshot)

    taken = f"{saved.taken_at:%Y-%m-%d %H:%M} UTC" if saved.taken_at else "a CSV file"
    which = " ".join(map(shown_name, groups)) or "all"
    what = ", ".join([f"restore {which} of {taken}", *map(str, scopes)])
    request = what if into is None else f"{what} into {shown_name(into)}"
    allows = frozenset({NEW_GROUP})
    return plan_of(snapshot, parts(), intent=Intent.RESTORE, request=request, allows=allows)


def _other_cluster(saved: SavedOffsets, snapshot: Snapshot) -> Iterator[Finding]:
    if saved.cluster_id is None:
        why = "a CSV file does not say which cluster its offsets are of, and has no metadata"
        yield Finding("cluster-unknown", Severity.NOTE, why)
    elif saved.cluster_id != snapshot.cluster_id:
        why = (
            f"the backup is from cluster {saved.cluster}, id {saved.cluster_id!r}; this cluster "
            f"is {snapshot.cluster}, id {snapshot.cluster_id!r}"
        )
        yield Finding("other-cluster", Severity.BLOCK, why)


def _restored(
    facts: SnapshotIndex,
    group_id: str,
    rows: Mapping[TopicPartition, int | Position],
    scopes: Sequence[TopicScope],
) -> Iterator[Part]:
    """Commit the saved offsets of one group that are in the scopes."""
    inside, findings = narrow(rows, scopes, group_id)
    yield from findings
    if not inside:
        return
    yield from is_new(facts, group_id)
    chosen = choose_partitions(facts, group_id, inside, new_topics=True, named_by_operator=False)
    yield from chosen.findings
    restored = {}
    for partition in chosen.partitions:
        row, log = rows[partition], facts.snapshot.logs[partition]
        position, moved = placed(row, facts.committed_position(group_id, partition), log)
        restored[partition] = (position, f"as saved; {moved}" if moved else "as saved")
        if position.offset != (row.offset if isinstance(row, Position) else row):
            yield note("clamped", moved, group_id, partition)
    if restored and not scopes:
        yield from uncommitted(group_id, group_id, without_offset(facts, group_id, rows))
    yield from commit_step(facts, group_id, restored)
    others = facts.commits_of(group_id).keys() - rows.keys()
    if others and not scopes:
        topics = ", ".join(sorted({partition.topic for partition in others}))
        why = (
            f"{len(others):,} committed offsets of the group are not in the backup and stay "
            f"unchanged: {topics}"
        )
        yield note("not-in-backup", why, group_id)


def _by_group(saved: SavedOffsets) -> dict[str, dict[TopicPartition, int | Position]]:
    by_group: dict[str, dict[TopicPartition, int | Position]] = defaultdict(dict)
    for (group_id, partition), row in saved.rows.items():
        by_group[group_id or ""][partition] = row
    return by_group
