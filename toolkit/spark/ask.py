"""
Read groups, settings, logs and holds of one cluster from its coordinators and brokers.

It uses no Spark. Each request covers all groups and positions of a task; a failed read is a problem
in its own rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from socket import gethostname
from typing import NamedTuple

import pandas as pd

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.cluster_facts import read_clock_difference
from toolkit.kafka_io.groups.describe_groups import describe_groups
from toolkit.kafka_io.groups.earlier_topics import WHY as EARLIER_TOPIC
from toolkit.kafka_io.groups.earlier_topics import read_topic_ids
from toolkit.kafka_io.groups.group_settings import read_expiry_settings
from toolkit.kafka_io.groups.listing import find_hidden, list_groups
from toolkit.kafka_io.logs.log_offsets import read_log_offsets
from toolkit.kafka_io.logs.offset_time_lookup import (
    LogTime,
    LogTimes,
    TimeLookup,
    points_around,
    read_log_times,
)
from toolkit.kafka_io.logs.record_times import read_first_records
from toolkit.model import (
    Cluster,
    Group,
    GroupState,
    GroupType,
    LogOffsets,
    Problem,
    TopicPartition,
    Unread,
)
from toolkit.model.offsets import NO_LOG, is_another_topic
from toolkit.model.records import FirstRecord
from toolkit.planning.lag.lag import with_lag
from toolkit.planning.lag.time_lag import earlier_ends, with_time_lag
from toolkit.planning.selection.member_names import hold_in_words
from toolkit.spark.arrow import as_frame, as_table
from toolkit.spark.schemas import LOG_FACTS

# Look-ups do not date the last records of a log, which most groups are at.
MOST_READ = 5_000


class ClusterGroups(NamedTuple):
    """The groups and settings of a cluster, as far as the coordinators returned them."""

    listed: pd.DataFrame  # group, type, state, protocol_type
    complete: bool  # whether all groups could be listed
    retention_s: int | None
    check_interval_s: int | None
    problems: Sequence[str]


def ask_groups(cluster: Cluster) -> ClusterGroups:
    """Ask for the groups and settings that `__consumer_offsets` lacks."""
    try:
        with connected(cluster) as connection:
            settings = read_expiry_settings(connection)
            groups, problems = list_groups(connection)
            # The offsets topic also has offsets of hidden topics.
            hidden = [
                one for one in find_hidden(connection) if one.what is not Unread.HIDDEN_COMMITS
            ]
            wrong_clock = _wrong_clock(connection)
    except ToolkitError as exc:
        return ClusterGroups(_listed([]), False, None, None, [str(exc)])
    return ClusterGroups(
        _listed(groups),
        not problems and not hidden,
        settings.retention_s,
        settings.check_interval_s,
        [*(f"{problem.what}: {problem.why}" for problem in (*problems, *hidden)), *wrong_clock],
    )


def _wrong_clock(connection: Connection) -> list[str]:
    """Say that the clock of this machine differs much from the cluster's, if it does."""
    try:
        clock = read_clock_difference(connection)
    except ToolkitError:  # not every cluster reports its time, nor to everybody
        return []
    if not clock.is_large:
        return []
    way = "behind" if clock.ahead > timedelta(0) else "ahead of"
    by = f"{abs(clock.ahead).total_seconds():.0f} s {way} the cluster's"
    wrong = "ages, time lag, status and expiry are wrong by that much"
    return [f"the clock of this worker ({gethostname()}) is {by}: {wrong}"]


def _listed(groups: Iterable[Group]) -> pd.DataFrame:
    rows = [(one.group_id, str(one.type), str(one.state), one.protocol_type) for one in groups]
    columns = ["group", "type", "state", "protocol_type"]
    return pd.DataFrame(rows, columns=columns, dtype=object)


class HoldsRead(NamedTuple):
    """The paused partitions and their holders, and for each group why they are unknown."""

    holds: pd.DataFrame  # group, topic, partition, hold
    unread: pd.DataFrame  # group, hold_unread


def ask_holds(cluster: Cluster, groups: pd.DataFrame) -> HoldsRead:
    """
    Ask coordinators for the paused partitions of groups with an offsetbook member: group, type.

    A coordinator may not report it, as brokers before 4.0 do not while a group rebalances.
    """
    holding = [
        Group(name, GroupType(kind), GroupState.UNKNOWN)
        for name, kind in groups[["group", "type"]].itertuples(index=False)
    ]
    found: Sequence[Group | Problem] = ()
    if holding:
        try:
            with connected(cluster) as connection:
                found = list(describe_groups(connection, holding))
        except ToolkitError as exc:
            found = [Problem(Unread.MEMBERS, str(exc), group.group_id) for group in holding]
    holds = [
        (group.group_id, *place, hold_in_words(member))
        for group in found
        if isinstance(group, Group)
        for place, member in group.paused.items()
    ]
    unread = [(one.group_id, one.why) for one in found if isinstance(one, Problem)]
    return HoldsRead(
        pd.DataFrame(holds, columns=["group", "topic", "partition", "hold"], dtype=object),
        pd.DataFrame(unread, columns=["group", "hold_unread"], dtype=object),
    )


def ask_logs(
    cluster: Cluster, positions: pd.DataFrame, look_back_s: Sequence[float]
) -> pd.DataFrame:
    """
    Ask for log start, log end and time lag of each position: a row of `schemas.LOG_FACTS` each.

    `positions` are rows of `schemas.POSITIONS`, with `past_ends` from earlier runs, if any: they
    give the time lag where brokers do not. `look_back_s` are the ages of the instants at which log
    ends are looked up. A partition that could not be read has nulls, and the reason in
    `log_problem`. Log ends are read first, so that they are as young as the commits.
    """
    if positions.empty:
        return as_frame(LOG_FACTS.empty_table())
    positions = positions.reset_index(drop=True)
    pairs = zip(positions["topic"], positions["partition"], strict=True)
    places = [TopicPartition(topic, int(number)) for topic, number in pairs]
    offsets: dict[TopicPartition, set[int]] = defaultdict(set)
    for place, committed in zip(places, positions["committed"], strict=True):
        if not pd.isna(committed):
            offsets[place].add(int(committed))
    logs: Mapping[TopicPartition, LogOffsets] = {}
    times = LogTimes({}, [], [], 0, 0)
    ids: Mapping[str, str] | str = {}
    why: dict[TopicPartition, str] = {}
    now = _in_whole_milliseconds(datetime.now(UTC))
    try:
        with connected(cluster) as connection:
            logs, problems = read_log_offsets(connection, places)
            now = _in_whole_milliseconds(datetime.now(UTC))
            why = {TopicPartition(p.topic or "", p.partition or 0): p.why for p in problems}
            ids = _topic_ids(connection, positions)
            look_up = TimeLookup(now, at=_instants(now, look_back_s))
            times = read_log_times(connection, offsets, logs, look_up)
    except ToolkitError as exc:
        why = {place: str(exc) for place in offsets if place not in logs} | why
    known = _with_logs(positions, places, logs, why)
    known = with_lag(_without_earlier_topics(known, ids))
    unread = _first_unread(places, positions["committed"], logs)
    known["points"] = pd.Series(_points(unread, times), known.index, dtype="object")
    records = _records(cluster, times, logs)
    found = [records.get(position) for position in unread]
    known["record_found"] = pd.array([one and one.found for one in found], "boolean")
    known["record_at"] = [one and one.at for one in found]
    timed = with_time_lag(known, now=now).assign(log_read_at=now)
    facts = _with_earlier(timed, places, logs, _instants(now, look_back_s), times)
    return as_frame(as_table(facts.reindex(columns=LOG_FACTS.names), LOG_FACTS))


def _instants(now: datetime, look_back_s: Sequence[float]) -> tuple[datetime, ...]:
    return tuple(now - timedelta(seconds=ago_s) for ago_s in look_back_s)


def _with_earlier(
    frame: pd.DataFrame,
    places: Sequence[TopicPartition],
    logs: Mapping[TopicPartition, LogOffsets],
    instants: Sequence[datetime],
    times: LogTimes,
) -> pd.DataFrame:
    """Add where logs ended at earlier instants: at the first one, and at all as lists."""
    past = {
        place: earlier_ends(times.points.get(place, ()), logs.get(place, NO_LOG).log_end, instants)
        for place in dict.fromkeys(places)
    }
    rows = [past[place] for place in places]
    first = instants[0]
    return frame.assign(
        earlier_at=pd.Series(
            [first if first in row else None for row in rows], frame.index, "datetime64[ms, UTC]"
        ),
        earlier_end=pd.array([row.get(first) for row in rows], "Int64"),
        past_at=pd.Series([list(row) for row in rows], frame.index, "object"),
        past_end=pd.Series([list(row.values()) for row in rows], frame.index, "object"),
    )


def _in_whole_milliseconds(at: datetime) -> datetime:
    """Return the time in Kafka's precision, so that an answer matches its request."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _with_logs(
    positions: pd.DataFrame,
    places: Sequence[TopicPartition],
    logs: Mapping[TopicPartition, LogOffsets],
    why: Mapping[TopicPartition, str],
) -> pd.DataFrame:
    known = [logs.get(place, NO_LOG) for place in places]
    return positions.assign(
        log_start=pd.array([log.log_start for log in known], "Int64"),
        log_end=pd.array([log.log_end for log in known], "Int64"),
        last_stable=pd.array([log.last_stable for log in known], "Int64"),
        log_problem=[why.get(place, "") for place in places],
    )


def _topic_ids(connection: Connection, positions: pd.DataFrame) -> Mapping[str, str] | str:
    """Return the ids of topics that commits have an id of, by name; or why they are unknown."""
    try:
        return read_topic_ids(connection, positions["topic"][positions["topic_id"].notna()])
    except ToolkitError as exc:
        return f"unknown whether the topic was created anew: {exc}"


def _without_earlier_topics(known: pd.DataFrame, ids: Mapping[str, str] | str) -> pd.DataFrame:
    """Say of commits of an earlier topic of the same name that nothing is known of their log."""
    if isinstance(ids, str):  # any that has an id may be one
        earlier, why = known["topic_id"].notna(), ids
    else:
        then = known["topic_id"].where(known["topic_id"].notna(), "")
        pairs = zip(then, map(ids.get, known["topic"]), strict=True)
        earlier, why = pd.Series([is_another_topic(*pair) for pair in pairs]), EARLIER_TOPIC
    known.loc[earlier, ["log_start", "log_end", "last_stable"]] = pd.NA
    known.loc[earlier, "log_problem"] = why
    return known


def _first_unread(
    places: Sequence[TopicPartition],
    committed: Iterable[int],
    logs: Mapping[TopicPartition, LogOffsets],
) -> list[tuple[TopicPartition, int]]:
    """Return the offset from which each position would be read on."""
    return [
        (place, max(0 if pd.isna(offset) else int(offset), logs.get(place, NO_LOG).log_start or 0))
        for place, offset in zip(places, committed, strict=True)
    ]


def _points(
    unread: Sequence[tuple[TopicPartition, int]], times: LogTimes
) -> list[tuple[LogTime, ...]]:
    """Return for each position the answers that bound the time of its record."""
    offsets: dict[TopicPartition, list[int]] = defaultdict(list)
    for place, offset in unread:
        offsets[place].append(offset)
    around = {
        place: points_around(times.points.get(place, ()), unread_offsets)
        for place, unread_offsets in offsets.items()
    }
    return [around[place][offset] for place, offset in unread]


def _records(
    cluster: Cluster, times: LogTimes, logs: Mapping[TopicPartition, LogOffsets]
) -> dict[tuple[TopicPartition, int], FirstRecord]:
    """
    Read the records whose time look-ups did not settle, as far as permitted and in time.

    Aborted records count for nothing where no transaction is open; elsewhere it is not decided yet
    which records are committed.
    """
    found: dict[tuple[TopicPartition, int], FirstRecord] = {}
    settled = {place for place, log in logs.items() if log.last_stable == log.log_end}
    for committed in (True, False):
        positions = [one for one in times.unsettled[:MOST_READ] if (one[0] in settled) is committed]
        # The look-ups stay valid without these records.
        with suppress(ToolkitError):
            if positions:
                found |= read_first_records(cluster, positions, most=MOST_READ, committed=committed)
    return found
