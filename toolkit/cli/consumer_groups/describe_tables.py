"""What `--describe` shows of groups: the tool's columns, and frames with more for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from toolkit.cli.consumer_groups.tool_tables import Cell
from toolkit.errors import ToolkitError
from toolkit.model import Cluster, Group, Member, TopicPartition

if TYPE_CHECKING:
    from pandas import DataFrame

    from toolkit.journeys.lag import LagReport

TableRows = Callable[[Group], Iterator[Sequence[Cell]]]
INSTANCE = "GROUP-INSTANCE-ID"
NOBODY: tuple[str | None, ...] = (None, None, None)


class GroupTable(NamedTuple):
    """Columns, and the rows of one group."""

    columns: tuple[str, ...]
    rows: TableRows

    def of(self, group: Group) -> tuple[tuple[str, ...], list[Sequence[Cell]]]:
        """Return columns and rows for one group, without instance ids where nobody has one."""
        found = list(self.rows(group))
        if INSTANCE not in self.columns or any(member.instance_id for member in group.members):
            return self.columns, found
        place = self.columns.index(INSTANCE)
        return _without(self.columns, place), [_without(row, place) for row in found]


def _without(row: Sequence[Any], place: int) -> tuple[Any, ...]:
    return (*row[:place], *row[place + 1 :])


def offsets_table(report: LagReport, *, verbose: bool) -> GroupTable:
    """Return one row for each partition that a group has committed or owns."""
    snapshot = report.facts
    rows: dict[str, list[Sequence[Cell]]] = {}
    epochs = {(c.group_id, c.topic, c.partition): c.leader_epoch for c in snapshot.commits}
    owners = {
        (group.group_id, partition): (member.member_id, member.host, member.client_id)
        for group in snapshot.groups
        for member in group.members
        for partition in member.assignment
    }
    for row in report.partitions.to_dict("records"):
        group, at = str(row["group"]), TopicPartition(str(row["topic"]), int(row["partition"]))
        epoch = (epochs.get((group, *at)),) if verbose else ()
        numbers = (_whole(row[name]) for name in ("committed", "log_end", "lag"))
        owner = owners.get((group, at), NOBODY)
        rows.setdefault(group, []).append((group, *at, *epoch, *numbers, *owner))
    epoch_column = ("LEADER-EPOCH",) if verbose else ()
    columns = (
        *("GROUP", "TOPIC", "PARTITION", *epoch_column, "CURRENT-OFFSET", "LOG-END-OFFSET"),
        *("LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"),
    )
    return GroupTable(columns, lambda group: iter(rows.get(group.group_id, ())))


def _whole(value: Any) -> int | None:
    import pandas as pd

    return None if pd.isna(value) else int(value)


def members_table(*, verbose: bool) -> GroupTable:
    """Return one row for each member, with an instance id that is left out where nobody has one."""

    def rows(group: Group) -> Iterator[Sequence[Cell]]:
        for m in sorted(group.members, key=lambda m: (m.client_id, m.member_id)):
            row = (m.member_id, m.instance_id, m.host, m.client_id, len(m.assignment))
            more = (m.epoch, _assignment(m), None, None) if verbose else ()
            yield (group.group_id, *row, *more)

    columns = ("GROUP", "CONSUMER-ID", INSTANCE, "HOST", "CLIENT-ID", "#PARTITIONS")
    more = ("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT")
    return GroupTable((*columns, *(more if verbose else ())), rows)


def _assignment(member: Member) -> str:
    """Return `ta:0,1;tb:0`."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(member.assignment):
        by_topic.setdefault(topic, []).append(partition)
    return ";".join(f"{topic}:{','.join(map(str, found))}" for topic, found in by_topic.items())


def states_table(cluster: Cluster, *, verbose: bool) -> GroupTable:
    """Return one row for each group."""
    addresses = _addresses(cluster)

    def rows(group: Group) -> Iterator[Sequence[Cell]]:
        address = addresses.get(group.coordinator_id or 0)
        at = f"{address}  ({group.coordinator_id})" if address else None
        epochs = (group.epoch, None) if verbose else ()
        members = len(group.members) if group.described else None
        yield (group.group_id, at, group.assignor, group.state, *epochs, members)

    epochs = ("GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH") if verbose else ()
    columns = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", *epochs, "#MEMBERS")
    return GroupTable(columns, rows)


def _addresses(cluster: Cluster) -> dict[int, str]:
    from toolkit.kafka_io.client.shared_connections import connected

    try:
        with connected(cluster) as connection:
            return connection.addresses
    except ToolkitError as exc:
        click.echo(f"where the coordinators are is not shown: {exc}", err=True)
        return {}


def _members_frame(report: LagReport) -> DataFrame:
    from pandas import DataFrame

    rows = [
        (g.group_id, m.member_id, m.instance_id, m.host, m.client_id, m.epoch, _assignment(m))
        for g in report.facts.groups
        for m in g.members
    ]
    columns = ["group", "member", "instance", "host", "client", "epoch", "assignment"]
    return DataFrame(rows, columns=columns, dtype="object").astype({"epoch": "Int64"})


FRAMES: dict[str, Callable[[LagReport], DataFrame]] = {
    "offsets": lambda report: report.partitions,
    "members": _members_frame,
    "state": lambda report: report.groups,
}
