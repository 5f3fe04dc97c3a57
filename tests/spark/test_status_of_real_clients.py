"""The words that the fleet job finds for groups whose behaviour is known, because it is made."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from applications import Applications
from brokers import until_ready
from example_groups import ExampleGroups
from pyspark.sql import SparkSession

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.logs.log_offsets import read_log_offsets
from toolkit.kafka_io.logs.offset_time_lookup import TimeLookup, read_log_times
from toolkit.kafka_io.offsets_topic.latest_tables import (
    COMMITS,
    GROUPS,
    decode_commits,
    decode_groups,
)
from toolkit.kafka_io.offsets_topic.partitions import offsets_partitions
from toolkit.kafka_io.offsets_topic.reader import read_offsets_log
from toolkit.model import Cluster, Group, TopicPartition
from toolkit.planning.lag.lag import with_lag
from toolkit.planning.lag.status import with_status
from toolkit.planning.lag.status_rules import StatusRules
from toolkit.planning.lag.time_lag import earlier_ends, with_time_lag
from toolkit.planning.lag.trend import look_back_s
from toolkit.planning.unsubscribed.group_activity import group_facts
from toolkit.sandbox.broker import start_broker
from toolkit.spark.arrow import as_frame
from toolkit.spark.fleet_lag import fleet_lag
from toolkit.spark.fleet_options import FleetOptions

pytestmark = [pytest.mark.live("consumers run"), pytest.mark.starts("a broker")]

# A member commits each second, and the log keeps sixteen of its commits.
OF_GROUP = {"STOP": "ERR", "STALL": "ERR", "REWIND": "ERR"}  # as in Burrow
RULES = StatusRules(window_s=20, patience_s=6, tolerance=0.2)
SILENT_S, SERIES, LOOKS = 10, 16, 5
# Members that are not stepped for longer, or whose commits take longer, do something else than they
# are to do: each commits every second.
PAUSE_S, PATIENCE_S = 2.5, 600
STANDING = {"stalled", "hung", "stopped", "simple"}


class Expected(NamedTuple):
    """What is published of one behaviour, and what Burrow was measured to say of it."""

    status: str
    member_state: str | None
    trend: str | None  # "": not asked
    burrow: str


ALIVE, SILENT, IDLE, GONE = "alive and committing", "alive and silent", "alive and idle", "gone"
EXPECTED = {
    "fast": Expected("OK", ALIVE, "", "OK"),
    "slow": Expected("WARN", ALIVE, "falling behind", "OK"),
    "constant": Expected("OK", ALIVE, "", "OK"),
    "stalled": Expected("STALL", ALIVE, "falling behind", "STALL"),
    "hung": Expected("STOP", SILENT, "", "STOP"),
    "stopped": Expected("STOP", GONE, "", "STOP"),
    "rewound": Expected("REWIND", ALIVE, "falling behind", "OK, REWIND for 15 commits"),
    "unsubscribed": Expected("UNSUBSCRIBED", None, None, "STOP"),
    "idle": Expected("OK", IDLE, "", "OK"),
    "simple": Expected("STOP", None, "", "STOP"),
    "beyond": Expected("ERR", None, "", "OK"),
    "lost": Expected("ERR", None, "", "not measured"),
}
BY_ADMIN = ("simple", "beyond", "lost")  # which have no members
TRUE_TOPIC = {"unsubscribed": "left", "idle": "quiet", "beyond": "quiet", "lost": "cut"}


class Acting(NamedTuple):
    """One group, of which behaviour, and the topic that tells."""

    behaviour: str
    protocol: str
    topic: str


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster of these groups alone, on which nobody else deletes or holds up anything."""
    broker = start_broker(tmp_path_factory.mktemp("stage"))
    try:
        until_ready(broker.address)
        yield Cluster("stage", broker.address)
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def acting(
    stage: Cluster, applications_until: Callable[[Cluster, ExitStack], Applications]
) -> Iterator[tuple[ExampleGroups, dict[str, Acting]]]:
    """Return the groups, which act while the tests run."""
    with ExitStack() as ending:
        example_groups = ExampleGroups(applications_until(stage, ending))
        groups = {}
        for behaviour in (*EXPECTED, "deleted"):
            for protocol in ("classic",) if behaviour in BY_ADMIN else ("classic", "consumer"):
                name = example_groups.apps.name(f"{behaviour}-{protocol}")
                topic = getattr(example_groups, TRUE_TOPIC.get(behaviour, "stream"))
                groups[name] = Acting(behaviour, protocol, topic)
                example_groups.add(behaviour, name, protocol)
        example_groups.start()
        ending.callback(example_groups.stop)
        yield example_groups, groups


class FromLog(NamedTuple):
    """What the offsets topic tells of commits and of groups, and when it was read."""

    commits: pd.DataFrame
    groups: pd.DataFrame
    read_at: datetime


def read_the_log(cluster: Cluster) -> FromLog:
    with Connection(cluster) as connection:
        read_at = datetime.now(UTC)
        logs = offsets_partitions(connection).logs
    latest = [read_offsets_log(cluster, number, log).latest for number, log in logs.items()]
    commits = [decode_commits(table)[0] for table in latest]
    groups = [decode_groups(table)[0] for table in latest]
    return FromLog(
        as_frame(pa.concat_tables([COMMITS.empty_table(), *commits])),
        as_frame(pa.concat_tables([GROUPS.empty_table(), *groups])),
        read_at,
    )


def judged(cluster: Cluster) -> pd.DataFrame:
    """Return every commit of a cluster with its status, from what was just read."""
    told = read_the_log(cluster)
    pairs = zip(told.commits["topic"], told.commits["partition"], strict=True)
    places = [TopicPartition(*pair) for pair in pairs]
    with Connection(cluster) as connection:
        listed, _ = list_groups(connection)
        logs, _ = read_log_offsets(connection, places)
        now = datetime.now(UTC).replace(microsecond=0)
        back = [now - timedelta(seconds=age) for age in look_back_s(RULES)]
        wanted: dict[TopicPartition, set[int]] = defaultdict(set)
        for place, offset in zip(places, told.commits["committed"], strict=True):
            wanted[place].add(int(offset))
        times = read_log_times(connection, wanted, logs, TimeLookup(now, at=tuple(back)))
    known = [logs[place] for place in places]
    facts = with_groups(told, listed).assign(
        cluster=cluster.name,
        log_start=pd.array([log.log_start for log in known], "Int64"),
        log_end=pd.array([log.log_end for log in known], "Int64"),
        last_stable=pd.array([log.last_stable for log in known], "Int64"),
        log_problem="",
        skew_s=(now - told.read_at).total_seconds(),
        points=[times.points[place] for place in places],
        hold="",
        hold_unread="",
    )
    ends = [earlier_ends(times.points[place], logs[place].log_end, back) for place in places]
    facts["past_at"] = [list(end) for end in ends]
    facts["past_end"] = [list(end.values()) for end in ends]
    return with_status(with_time_lag(with_lag(facts), now=now), now=now, rules=RULES)


def with_groups(told: FromLog, listed: Sequence[Group]) -> pd.DataFrame:
    """Add to each commit what is known of its group."""
    names = told.commits[["group"]].drop_duplicates()
    logged = names.merge(told.groups, on="group", how="left").assign(cluster="")
    states = [(g.group_id, str(g.type), str(g.state), g.protocol_type) for g in listed]
    coordinators = pd.DataFrame(states, columns=["group", "type", "state", "protocol_type"])
    groups = group_facts(logged, coordinators, complete=True)
    facts = told.commits.merge(groups, on="group", how="left")
    subscribed = [
        None if why else isinstance(topics, np.ndarray) and topic in topics
        for why, topics, topic in zip(
            facts["unreadable"], facts["subscribed"], facts["topic"], strict=True
        )
    ]
    return facts.assign(subscribed=pd.array(subscribed, "boolean"), pending=False)


def shows(group: Acting, commits: pd.DataFrame) -> bool:
    """Say whether the log shows that the group does what it is to do."""
    if group.behaviour == "deleted":
        return True  # what counts is that nothing is left
    if commits.empty:
        return False
    (commit,) = commits.itertuples()
    silent_s = (datetime.now(UTC) - commit.committed_at).total_seconds()
    offsets = list(commit.recent_offset)
    if group.behaviour in {"fast", "slow", "constant"}:
        return len(offsets) == SERIES and offsets == sorted(offsets) and offsets[0] < offsets[-1]
    if group.behaviour == "stalled":
        return len(offsets) == SERIES and offsets[0] == offsets[-1]
    if group.behaviour == "rewound":
        # The drop is so long ago that the series does not show it any more.
        return offsets[0] < offsets[-1] < commit.max_committed and len(offsets) == SERIES == len(
            [one for one in offsets if one < commit.max_committed]
        )
    return silent_s > SILENT_S


def not_shown(
    cluster: Cluster, example_groups: ExampleGroups, groups: dict[str, Acting]
) -> list[str]:
    """Return the groups of which the log does not show yet that they do what they are to do."""
    example_groups.check()
    try:
        commits = read_the_log(cluster).commits
    except BrokerRefused:
        return list(groups)  # the broker has only just begun to make its offsets topic
    rows = {
        name: commits[(commits["group"] == name) & (commits["topic"] == group.topic)]
        for name, group in groups.items()
    }
    deleted = {name for name, group in groups.items() if group.behaviour == "deleted"}
    alive = {name for name in groups.keys() - deleted if shows(groups[name], rows[name])}
    return sorted(groups.keys() - alive - (deleted & example_groups.deleted))


def wait_until_shown(
    cluster: Cluster, example_groups: ExampleGroups, groups: dict[str, Acting]
) -> None:
    """Wait until all groups do what they are to do."""
    give_up_at = time.monotonic() + PATIENCE_S
    while late := not_shown(cluster, example_groups, groups):
        assert time.monotonic() < give_up_at, f"not shown after {PATIENCE_S} s: {late}"
        time.sleep(1)  # reading at full speed would keep the members from theirs


def compared(
    partitions: pd.DataFrame, groups: dict[str, Acting], true_lag: dict[tuple[str, str], int]
) -> pd.DataFrame:
    """Return a line for each group: what it does, its true lag, what is published, and Burrow's."""
    mine = partitions[partitions["group"].isin(list(groups))]
    by_place = {(row.group, row.topic): row for row in mine.itertuples()}
    lines = []
    for name, group in groups.items():
        if group.behaviour == "deleted":
            continue
        row, expected = by_place[name, group.topic], EXPECTED[group.behaviour]
        words = tuple(
            None if pd.isna(word) else word for word in (row.status, row.member_state, row.trend)
        )
        right = words[:2] == expected[:2] and expected.trend in {"", words[2]}
        lag = true_lag[name, group.topic]
        said = (row.lag, *words, row.status_why, expected.burrow)
        lines.append((group.behaviour, group.protocol, lag, *said, right))
    columns = ["behaviour", "protocol", "true lag", "lag", "status", "member", "trend", "why"]
    return pd.DataFrame(lines, columns=[*columns, "Burrow", "right"])


def look_at(
    look: Callable[[], pd.DataFrame], example_groups: ExampleGroups, groups: dict[str, Acting]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """
    Look until all words are right, some times at most; return what was found, compared.

    A look does not count for which a busy machine kept the members from their steps.
    """
    give_up_at, counted = time.monotonic() + PATIENCE_S, 0
    while True:
        began = time.monotonic()
        true_lag = example_groups.lag_by_admin(groups)
        partitions = look()
        table = compared(partitions, groups, true_lag)
        now = time.monotonic()
        before_s = now - began + 2 * RULES.window_s
        counted += example_groups.longest_pause_s(within_s=before_s) <= PAUSE_S
        if table["right"].all() or counted == LOOKS or now > give_up_at:
            return partitions, table
        example_groups.check()
        time.sleep(1)  # reading at full speed would keep the members from theirs


def check(partitions: pd.DataFrame, table: pd.DataFrame, deleted: set[str]) -> None:
    """Check words and lag, and that a deleted group has left nothing."""
    assert table["right"].all(), f"\n{in_words(table)}"
    assert not set(partitions["group"]) & deleted
    standing = table[table["behaviour"].isin(STANDING)]
    # The log end was read after the Admin client read it, and the log only grows.
    assert (standing["lag"] >= standing["true lag"]).all()


def in_words(table: pd.DataFrame) -> str:
    return table.to_string(index=False, max_colwidth=90)


def test_each_behaviour_has_its_word(
    stage: Cluster,
    acting: tuple[ExampleGroups, dict[str, Acting]],
    record_property: Callable[[str, object], None],
) -> None:
    """
    Twelve behaviours of real members have their words, and a deleted group has no row at all.

    Members are librdkafka's, of classic and of KIP-848 groups; simple groups are an admin client's.
    """
    example_groups, groups = acting
    wait_until_shown(stage, example_groups, groups)
    partitions, table = look_at(lambda: judged(stage), example_groups, groups)
    record_property("behaviours", in_words(table))

    check(partitions, table, example_groups.deleted)


def test_the_fleet_job_publishes_the_same_words(
    session: SparkSession,
    stage: Cluster,
    acting: tuple[ExampleGroups, dict[str, Acting]],
    record_property: Callable[[str, object], None],
) -> None:
    """However long the job takes from reading commits to reading logs, its words are right."""
    example_groups, groups = acting
    wait_until_shown(stage, example_groups, groups)
    options = FleetOptions(rules=RULES)
    found = {}

    def look() -> pd.DataFrame:
        with fleet_lag(session, [stage], options) as result:
            found["groups"] = as_frame(result.groups.toArrow())
            return as_frame(result.partitions.toArrow())

    partitions, table = look_at(look, example_groups, groups)
    record_property("published", in_words(table))
    by_group = found["groups"].set_index("group")["status"]

    check(partitions, table, example_groups.deleted)
    for name, group in groups.items():
        status = EXPECTED[group.behaviour].status if group.behaviour in EXPECTED else None
        assert by_group.get(name) == (OF_GROUP.get(status, status) if status else None), name
