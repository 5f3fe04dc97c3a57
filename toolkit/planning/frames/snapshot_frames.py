"""
Facts of a snapshot as frames.

Integer columns are pandas' nullable Int64, so that missing offsets stay missing and large ones
exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from toolkit.model import Group, Problem, Snapshot
from toolkit.model.rows import Kind, Rows
from toolkit.planning.frames.frame_of import frame_of
from toolkit.planning.lag.lag_rows import group_rows, partition_rows
from toolkit.planning.selection.partition_selection import scopes_of

if TYPE_CHECKING:
    import pandas as pd

GROUP_COLUMNS: dict[str, Kind] = {
    "cluster": "text",
    "group": "name",
    **dict.fromkeys(("type", "state", "protocol", "assignor"), "text"),
    **dict.fromkeys(("coordinator", "members"), "number"),
    "subscribed": "text",
}

PROBLEM_COLUMNS: dict[str, Kind] = {
    **dict.fromkeys(("cluster", "what"), "text"),
    "group": "name",
    "topic": "text",
    "partition": "number",
    "why": "text",
}
MEMBER_COLUMNS: dict[str, Kind] = {
    **dict.fromkeys(("member", "host", "instance_id", "rack"), "text"),
    "partitions": "number",
    **dict.fromkeys(("assigned_partitions", "paused_partitions", "subscribed"), "text"),
    "member_id": "text",
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
            _subscribed(group.unreadable_subscription, group.subscribed_topics),
        )
        for group in snapshot.groups
    ]
    return Rows(GROUP_COLUMNS, rows)


def _subscribed(unreadable: str, topics: Iterable[str]) -> str:
    return f"({unreadable})" if unreadable else ", ".join(sorted(topics))


def offsets_frame(snapshot: Snapshot) -> pd.DataFrame:
    """
    Return `partition_rows` as a frame: one row for each partition that a group committed or owns.

    Offsets and lags are Int64, null if unknown; committed_at is UTC. `pending`: an open transaction
    has a pending commit; `owner`: "client-id @ host" of the assigned member, "paused by USER @
    HOST", or "".
    """
    return frame_of(partition_rows(snapshot), partition="int64", pending="bool")


def groups_frame(snapshot: Snapshot) -> pd.DataFrame:
    """One row for each group: `group_list` as a frame."""
    return frame_of(group_list(snapshot))


def groups_with_lag(snapshot: Snapshot) -> pd.DataFrame:
    """Return a `groups_frame` with the lag columns of `group_rows`."""
    lags = frame_of(group_rows(snapshot))[["group", "lag", "unknown_lag_partitions"]]
    return groups_frame(snapshot).merge(lags, how="left", on="group")


def problems_frame(problems: Iterable[Problem], *, cluster: str) -> pd.DataFrame:
    """One row for each read error: cluster, what, group, topic, partition, why."""
    return problems_of_clusters([(cluster, problems)])


def problems_of_clusters(found: Iterable[tuple[str, Iterable[Problem]]]) -> pd.DataFrame:
    """Return the read errors of several clusters as `problems_frame` returns those of one."""
    rows = [
        (cluster, p.what, p.group_id, p.topic, p.partition, p.why)
        for cluster, problems in found
        for p in problems
    ]
    return frame_of(Rows(PROBLEM_COLUMNS, rows))


def members_frame(group: Group) -> pd.DataFrame:
    """
    One row for each member of a group, by client id and host.

    Columns: member (client id), host, instance_id ("" if dynamic), rack, partitions (Int64),
    assigned_partitions (`topic:0-2`, one scope after the other), paused_partitions, subscribed
    (topics, or in parentheses why they are unknown), member_id.
    """
    rows = [
        (
            member.client_id,
            member.host,
            member.instance_id or "",
            member.rack_id or "",
            len(member.assignment),
            ", ".join(map(str, scopes_of(member.assignment))),
            ", ".join(map(str, scopes_of(member.holds))),
            _subscribed(member.subscription.unreadable, member.subscription.topics),
            member.member_id,
        )
        for member in sorted(group.members, key=lambda m: (m.client_id, m.host, m.member_id))
    ]
    return frame_of(Rows(MEMBER_COLUMNS, rows))
