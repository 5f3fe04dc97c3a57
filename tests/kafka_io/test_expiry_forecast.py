"""Forecasts of expiry made beforehand, against the tombstones that a broker then really writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from applications import PATIENCE_S, Applications
from clients import Consumer
from confluent_kafka import TopicPartition as Assignment
from expiring_groups import (
    CHECK_S,
    OFFSETS_PARTITIONS,
    RETENTION_S,
    STOP_EARLY,
    STOP_LATE,
    TA0,
    TRANSACTIONS,
    Cast,
)

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.groups.group_settings import read_expiry_settings
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.logs.log_offsets import read_log_offsets
from toolkit.kafka_io.offsets_topic.commit_records import decode_commit_key
from toolkit.kafka_io.offsets_topic.latest_tables import decode_commits, decode_groups
from toolkit.kafka_io.offsets_topic.partitions import (
    OFFSETS_TOPIC,
    offsets_partitions,
    partition_of,
)
from toolkit.kafka_io.offsets_topic.reader import read_offsets_log
from toolkit.kafka_io.wire.fields import MalformedMessage
from toolkit.model import Cluster, GroupState, GroupType, TopicPartition
from toolkit.planning.expiry.expiry_forecast import with_expiry
from toolkit.planning.expiry.expiry_rules import ExpiryRule
from toolkit.planning.unsubscribed.group_activity import group_facts

pytestmark = [pytest.mark.slow("waits for offsets to expire"), pytest.mark.starts("a broker")]

GRAIN_S = 1.0  # of clocks and timers
Key = tuple[str, str, int]
Verdicts = dict[Key, str]


class Forecast(NamedTuple):
    """A forecast, and when its facts were read."""

    made_at_s: float
    rows: dict[Key, pd.Series[Any]]


def forecast(cluster: Cluster, *, meanwhile: Callable[[], None] | None = None) -> Forecast:
    """
    Read the facts as the pipeline does, and return the forecast that follows from them.

    `meanwhile` is called between the reading of commits and that of logs.
    """
    made_at_s = time.time()
    with Connection(cluster) as connection:
        listed, problems = list_groups(connection)
        commits, groups = logged(connection, [group.group_id for group in listed])
        settings = read_expiry_settings(connection)
        if meanwhile:
            made_at_s = time.time()
            meanwhile()
        places = [*map(TopicPartition, commits["topic"], commits["partition"])]
        _, unread = read_log_offsets(connection, places)
    assert not problems
    told = pd.DataFrame(
        [(g.group_id, str(g.type), str(g.state), g.protocol_type) for g in listed],
        columns=["group", "type", "state", "protocol_type"],
    )
    groups = commits[["cluster", "group"]].drop_duplicates().merge(groups, "left", "group")
    known = group_facts(groups, told, complete=True)
    facts = commits.merge(known, "left", ["cluster", "group"])
    subscribed = [
        None if why else isinstance(topics, np.ndarray) and topic in topics
        for topic, topics, why in zip(
            facts["topic"], facts["subscribed"], facts["unreadable"], strict=True
        )
    ]
    why = {(problem.topic, problem.partition): problem.why for problem in unread}
    facts = facts.assign(
        subscribed=pd.array(subscribed, dtype="boolean"),
        log_problem=[why.get(place, "") for place in places],
        retention_s=settings.retention_s,
        check_interval_s=settings.check_interval_s,
    )
    found = with_expiry(facts, now=datetime.fromtimestamp(made_at_s, UTC))
    keys = zip(found["group"], found["topic"], found["partition"], strict=True)
    return Forecast(made_at_s, dict(zip(keys, (row for _, row in found.iterrows()), strict=True)))


def logged(connection: Connection, names: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return commits and groups from the log; what a transaction hides there, from coordinators."""
    commits, groups = [], []
    for number, log in offsets_partitions(connection).logs.items():
        read = read_offsets_log(connection.cluster, number, log)
        groups.append(decode_groups(read.latest)[0])
        found, source = decode_commits(read.latest)[0], "offsets topic"
        if read.unstable_tail:
            ours = [name for name in names if partition_of(name, OFFSETS_PARTITIONS) == number]
            rows = [
                (c.group_id, c.topic, c.partition, c.offset, c.pending)
                for c in read_commits(connection, ours)[0]
            ]
            columns = ("group", "topic", "partition", "committed", "pending")
            cells = map(list, zip(*rows, strict=True))
            found, source = pa.table(dict(zip(columns, cells, strict=True))), "admin"
        found = found.append_column("source", pa.repeat(source, len(found)))
        if "pending" not in found.column_names:
            found = found.append_column("pending", pa.repeat(pa.scalar(False), len(found)))
        commits.append(found)
    table = pa.concat_tables(commits, promote_options="default").to_pandas()
    return table.assign(cluster="minute"), pa.concat_tables(groups).to_pandas()


def tombstones(address: str) -> dict[Key, list[float]]:
    """Return when each committed offset was removed, by the broker's own clock."""
    found: dict[Key, list[float]] = {}
    settings = {
        "bootstrap.servers": address,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer({**settings, "isolation.level": "read_uncommitted"})
    consumer.assign([Assignment(OFFSETS_TOPIC, n, 0) for n in range(OFFSETS_PARTITIONS)])
    ended: set[int] = set()
    while len(ended) < OFFSETS_PARTITIONS:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        if message.error():
            ended.add(message.partition())
        elif message.value() is None:
            try:
                key = decode_commit_key(message.key())
            except MalformedMessage:
                continue
            found.setdefault(key, []).append(message.timestamp()[1] / 1000)
    consumer.close()
    return found


GONE_IN_TIME, KEPT, NOT_DUE, NOT_KNOWN = "gone in time", "kept", "not due yet", "not known"
IN_ORDER = {GONE_IN_TIME, KEPT, NOT_DUE, NOT_KNOWN}


def lateness(gone: dict[Key, list[float]], cast: Cast) -> float:
    """Return by how many seconds the broker may be late on this machine, from the controls."""
    late_s = [gone[group, *TA0][0] - at_s - RETENTION_S for group, at_s in cast.controls.items()]
    # What is measured at some of its looks is not the worst of all.
    return max(GRAIN_S, 2 * (max(late_s) - CHECK_S))


def judge(
    told: Forecast, gone: dict[Key, list[float]], cast: Cast, *, end_s: float, late_s: float
) -> Verdicts:
    """Compare a forecast with what came after it; a verdict out of order says what was done."""
    verdicts = {}
    for key, row in told.rows.items():
        at_s = next((at_s for at_s in gone.get(key, []) if at_s >= told.made_at_s), None)
        due_s, by_s = (instant(row[name]) for name in ("expires_at", "expires_by"))
        if "none" == row["expiry_confidence"]:
            verdict = NOT_KNOWN
        elif due_s is None or by_s is None:
            verdict = KEPT if at_s is None else ""
        elif at_s is None:
            verdict = NOT_DUE if by_s > end_s else ""
        else:
            verdict = GONE_IN_TIME if due_s <= at_s <= by_s + late_s else ""
        verdicts[key] = verdict or what_was_done(cast, key, told.made_at_s, at_s)
    return verdicts


def what_was_done(cast: Cast, key: Key, made_at_s: float, at_s: float | None) -> str:
    """Return what was done to a group or topic between a forecast and what became of an offset."""
    return "; ".join(
        event.what
        for event in cast.events
        if event.group == key[0]
        and event.topic in {None, key[1]}
        and made_at_s <= event.at_s
        and (at_s is None or event.at_s <= at_s)
    )


def instant(moment: Any) -> float | None:
    return None if pd.isna(moment) else moment.timestamp()


def otherwise(verdicts: Verdicts) -> set[tuple[str, str]]:
    """Return group and verdict of all that came otherwise than was told."""
    return {(key[0], verdict) for key, verdict in verdicts.items() if verdict not in IN_ORDER}


@pytest.mark.since("4.2")
def test_forecasts_against_the_tombstones_that_came(minute_apps: Applications) -> None:
    """Every row of the table: what expires does so in time, what is kept is there at the end."""
    apps = minute_apps
    cast = Cast(apps)
    cast.start()

    def delete_topics() -> None:
        apps.delete_topic("gone-1")
        apps.delete_topic("gone-2")

    first = forecast(apps.cluster, meanwhile=delete_topics)
    # What is committed again now would expire when it was told to: both are too close together.
    simple_by_s = instant(first.rows["simple", "ta", 0]["expires_by"])
    assert simple_by_s
    wait_until(simple_by_s - RETENTION_S + 2 * GRAIN_S)
    cast.change_some()
    second = forecast(apps.cluster)
    changed_s = time.time()
    wait_until(instant(first.rows["last", "tb", 0]["expires_at"]))
    apps.eventually(lambda: ("tb", 0) not in {(c.topic, c.partition) for c in cast.commits("last")})
    third = forecast(apps.cluster)
    cast.settle_all()
    settled_s = time.time()
    controls = cast.control("late", range(OFFSETS_PARTITIONS))
    fourth = forecast(apps.cluster)
    # What is kept must be there for as long as anything else is due.
    wait_until(max(instant(row["expires_at"]) or 0 for row in fourth.rows.values()))
    apps.eventually(lambda: not cast.commits(*controls))
    end_s = time.time()
    gone = tombstones(apps.address)
    late_s = lateness(gone, cast)
    forecasts = (first, second, third, fourth)
    told = [judge(one, gone, cast, end_s=end_s, late_s=late_s) for one in forecasts]
    strictly = [judge(one, gone, cast, end_s=end_s, late_s=GRAIN_S) for one in forecasts]

    # On a busy machine, with the lateness it allows, what was changed may seem to come in time.
    changed = [BEFORE_ANY_CHANGE, BEFORE_ALL_SETTLES, BEFORE_ALL_SETTLES, set()]
    for most, expected, least in zip(strictly, changed, told, strict=True):
        assert set() == otherwise(least) - expected
        assert set() == expected - otherwise(most)
    # A transaction hides its partition of the log, so that nothing but this is told from there.
    hidden = {(group, "ta", 1) for group in TRANSACTIONS}
    assert hidden == {key for one in told for key, verdict in one.items() if NOT_KNOWN == verdict}
    rules = {row["expiry_rule"] for one in (first, fourth) for row in one.rows.values()}
    assert set(ExpiryRule) - {"no commit", "share group", "unknown"} == rules
    check_stopped(first, gone, STOP_EARLY, changed_s + late_s)
    check_stopped(third, gone, STOP_LATE, settled_s + late_s)
    for key in [*keys_of(third, *TRANSACTIONS), ("preparing", "tb", 0), ("completing", "tb", 0)]:
        assert third.made_at_s < gone[key][-1] <= settled_s + CHECK_S + late_s
    kept = {key for key, verdict in told[3].items() if verdict == KEPT}
    there = {(c.group_id, c.topic, c.partition) for c in cast.commits(*{key[0] for key in kept})}
    assert kept <= there
    with Connection(apps.cluster) as connection:
        (share,) = (g for g in list_groups(connection)[0] if g.group_id == "share")
    assert (GroupType.SHARE, GroupState.EMPTY) == (share.type, share.state)


# What was done to groups after a forecast: only there may something else come than was told.
BEFORE_ALL_SETTLES = {
    *((group, "transaction ended") for group in TRANSACTIONS),
    *((group, "rebalance over") for group in ("preparing", "completing")),
    *((group, "last member left") for group in STOP_LATE),
}
BEFORE_ANY_CHANGE = BEFORE_ALL_SETTLES - {("consumer-again", "last member left")} | {
    *((group, "last member left") for group in STOP_EARLY),
    ("consumer-again", "committed again; last member left"),
    ("simple", "committed again"),
    ("deleted-later", "topic deleted"),
    ("offset-delete", "OffsetDelete"),
}


def wait_until(at_s: float | None) -> None:
    time.sleep(max(0, (at_s or 0) - time.time()))


def keys_of(told: Forecast, *groups: str) -> list[Key]:
    return [key for key in told.rows if key[0] in groups]


def check_stopped(
    told: Forecast, gone: dict[Key, list[float]], groups: tuple[str, ...], stopped_by_s: float
) -> None:
    """
    Check what a forecast made while groups were live told of their stopping, which they did.

    `stopped_by_s` is when they had stopped, and the broker had noticed at the latest.
    """
    keys = [
        key
        for key in keys_of(told, *groups)
        if told.rows[key]["expiry_rule"] != "nobody subscribes"
    ]
    assert set(groups) == {key[0] for key in keys}
    at_once = {key[0] for key in keys if told.rows[key]["expires_immediately_if_stopped"]}
    # The clock of the last one may have just run out.
    assert set(groups) & {"consumer-late", "streams-late", "chosen-late"} == (
        at_once - {"consumer-again"}
    )
    for key in keys:
        foretold_s = told.rows[key]["expires_if_stopped_at"].timestamp()
        latest_s = foretold_s + (stopped_by_s - told.made_at_s) + CHECK_S
        assert foretold_s <= gone[key][-1] <= latest_s, key
