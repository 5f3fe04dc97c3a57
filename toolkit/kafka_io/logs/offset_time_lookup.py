"""
Find when logs reached given offsets, by ListOffsets with timestamps, in few rounds.

An answer to "the first record at or after T" is the offset and the time of a record that is younger
than all before it. The search is for the largest timestamp in the log up to the first record at or
after an offset. It never falls along the log, whatever timestamps producers choose, so every answer
bounds it for every offset: from below by the records up to it, from above by T where only a later
record is as young.

For the broker, the markers that end transactions are records, with the time of its own clock. So an
answer at an offset does not mean that a consumer can read a record there: the next answer then
bounds the time, and without a next answer there may be nothing to read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import numpy as np
from kafka.protocol.consumer import ListOffsetsRequest
from numpy.typing import NDArray

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.leaders import LogLeader, ask_leaders, find_leaders
from toolkit.kafka_io.client.timestamps import LAST_MS, from_ms, to_ms
from toolkit.kafka_io.logs.log_offsets import NO_OFFSET, list_offsets_request
from toolkit.model import LogOffsets, Problem, TopicPartition, Unread
from toolkit.model.offsets import MOST_MARKERS

Times = NDArray[np.int64]  # ms since 1970, or offsets

YOUNGEST = -3  # ListOffsets: the record with the highest time (KIP-734)
# The time of a record is found within a second, or within a share of its age where that is more.
WITHIN_S, WITHIN_SHARE = 1.0, 0.05
BEGINNING = 1  # the earliest timestamp: producers that know no time send -1 or 0
NOTHING = 2**63 - 1  # the offset where no record is as young as that
# Bounds are halved in each second round from this one on: 20 rounds then suffice for any log.
FIRST_HALVING = 4
UNKNOWN = -1  # no record is known before
FAR = 2**62  # a time that is in no calendar, or not known


class TimeLookupResult(NamedTuple):
    """The first record at or after `timestamp`, all in ms; NOTHING and FAR if there is none."""

    timestamp: int
    offset: int
    at: int


class TimeBounds(NamedTuple):
    """For each offset the last answer at or before it, and the first after it."""

    before: Times  # its offset; UNKNOWN
    low: Times  # its time: the log was at least that young at the offset
    exact: NDArray[np.bool_]  # it is the very offset
    after: Times  # its offset; NOTHING
    timestamp: Times  # of the look-up: unless nothing can be read between, the log was older
    high: Times  # its time: the log was at most that young

    @classmethod
    def around(cls, offsets: Times, results: Sequence[TimeLookupResult]) -> TimeBounds:
        """Return the bounds of the times of offsets from answers."""
        known = np.array(
            sorted((o, timestamp, at) for timestamp, o, at in results), np.int64
        ).reshape(-1, 3)
        split = np.searchsorted(known[:, 0], offsets, side="right")
        under = np.concatenate(([[UNKNOWN] * 3], known))[split]
        over = np.concatenate((known, [[NOTHING, FAR, FAR]]))[split]
        return cls(under[:, 0], under[:, 2], under[:, 0] == offsets, *over.T)

    @property
    def below(self) -> Times:
        """When the log was not yet as young, if there is a record right at the offset."""
        # Records may have come between two answers, so that the second is not above the first.
        return np.asarray(
            np.where(self.exact, self.low + 1, np.maximum(self.timestamp, self.low + 1))
        )

    def where(self, chosen: NDArray[np.bool_]) -> TimeBounds:
        return TimeBounds._make(values[chosen] for values in self)


class TimeGrid:
    """Grid of timestamps; an offset located between two neighbours is dated precisely enough."""

    def __init__(self, now: int) -> None:
        """Cut the time before `now`: finely near it, coarser the older it gets."""
        step, ratio = 2 * WITHIN_S * 1000, 1 + 2 * WITHIN_SHARE
        even = int(np.ceil(1 / (2 * WITHIN_SHARE)))
        older = max(0, int(np.log(max(now, 1) / (step * even)) / np.log(ratio)) + 1)
        ages = np.concatenate(
            (step * np.arange(even), step * even * ratio ** np.arange(older + 1, dtype=float))
        )
        self.now = now
        times = now - np.round(ages[ages <= now]).astype(np.int64)
        self.times: Times = np.unique(times)

    def inside(self, bounds: TimeBounds) -> tuple[Times, Times]:
        """Return the place of the first time within each pair of bounds, and of the first after."""
        first = np.searchsorted(self.times, bounds.low, side="right")
        end = np.searchsorted(self.times, bounds.below, side="left")
        unknown = bounds.low > self.now  # in the future: its time bounds nothing
        return first, np.where(unknown, first, np.maximum(end, first))

    def next_timestamps(
        self, offsets: Times, results: Sequence[TimeLookupResult], *, halve: bool
    ) -> list[int]:
        """
        Return the times to look up next, [] where all offsets are known well enough.

        If records come evenly, the place of an offset between its bounds is the best guess of its
        time; both grid times around it are looked up. Halving the bounds works for every log.
        """
        found = TimeBounds.around(offsets, results)
        following = found.low[
            found.exact & self._is_wide(found) & (found.timestamp > found.low + 1)
        ]
        first, end = self.inside(found)
        is_open = end > first
        first, end = first[is_open], end[is_open]
        if halve:
            places = (first + end) // 2
            lower, upper = np.where(end - first <= 2, first, places), places
        else:
            guess = self._guess(offsets[is_open], found.where(is_open))
            places = np.searchsorted(self.times, guess)
            lower, upper = (np.clip(p, first, end - 1) for p in (places - 1, places))
        timestamps = (self.times[lower], self.times[upper], following + 1)
        return np.unique(np.concatenate(timestamps)).tolist()  # type: ignore[no-any-return]

    def unsettled(
        self, offsets: Times, results: Sequence[TimeLookupResult], *, end: int
    ) -> dict[int, float]:
        """
        Return the offsets whose time is not known precisely enough, and the possible error in ms.

        The grid leaves out records between its times, so up to twice the precision is enough. An
        infinite error: the log was younger than now there, or no record follows. Just before the
        end there may be only markers: they count as a record from now.
        """
        found = TimeBounds.around(offsets, results)
        near_end = end - offsets <= MOST_MARKERS
        found = found._replace(high=np.where(near_end, FAR, found.high))
        wide = self._is_wide(found) | (found.low > self.now)
        unknown = (found.low > self.now) | (found.after == NOTHING)
        off = np.where(unknown, np.inf, self._off(found))
        return dict(zip(offsets[wide].tolist(), off[wide].tolist(), strict=True))

    def _is_wide(self, found: TimeBounds) -> NDArray[np.bool_]:
        enough = np.maximum(WITHIN_S * 1000, WITHIN_SHARE * (self.now - found.low))
        return np.asarray(self._off(found) > 2 * enough)

    def _off(self, found: TimeBounds) -> NDArray[np.float64]:
        """Return how far off the middle of its bounds may be, in ms."""
        guess = np.minimum((found.low + found.below - 1) / 2, self.now)
        # With nothing after it, it may also be that nothing waits: as good as a record from now.
        off = np.maximum(guess - found.low, np.minimum(found.high, self.now) - guess)
        return np.where(found.low == UNKNOWN, np.inf, off)

    def _guess(self, offsets: Times, found: TimeBounds) -> NDArray[np.float64]:
        """Return when the log reached offsets, if records came evenly between its bounds."""
        top = np.minimum(found.high, self.now)
        is_bounded = (found.before != UNKNOWN) & (found.after != NOTHING)
        length = np.where(is_bounded, found.after - found.before, 2)
        done = np.where(is_bounded, offsets - found.before, 1)
        low = np.maximum(found.low, BEGINNING)
        return np.asarray(low + (top - low) * (done / length))


@dataclass
class TimeSearch:
    """The offsets to date in one log, what is known of it, and the next look-ups, in ms."""

    offsets: Times
    end: int  # where the log ends
    next: list[int]
    results: list[TimeLookupResult] = field(default_factory=list)

    @classmethod
    def begin(
        cls, committed: Collection[int], instants: Sequence[int], *, start: int, end: int
    ) -> TimeSearch:
        """
        Return the search for when a log reached what follows some commits, and some instants.

        Commits before the log start count there; at the log end or past it nothing follows.
        """
        places = np.array(sorted({max(o, start) for o in committed if o < end}), np.int64)
        if start == end:
            return cls(
                places,
                end,
                [],
                [TimeLookupResult(timestamp, NOTHING, FAR) for timestamp in instants],
            )
        edges = (BEGINNING, YOUNGEST) if places.size else ()
        return cls(places, end, list(dict.fromkeys((*edges, *instants))))

    def learn(self, timestamp: int, offset: int, time: int) -> None:
        if offset == NO_OFFSET:
            self.results += (
                [TimeLookupResult(timestamp, NOTHING, FAR)] if timestamp != YOUNGEST else []
            )
        elif timestamp != YOUNGEST:
            self.results.append(
                TimeLookupResult(timestamp, offset, time if time <= LAST_MS else FAR)
            )
        elif BEGINNING <= time <= LAST_MS:
            self.results += [
                TimeLookupResult(time, offset, time),
                TimeLookupResult(time + 1, NOTHING, FAR),
            ]

    def plan_round(self, grid: TimeGrid, number: int) -> None:
        """Choose the look-ups of a round; the first has number 1."""
        halve = number >= FIRST_HALVING and number % 2 == 0
        self.next = grid.next_timestamps(self.offsets, self.results, halve=halve)


@dataclass(frozen=True, slots=True)
class TimeLookup:
    """
    What to find out, and in how many rounds at most.

    `at`: instants whose first record at or after is looked up in every log.
    """

    now: datetime
    at: tuple[datetime, ...] = ()
    rounds: int = 20


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
    grid = TimeGrid(to_ms(look_up.now))
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
            timeout_s = self._connection.cluster.timeout_s
            yield timestamps, list_offsets_request(timestamps, timeout_s=timeout_s)


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
