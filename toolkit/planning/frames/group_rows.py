"""Groups of a snapshot as plain rows."""

from __future__ import annotations

from toolkit.model import Group, Snapshot
from toolkit.model.rows import Kind, Rows

GROUP_COLUMNS: dict[str, Kind] = {
    "cluster": "text",
    "group": "name",
    **dict.fromkeys(("type", "state", "protocol", "assignor"), "text"),
    **dict.fromkeys(("coordinator", "members"), "number"),
    "subscribed": "text",
}


def group_list(snapshot: Snapshot) -> Rows:
    """Return a row for each group; `subscribed` are topics, or in parentheses why unknown."""
    rows = [
        (
            snapshot.cluster,
            group.group_id,
            str(group.type),
            str(group.state),
            group.protocol_type or "",
            group.assignor or "",
            group.coordinator_id,
            len(group.members) if group.described else None,
            _subscription(group),
        )
        for group in snapshot.groups
    ]
    return Rows(GROUP_COLUMNS, rows)


def _subscription(group: Group) -> str:
    """Return topic names, or in parentheses why they are unknown; "" without a subscription."""
    why = group.unreadable_subscription
    return f"({why})" if why else ", ".join(sorted(group.subscribed_topics))
