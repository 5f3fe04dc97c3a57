"""The members of a group as a frame: who they are, where, and what they read."""

from __future__ import annotations

import pandas as pd

from toolkit.model import Group
from toolkit.planning.scope import scopes_of

MEMBER_COLUMNS = (
    *("member", "host", "static", "rack", "partitions", "reads", "holds", "subscribed"),
    "member_id",
)


def members_frame(group: Group) -> pd.DataFrame:
    """
    One row for each member of a group, by client id and host.

    Columns: member (client id), host, static (instance id or ""), rack, partitions (Int64), reads
    (`topic:0-2`, one scope after the other), holds (what it keeps from the others), subscribed
    (topics, or in brackets why they are not known), member_id.
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
