"""Find when logs reached given offsets, by ListOffsets with timestamps, in few rounds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.leaders import LogLeader, ask_leaders, find_leaders
from toolkit.kafka_io.client.timestamps import from_ms, to_ms
from toolkit.kafka_io.logs.log_offsets import list_offsets_request
from toolkit.kafka_io.logs.time_lookup_search import (
    FAR,
    NOTHING,
    YOUNGEST,
    TimeGrid,
    TimeLookupResult,
    TimeSearch,
)
from toolkit.model import LogOffsets, Problem, TopicPartition, Unread


@dataclass(frozen=True, slots=True)
class TimeLookup:
    """
    What to find out, how precisely, and in how many rounds at most.

    `at`: instants whose first record at or after is looked up in every log. Times of records are
    found within some seconds, or within a share of their age where that is more.
    """

    now: datetime
    at: tuple[datetime, ...] = ()
    rounds: int = 20
    within_s: float = 1.0
    within_share: float = 0.05


class LogTime(NamedTuple):
    """
    The first record at or after an instant: its offset, and its own time.

    None for both where no record is as young as that; a time in no calendar is None alone.
    """

    asked_at: datetime
    offset: int | None
    at: datetime | None


class LogTimes(NamedTuple):
    """
    The answers of time look-ups for each partition, oldest instant first, and what they cost.

    A round is a set of requests to several leaders at the same time, one after the other to each.
    `unsettled` are the offsets whose time is not known precisely enough, the least precise first:
    `read_first_records` reads those records.
    """

    points: dict[TopicPartition, list[LogTime]]
    problems: list[Problem]
    unsettled: list[tuple[TopicPartition, int]]
    rounds: int
    requests: int


def read_log_times(
    connection: Connection,
    offsets: Mapping[TopicPartition, Collection[int]],
    logs: Mapping[TopicPartition, LogOffsets],
    look_up: TimeLookup,
) -> LogTimes:
    """
    Find when logs reached some offsets, by ListOffsets with times, for all partitions at once.

    `offsets` holds committed offsets, of all groups together; those before the log start count
    there, those at the log end or past it are skipped. Each answer narrows all offsets of its
    partition. The instants of the look-up are looked up in every partition of `logs`. A partition
    that could not be read is a problem, and has the answers that it had until then.
    """
    instants = [to_ms(at) for at in look_up.at]
    searches = {
        partition: TimeSearch.begin(
            offsets.get(partition, ()), instants, start=log.log_start, end=log.log_end
        )
        for partition, log in logs.items()
        if log.log_start is not None and log.log_end is not None
    }
    grid = TimeGrid(
        to_ms(look_up.now), within_s=look_up.within_s, within_share=look_up.within_share
    )
    lookup = _LookupRounds(connection, searches)
    while lookup.rounds < look_up.rounds and (unfinished := lookup.ask()):
        for search in unfinished:
            search.plan_round(grid, lookup.rounds + 1)
    return LogTimes(
        {partition: _points(search.results) for partition, search in searches.items()},
        [Problem(Unread.RECORD_TIMES, why, None, *key) for key, why in lookup.failed.items()],
        _unsettled(searches, grid),
        lookup.rounds,
        lookup.requests,
    )


def _points(results: Iterable[TimeLookupResult]) -> list[LogTime]:
    return [
        LogTime(
            at,
            None if result.offset == NOTHING else result.offset,
            None if result.at == FAR else from_ms(result.at),
        )
        for result in sorted(set(results))
        if (at := from_ms(result.timestamp)) is not None
    ]


def _unsettled(
    searches: Mapping[TopicPartition, TimeSearch], grid: TimeGrid
) -> list[tuple[TopicPartition, int]]:
    off = {
        (partition, offset): ms
        for partition, search in searches.items()
        if search.offsets.size
        for offset, ms in grid.unsettled(search.offsets, search.results, end=search.end).items()
    }
    return sorted(off, key=lambda place: -off[place])


class _LookupRounds:
    """Asks the leaders, a round at a time, and counts."""

    def __init__(
        self, connection: Connection, searches: Mapping[TopicPartition, TimeSearch]
    ) -> None:
        self._connection = connection
        self._searches = searches
        self.rounds = self.requests = 0
        partitions = [partition for partition, search in searches.items() if search.next]
        self._leaders: dict[TopicPartition, LogLeader]
        self._leaders, self.failed = find_leaders(connection, partitions)

    def ask(self) -> list[TimeSearch]:
        """
        Send the next requests of all searches, and return those with offsets that got answers.

        A search without requests is finished: nothing new is known of its offsets.
        """
        lengths = {
            partition: length
            for partition in self._leaders
            if partition not in self.failed and (length := len(self._searches[partition].next))
        }
        if not lengths:
            return []
        self.rounds += 1
        # Those with as many questions share their requests.
        ordered = sorted(lengths, key=lambda partition: -lengths[partition])
        leaders = {partition: self._leaders[partition] for partition in ordered}
        for timestamps, partition, entry in ask_leaders(self._connection, leaders, self._requests):
            if partition not in timestamps:
                continue  # the request was about others of the same leader
            if not isinstance(entry, str):
                self._searches[partition].learn(
                    timestamps[partition], entry.offset, entry.timestamp
                )
            elif timestamps[partition] != YOUNGEST:  # which not every broker supports
                self.failed.setdefault(partition, entry)
        for partition in lengths:
            self._searches[partition].next = []
        answered = (self._searches[partition] for partition in lengths.keys() - self.failed.keys())
        return [search for search in answered if search.offsets.size]

    def _requests(
        self, partitions: Sequence[TopicPartition]
    ) -> Iterator[tuple[dict[TopicPartition, int], ListOffsetsRequest]]:
        """Yield one request for each time: a broker refuses a partition that is in one twice."""
        following = {partition: self._searches[partition].next for partition in partitions}
        for place in range(max(map(len, following.values()))):
            timestamps = {p: times[place] for p, times in following.items() if place < len(times)}
            self.requests += 1
            yield timestamps, list_offsets_request(timestamps)


def points_around(
    points: Collection[LogTime], offsets: Collection[int]
) -> dict[int, tuple[LogTime, ...]]:
    """
    Return for each offset the answers of its partition that bound its time.

    That is the last one at or before it and the first one after it, where there are such: rows of
    many groups then need not carry all answers.
    """
    ordered = sorted(points, key=_by_offset)
    places = [_by_offset(point)[0] for point in ordered]
    found = {}
    for offset in offsets:
        split = bisect_right(places, offset)
        # Of answers with the same record, the first shows whether it is the first record.
        before = ordered[bisect_left(places, places[split - 1])] if split else None
        found[offset] = (*([before] if before else []), *ordered[split : split + 1])
    return found


def _by_offset(point: LogTime) -> tuple[int, datetime]:
    return NOTHING if point.offset is None else point.offset, point.asked_at
