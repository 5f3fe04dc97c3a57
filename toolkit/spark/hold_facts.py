"""Ask coordinators what is paused in the groups in which a member of offsetbook is."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.describe_groups import describe_groups
from toolkit.model import Cluster, Group, GroupState, GroupType
from toolkit.planning.holds.hold_words import hold_in_words
from toolkit.spark.schemas import HOLDS


def holds_in(cluster: Cluster, groups: pa.Table) -> pa.Table:
    """
    Return who has paused what in some groups: `schemas.HOLDS`.

    `groups` are as in `schemas.HELD_GROUPS`. What no coordinator tells now is not among it.
    """
    asked = [
        Group(row["group"], GroupType(row["type"]), GroupState.UNKNOWN)
        for row in groups.to_pylist()
    ]
    found: list[Group] = []
    if asked:
        with suppress(ToolkitError), Connection(cluster) as connection:
            found += [one for one in describe_groups(connection, asked) if isinstance(one, Group)]
    rows = [
        (group.group_id, *place, hold_in_words(member))
        for group in found
        for place, member in group.paused.items()
    ]
    names = [field.name for field in HOLDS]
    return pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=pa.schema(HOLDS)
    )
