"""
Find holds whose keeper crashed without recording the end of the hold.

Until the session timeout the broker still withholds the partitions, and another keeper can take
over; then it releases them, which is not yet recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import Blocked, StateFileError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.describe_groups import Paused, read_paused
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.membership.group_config import STREAMS_DELAY_MS
from toolkit.live.hold_end_record import record_end
from toolkit.model import Cluster, GroupType, Problem, TopicPartition
from toolkit.model.names import shown_name
from toolkit.planning.selection.member_names import in_short
from toolkit.storage.hold_files import (
    HoldRecord,
    HoldStatus,
    has_live_keeper,
    keeper_lock,
    list_holds,
    read_hold,
    write_hold,
)

ENDED_ALONE = "its keeper had died; the broker released the partitions at the session timeout"


class OrphanedHold(NamedTuple):
    """
    A hold without a keeper, and its partitions that the broker still withholds.

    `has_another`: another hold has paused partitions of the group.
    """

    record: HoldRecord
    still_held: frozenset[TopicPartition]
    has_another: bool = False

    @property
    def in_words(self) -> str:
        """The hold and its state as text, with unescaped names."""
        record = self.record
        what = in_short(self.still_held or record.held)
        begun = f"the hold of run {record.run_id} on {shown_name(record.group_id)}, {what},"
        if self.still_held:
            return (
                f"{begun} has lost its keeper process. To keep the pause, pause the same "
                "partitions again; otherwise resume them"
            )
        if self.has_another:
            return f"{begun} has ended: its keeper process had died. The group has another hold now"
        ended = "has ended: its keeper process had died, and the group has resumed the partitions"
        return "; ".join(filter(None, [f"{begun} {ended}", self._left_setting]))

    @property
    def _left_setting(self) -> str:
        """How to restore the setting of a Streams group, as its keeper would have done."""
        members = self.record.members
        if self.record.type is not GroupType.STREAMS or not members.get("is_set"):
            return ""
        own = members.get("setting")
        done = f"set it back to {own}" if own else "delete it"
        return f"if its setting {STREAMS_DELAY_MS} is left, {done}, with kafka-configs.sh"


def find_orphaned_holds(cluster: Cluster, state: Path) -> list[OrphanedHold]:
    """
    Return the orphaned holds on a cluster; one that has ended is logged and returned once.

    The cluster is identified by its id, not its name. A hold that cannot be read now is left for
    later. Raises ClusterUnreachable.
    """
    left = dict(holds_without_keeper(state))
    if not left:
        return []
    found: list[OrphanedHold] = []
    with connected(cluster) as connection:
        for path, record in left.items():
            if record.cluster_id == connection.cluster_id:
                with suppress(Blocked, StateFileError):
                    found += _reconcile(path, record, connection)
    return found


def still_withheld(cluster: Cluster, group_id: str, state: Path) -> frozenset[TopicPartition]:
    """
    Return partitions of a group that are still held, though the keeper is gone.

    Another keeper can continue such a hold. Nothing is recorded. Without permission to read the
    state folder there is none to continue. Raises ClusterUnreachable.
    """
    left = []
    with suppress(StateFileError):
        left = [record for _, record in holds_without_keeper(state) if record.group_id == group_id]
    if not left:
        return frozenset()
    with connected(cluster) as connection:
        here = [record for record in left if record.cluster_id == connection.cluster_id]
        paused = _paused(connection, group_id) if here else {}
    if isinstance(paused, Problem):
        return frozenset()
    return frozenset[TopicPartition]().union(*(record.held_in(paused) for record in here))


def holds_without_keeper(state: Path) -> Iterator[tuple[Path, HoldRecord]]:
    """Yield the files and records of holds without a keeper that have not ended."""
    for path in list_holds(state):
        with suppress(StateFileError):  # a damaged file does not affect the broker
            record = None if has_live_keeper(path) else read_hold(path)
            if record and record.status is HoldStatus.HELD:
                yield path, record


def _reconcile(path: Path, record: HoldRecord, connection: Connection) -> Iterator[OrphanedHold]:
    paused = _paused(connection, record.group_id)
    if isinstance(paused, Problem):
        return  # later, when it can be read
    held = record.held_in(paused)
    if not held:
        with keeper_lock(path):
            if read_hold(path) != record:
                return  # another process was faster
            record_end(path, record, ENDED_ALONE, datetime.now(UTC))
            ended = replace(record, status=HoldStatus.ENDED, words=ENDED_ALONE, held=())
            write_hold(path, ended)
    yield OrphanedHold(record, held, has_another=paused.keys() > held)


def _paused(connection: Connection, group_id: str) -> Paused | Problem:
    listed, problems = list_groups(connection)
    groups = [group for group in listed if group.group_id == group_id]
    if not groups:
        return problems[0] if problems else {}
    return read_paused(connection, groups[0])
