"""Read when groups became Empty and when they committed, as inputs for offset expiry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.offsets_topic.commit_records import CommitValue
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC, partition_of
from toolkit.kafka_io.offsets_topic.reader import (
    OffsetsPartition,
    offsets_partitions,
    read_offsets_partition,
)
from toolkit.model import (
    UNREAD_OFFSETS_TOPIC,
    Cluster,
    Commit,
    Group,
    GroupState,
    LogOffsets,
    Problem,
    TopicPartition,
)
from toolkit.model.commit_columns import CommitColumns, columns_of

PARTITIONS_AT_ONCE = 4


class GroupTimes(NamedTuple):
    """What the offsets topic says of one group's times."""

    empty_since: datetime | None  # holds only while its coordinator calls it Empty
    commits: Mapping[TopicPartition, CommitValue]
    # What an open transaction is about to commit.
    hidden: Collection[TopicPartition] = ()


def read_group_times(
    connection: Connection, group_ids: Iterable[str]
) -> tuple[dict[str, GroupTimes], list[Problem]]:
    """
    Return the times of each group, as far as the offsets topic may be read, and the problems.

    Only the partitions that hold these groups are read, each once. Behind an open transaction, what
    counts is read as well; where that fails, nobody knows when its groups became Empty.
    """
    wanted = set(group_ids)
    try:
        topic = offsets_partitions(connection)
    except ToolkitError as exc:
        return {}, [Problem(UNREAD_OFFSETS_TOPIC, str(exc))]
    needed = {partition_of(group_id, topic.partitions or 1) for group_id in wanted}
    commits: dict[str, dict[TopicPartition, CommitValue]] = {group_id: {} for group_id in wanted}
    emptied: dict[str, datetime] = {}
    hidden: dict[str, list[TopicPartition]] = defaultdict(list)
    problems = []
    logs = {number: topic.logs[number] for number in sorted(needed & topic.logs.keys())}
    for number, found in _read_side_by_side(connection.cluster, logs):
        place = (None, OFFSETS_TOPIC, number)
        if isinstance(found, ToolkitError):
            problems.append(Problem(UNREAD_OFFSETS_TOPIC, str(found), *place))
            continue
        for key, value in found.commits.items():
            if key.group_id in wanted:
                commits[key.group_id][TopicPartition(key.topic, key.partition)] = value
        for key in found.pending:
            hidden[key.group_id].append(TopicPartition(key.topic, key.partition))
        if found.tail_problem:
            problems.append(Problem("group clocks", found.tail_problem, *place))
        else:
            emptied |= found.emptied
    times = {
        name: GroupTimes(emptied.get(name), commits[name], tuple(hidden[name])) for name in wanted
    }
    return times, problems


def _read_side_by_side(
    cluster: Cluster, logs: Mapping[int, LogOffsets]
) -> Iterator[tuple[int, OffsetsPartition | ToolkitError]]:
    """Read several partitions at a time: most of a short read is waiting."""

    def read(number: int) -> OffsetsPartition | ToolkitError:
        try:
            return read_offsets_partition(cluster, number, logs[number])
        except ToolkitError as exc:
            return exc

    with ThreadPoolExecutor(PARTITIONS_AT_ONCE) as pool:
        yield from zip(logs, pool.map(read, logs), strict=True)


def with_commit_times(commits: Sequence[Commit], times: Mapping[str, GroupTimes]) -> CommitColumns:
    """Add to each commit when it was made; one that has moved on since keeps None."""
    timed = columns_of(commits)
    for group_id, topic, places in timed.blocks:
        known = times[group_id].commits if group_id in times else {}
        for place in places if known else ():
            value = known.get(TopicPartition(topic, timed.partitions[place]))
            if value is not None and value.offset == timed.offsets[place]:
                timed.set_time(place, value.committed_at, value.topic_id)
    return timed


def commits_in_doubt(
    times: Mapping[str, GroupTimes], commits: Sequence[Commit]
) -> dict[str, set[TopicPartition]]:
    """
    Return by group where the offsets topic has or hides a commit, and none is known.

    Asked for all its offsets, a coordinator leaves out those of topics that we may not describe.
    """
    columns = columns_of(commits)
    known: dict[str, set[TopicPartition]] = defaultdict(set)
    for group_id, topic, places in columns.blocks:
        if group_id in times:
            known[group_id].update(TopicPartition(topic, columns.partitions[n]) for n in places)
    there = {name: {*found.hidden, *found.commits} for name, found in times.items()}
    doubt = {name: partitions - known[name] for name, partitions in there.items()}
    return {name: partitions for name, partitions in doubt.items() if partitions}


def with_empty_since(groups: Iterable[Group], times: Mapping[str, GroupTimes]) -> list[Group]:
    """Add to each group that its coordinator calls Empty since when it is."""
    return [
        replace(group, empty_since=times[group.group_id].empty_since)
        if group.state is GroupState.EMPTY and group.group_id in times
        else group
        for group in groups
    ]
