"""Ask coordinators what is paused in the groups in which a member of offsetbook is."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.describe_groups import describe_groups
from toolkit.model import Cluster, Group, GroupState, GroupType, Problem
from toolkit.planning.holds.hold_words import hold_in_words
from toolkit.spark.schemas import HOLDS, HOLDS_UNREAD, schema


def holds_in(cluster: Cluster, groups: pa.Table) -> tuple[pa.Table, pa.Table]:
    """
    Return who has paused what in some groups (`schemas.HOLDS`), and what could not be read.

    `groups` are as in `schemas.HELD_GROUPS`. The second (`schemas.HOLDS_UNREAD`) has a group with
    the reason where its coordinator does not tell, as brokers before 4.0 while it rebalances.
    """
    asked = [
        Group(row["group"], GroupType(row["type"]), GroupState.UNKNOWN)
        for row in groups.to_pylist()
    ]
    found: Sequence[Group | Problem] = ()
    if asked:
        try:
            with Connection(cluster) as connection:
                found = list(describe_groups(connection, asked))
        except ToolkitError as exc:
            found = [Problem("members", str(exc), group.group_id) for group in asked]
    holds = [
        (group.group_id, *place, hold_in_words(member))
        for group in found
        if isinstance(group, Group)
        for place, member in group.paused.items()
    ]
    unread = [(one.group_id, one.why) for one in found if isinstance(one, Problem)]
    return _table(holds, HOLDS), _table(unread, HOLDS_UNREAD)


def _table(rows: Sequence[tuple[object, ...]], fields: Sequence[pa.Field]) -> pa.Table:
    names = [field.name for field in fields]
    return pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=schema(*fields)
    )
