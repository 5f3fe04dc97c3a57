"""
Facts of a snapshot as frames.

Integer columns are pandas' nullable Int64, so that missing offsets stay missing and large ones
exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import pandas as pd

from toolkit.model import Group, GroupType, Problem, Snapshot, TopicPartition
from toolkit.model.offsets import NO_LOG
from toolkit.planning.frames.group_rows import GROUP_COLUMNS, group_list
from toolkit.planning.holds.hold_words import owner_names
from toolkit.planning.selection.partition_selection import scopes_of

OFFSET_COLUMNS = ("committed", "log_start", "log_end", "last_stable")
MEMBER_COLUMNS = (
    *("member", "host", "instance_id", "rack", "partitions", "assigned_partitions"),
    *("paused_partitions", "subscribed", "member_id"),
)


def offsets_frame(snapshot: Snapshot) -> pd.DataFrame:
    """
    One row for each partition that a group has committed or owns.

    Without share groups: they have no committed offsets (KIP-932), so they have no lag.

    Columns: cluster, group, topic, partition, committed, log_start, log_end, last_stable (Int64,
    null if unknown), committed_at (UTC, null if unknown), pending (an open transaction has a
    pending commit), owner ("client-id @ host" of the assigned member, "paused by USER @ HOST", or
    "").
    """
    owners = {
        (group.group_id, *partition): name
        for group in snapshot.groups
        if group.type is not GroupType.SHARE
        for partition, name in owner_names(group).items()
    }
    commits = {(c.group_id, c.topic, c.partition): c for c in snapshot.commits}
    rows = []
    for key in sorted(commits.keys() | owners.keys()):
        commit = commits.get(key)
        log = snapshot.logs.get(TopicPartition(key[1], key[2]), NO_LOG)
        rows.append(
            (
                snapshot.cluster,
                *key,
                commit.offset if commit else None,
                log.log_start,
                log.log_end,
                log.last_stable,
                commit.committed_at if commit else None,
                commit.pending if commit else False,
                owners.get(key, ""),
            )
        )
    columns = ["cluster", "group", "topic", "partition", *OFFSET_COLUMNS]
    # Objects first: a missing offset in a column of integers would turn them all into floats.
    frame = pd.DataFrame(
        rows, columns=[*columns, "committed_at", "pending", "owner"], dtype="object"
    )
    text = dict.fromkeys(("cluster", "group", "topic", "owner"), "str")
    types = {"partition": "int64", "pending": "bool", **dict.fromkeys(OFFSET_COLUMNS, "Int64")}
    return frame.astype({**text, **types, "committed_at": "datetime64[ms, UTC]"})


def groups_frame(snapshot: Snapshot) -> pd.DataFrame:
    """One row for each group: `group_list` as a frame."""
    frame = pd.DataFrame(list(group_list(snapshot).rows), columns=list(GROUP_COLUMNS))
    return frame.astype({"coordinator": "Int64", "members": "Int64"})


def problems_frame(problems: Iterable[Problem], *, cluster: str) -> pd.DataFrame:
    """One row for each read error: cluster, what, group, topic, partition, why."""
    rows = [{"cluster": cluster, **asdict(problem)} for problem in problems]
    columns = ["cluster", "what", "group_id", "topic", "partition", "why"]
    frame = pd.DataFrame(rows, columns=columns).rename(columns={"group_id": "group"})
    return frame.astype({"partition": "Int64"})


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
            f"({member.subscription.unreadable})"
            if member.subscription.unreadable
            else ", ".join(sorted(member.subscription.topics)),
            member.member_id,
        )
        for member in sorted(group.members, key=lambda m: (m.client_id, m.host, m.member_id))
    ]
    return pd.DataFrame(rows, columns=list(MEMBER_COLUMNS)).astype({"partitions": "Int64"})
