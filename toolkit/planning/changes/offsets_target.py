"""Reset target: offsets from a file, another group or a backup."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolkit.errors import UsageError
from toolkit.model import Group, TopicPartition
from toolkit.model.names import shown_name
from toolkit.plan import Finding, Position, Severity
from toolkit.planning.changes.targets import Target, TargetOffset, TargetPlace
from toolkit.planning.selection.partition_selection import TopicScope, ranges, scopes_of
from toolkit.planning.selection.snapshot_index import SnapshotIndex

Offsets = Mapping[tuple[str | None, TopicPartition], int | Position]


@dataclass(frozen=True, slots=True)
class FromOffsets(Target):
    """
    Reset to given offsets: a file, another group, a backup. Created by `from_offsets`.

    `rows` has them by group; those under None are for every group. A `Position` includes metadata
    and leader epoch.
    """

    rows: Mapping[str | None, Mapping[TopicPartition, int | Position]]
    source: str  # as text, such as "from-file offsets.csv"
    cluster_id: str | None = None  # the cluster of the offsets, if known

    @property
    def words(self) -> str:
        return self.source

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(partition.topic for offsets in self.rows.values() for partition in offsets)

    def named(self, group_id: str) -> Mapping[TopicPartition, int | Position]:
        """Return the rows of a group; its own override those for every group."""
        return {**self.rows.get(None, {}), **self.rows.get(group_id, {})}

    def aim(self, place: TargetPlace, _index: SnapshotIndex) -> TargetOffset:
        mine = self.rows.get(place.group.group_id, {})
        rows = mine if place.partition in mine else self.rows[None]
        return TargetOffset(rows[place.partition], "as given in the input")

    def findings(self, index: SnapshotIndex, groups: Sequence[Group]) -> Iterator[Finding]:
        """Yield findings: another cluster, rows for other groups, groups without rows."""
        if self.cluster_id not in {None, index.snapshot.cluster_id}:
            why = f"these offsets are from another cluster, id {self.cluster_id!r}"
            yield Finding("other-cluster", Severity.BLOCK, why)
        selected = {group.group_id for group in groups}
        others = sorted(name for name in self.rows if name is not None and name not in selected)
        if others:
            count = sum(len(self.rows[name]) for name in others)
            more = ", ..." if len(others) > 5 else ""
            names = f"{', '.join(map(shown_name, others[:5]))}{more}"
            why = f"{count:,} rows are for groups that are not selected: {names}; skipped"
            yield Finding("other-groups", Severity.NOTE, why)
        for name in sorted(selected):
            if not self.named(name):
                yield Finding("no-row", Severity.BLOCK, "the input has no row for this group", name)


def from_offsets(offsets: Offsets, *, source: str, cluster_id: str | None = None) -> FromOffsets:
    """Return a target from rows of `source`. Raises UsageError for a negative offset."""
    rows: dict[str | None, dict[TopicPartition, int | Position]] = defaultdict(dict)
    for (group_id, partition), row in offsets.items():
        offset = row.offset if isinstance(row, Position) else row
        if offset < 0:
            where = f"{partition.topic}:{partition.partition}"
            raise UsageError(f"an offset cannot be negative: {offset} for {where}")
        rows[group_id][partition] = row
    return FromOffsets(dict(rows), source, cluster_id)


def narrow(
    named: Mapping[TopicPartition, int | Position], scopes: Sequence[TopicScope], group_id: str
) -> tuple[tuple[TopicScope, ...], list[Finding]]:
    """Return the scopes of the rows within the selected scopes, and findings about the others."""
    if not scopes:
        return scopes_of(named), []
    findings = []
    inside = {partition for partition in named if any(partition in scope for scope in scopes)}
    if left_out := len(named) - len(inside):
        why = f"{left_out:,} rows are for partitions that are not selected; skipped"
        findings.append(Finding("other-partitions", Severity.NOTE, why, group_id))
    for scope in scopes:
        have = {partition.partition for partition in inside if partition.topic == scope.topic}
        lacking = set(scope.partitions or ()) - have
        if lacking or not have:
            what = f"{scope.topic}:{ranges(lacking)}" if lacking else scope.topic
            why = f"the input has no row for {what}"
            findings.append(Finding("no-row", Severity.BLOCK, why, group_id, scope.topic))
    return scopes_of(inside), findings
