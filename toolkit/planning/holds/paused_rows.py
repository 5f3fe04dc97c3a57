"""Paused partitions of all groups as plain rows."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Any

from toolkit.model import Member, Snapshot
from toolkit.model.rows import Kind, Rows

PAUSED_COLUMNS: dict[str, Kind] = {
    "cluster": "text",
    "group": "name",
    "topic": "text",
    "partition": "number",
    "paused_by": "text",
    "host": "text",
    "paused_since": "time",
    "paused_until": "time",
    "reason": "text",
    "survives_keeper_s": "duration",
    "hold_status": "text",
}


class HoldOwnership(StrEnum):
    """Whose hold it is, and whether its keeper is running."""

    HELD = "held"  # a running keeper of this user maintains it
    FOREIGN = "foreign"  # of another user or host, or unknown
    ORPHANED = "orphaned"  # the keeper is gone: it ends at the session timeout


def paused_rows(
    snapshot: Snapshot,
    *,
    by: tuple[str, str] | None = None,
    groups_with_keeper: Collection[str] = (),
) -> Rows:
    """
    Return a row for each paused partition of each group, as reported by the brokers.

    `by` is this user and host; `groups_with_keeper` are the groups for which a keeper of this user
    is running. Columns: cluster, group, topic, partition, paused_by, host, paused_since,
    paused_until (UTC, None if unknown), reason, survives_keeper_s (how long it lasts without its
    keeper), hold_status (see `HoldOwnership`).
    """
    rows = [
        (
            *(snapshot.cluster, group.group_id, *partition),
            *_holder_cells(member),
            str(_ownership(member, by, has_live_keeper=group.group_id in groups_with_keeper)),
        )
        for group in snapshot.groups
        for partition, member in sorted(group.paused.items())
    ]
    return Rows(PAUSED_COLUMNS, rows)


def _holder_cells(member: Member) -> tuple[Any, ...]:
    """Return user, host, start, end and reason; client id and host if there is no note."""
    note = member.hold_note
    if note is None or not note.who:
        return member.client_id, member.host, None, None, "", None
    return note.who, note.host, note.since, note.until, note.reason, note.survives_s


def _ownership(
    member: Member, by: tuple[str, str] | None, *, has_live_keeper: bool
) -> HoldOwnership:
    note = member.hold_note
    if note is None or (note.who, note.host) != by:
        return HoldOwnership.FOREIGN
    return HoldOwnership.HELD if has_live_keeper else HoldOwnership.ORPHANED
