"""Samples of one group, payments, that reads the topic orders, as its commits are watched."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from facts import NOON, live, member, snapshot

from toolkit.model import (
    HOLDER_CLIENT_ID,
    Commit,
    Group,
    HoldNote,
    Snapshot,
    Subscription,
    TopicPartition,
)

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
READER = live("payments", member("orders", owns=(P0,)))
UNSUBSCRIBED = live("payments", member("bills"))
UNDESCRIBED = live("payments", described=False)
HOLDER = replace(
    member(owns=(P0,)),
    client_id=HOLDER_CLIENT_ID,
    subscription=Subscription(frozenset({"orders"})),
    holds=(P0,),
    hold_note=HoldNote("alice", "laptop", since=NOON),
)
HELD = live("payments", HOLDER)
Offsets = dict[TopicPartition, int]


def sample(
    committed: Offsets,
    *,
    after_s: float = 0,
    group: Group | None = READER,
    committed_at: datetime | None = None,
    logs: dict[Any, tuple[int | None, int | None]],
) -> Snapshot:
    """Return a sample of the group, taken so many seconds after noon."""
    commits = tuple(
        Commit("payments", *place, offset, committed_at=committed_at)
        for place, offset in committed.items()
    )
    found = snapshot(*([group] if group else []), commits=commits, logs=logs)
    return replace(found, taken_at=NOON + timedelta(seconds=after_s))
