"""What the fleet job says of partitions that somebody has paused."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from applications import eventually
from holding import Holding
from live_groups import LiveGroup
from operators import Operator
from pyspark.sql import SparkSession

from toolkit.model import Cluster, GroupState
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.spark.fleet_lag import fleet_lag

pytestmark = pytest.mark.live("consumers and keepers run")

KINDS = ("librdkafka-range", "librdkafka-consumer")


def test_paused_partitions_are_held(
    session: SparkSession, shared_holding: Callable[[str], Holding]
) -> None:
    """By whom, since and until when; their consumers are not reported as stopped."""
    all_held = [shared_holding(kind) for kind in KINDS]
    for one in all_held:
        one.pause(1, terms=HoldTerms(pause_for=timedelta(hours=1)))
    with fleet_lag(session, [all_held[0].operator.cluster]) as result:
        found = result.to_pandas()

    for one in all_held:
        group, note = one.live.group, one.record.note
        rows = found.partitions[found.partitions["group"] == group].set_index("partition")
        held = rows[rows["status"] == "HELD"]
        since, until = (f"{at:%Y-%m-%d %H:%M:%S} UTC" for at in (note.since, note.until))
        why = f"paused by {note.who} @ {note.host} since {since}, until {until}"
        assert {1: why} == held["status_why"].to_dict()
        (summary,) = found.groups[found.groups["group"] == group].to_dict("records")
        assert ("HELD", "HELD", why) == tuple(
            summary[name] for name in ("status", "worst_status", "status_why")
        )
        one.resume()


def test_paused_partitions_may_be_unknown(
    session: SparkSession,
    operator: Operator,
    kafka_39: Cluster,
    live_group: Callable[..., LiveGroup],
) -> None:
    """Before Kafka 4.0 no coordinator shows them during a rebalance, which the job reports."""
    held = Holding(replace(operator, cluster=kafka_39), live_group(kafka_39, "librdkafka-range"))
    applications = held.live.applications
    held.pause(1)
    stopped = applications.pid("a")
    os.kill(stopped, signal.SIGSTOP)  # it is waited for until its session ends
    try:
        applications.start("c")
        eventually(lambda: held.group.state is GroupState.PREPARING_REBALANCE)
        with fleet_lag(session, [kafka_39]) as result:
            problems = result.to_pandas().problems["problem"]
    finally:
        os.kill(stopped, signal.SIGCONT)

    said = f"held partitions of group {held.live.group}: the group is rebalancing"
    assert [said] == [one for one in problems if held.live.group in one]
