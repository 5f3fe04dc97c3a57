"""Read what a hold plan needs besides the snapshot: group settings and consumption rates."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.leaders import described_once
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.group_settings import read_group_settings
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import CaptureMode, Cluster, Group, GroupType, Snapshot
from toolkit.model.groups import REBALANCES
from toolkit.operate.first_records import first_unread
from toolkit.planning.holds.hold_context import HoldFacts, HoldSettings
from toolkit.planning.holds.hold_rules import not_stable
from toolkit.planning.holds.recipes import EAGER
from toolkit.storage.state_folder import Operator

APART_S = 2.0  # two samples give the production rate
AT_REST_WITHIN_S = 15.0  # three heartbeat intervals of a KIP-848 group by default
READ_AGAIN_S = 0.5  # all facts of a plan
MS = 1000


Waiting = Callable[[], AbstractContextManager[object]]  # shows that a rebalance is waited for


@described_once()
def sample_hold_facts(
    cluster: Cluster,
    group: str,
    *,
    prefer: str = CaptureMode.LOSSLESS,
    waiting: Waiting = nullcontext,
) -> HoldFacts:
    """
    Read the settings and an earlier sample of one group, before its snapshot is read.

    A group that rebalances is waited for. If records may be redelivered, waits two seconds between
    the samples. Raises ClusterUnreachable.
    """
    earlier = read_at_rest(partial(read_snapshot, cluster, groups=[group]), {group}, waiting)
    known = next((found for found in earlier.groups if found.group_id == group), None)
    with connected(cluster) as connection:
        facts = read_hold_facts(connection, group, known)
    with suppress(ToolkitError):  # without READ on a topic, the age of unread records is unknown
        facts = replace(facts, unread=first_unread(cluster, earlier))
    if known is None or not _may_repeat(known, prefer):
        return facts
    time.sleep(APART_S)
    return replace(facts, earlier=earlier)


def read_at_rest(
    read: Callable[[], Snapshot], group_ids: Collection[str], waiting: Waiting = nullcontext
) -> Snapshot:
    """
    Read until none of these groups rebalances, or for a while; return the last facts.

    A rebalance may be the beginning of another operator's pause, which shows only when it ends.
    """
    give_up_at = time.monotonic() + AT_REST_WITHIN_S
    facts = read()
    if not _is_rebalancing(facts, group_ids):
        return facts
    with waiting():
        while _is_rebalancing(facts, group_ids) and time.monotonic() < give_up_at:
            time.sleep(READ_AGAIN_S)
            facts = read()
    return facts


def _is_rebalancing(facts: Snapshot, group_ids: Collection[str]) -> bool:
    rebalancing = (group for group in facts.groups if group.state in REBALANCES)
    return any(not_stable(group) for group in rebalancing if group.group_id in group_ids)


def read_hold_facts(connection: Connection, name: str, group: Group | None) -> HoldFacts:
    """Read the settings of a group, and the user of the hold; without an earlier sample."""
    settings = settings_of(group, read_group_settings(connection, name))
    return HoldFacts(settings, by=Operator.here())


def settings_of(group: Group | None, read: Mapping[str, str]) -> HoldSettings:
    """Return the hold settings from Kafka's configuration."""
    is_consumer = group is not None and group.type is GroupType.CONSUMER

    def number(*names: str) -> int | None:
        return next((int(read[name]) for name in names if name in read), None)

    minutes = number("offsets.retention.minutes")
    retention = None if minutes is None else timedelta(minutes=minutes)
    if not is_consumer:  # a classic member sets its own timeouts
        return HoldSettings(max_size=number("group.max.size"), retention=retention)
    beat = number("consumer.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms")
    session = number("consumer.session.timeout.ms", "group.consumer.session.timeout.ms")
    return HoldSettings(
        heartbeat_s=beat / MS if beat else None,
        survives_s=session / MS if session else HoldSettings().survives_s,
        max_size=number("group.consumer.max.size"),
        retention=retention,
    )


def _may_repeat(group: Group, prefer: str) -> bool:
    """Return whether a capture evicts members, whose uncommitted records are redelivered."""
    if not group.is_live:
        return False
    if group.type is GroupType.CLASSIC:
        return group.assignor not in EAGER
    if group.type is GroupType.STREAMS:
        return True
    return group.type is GroupType.CONSUMER and prefer != CaptureMode.LOSSLESS
