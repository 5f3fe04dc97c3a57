"""Lag in time: within its bound for every log that can be thought of, and null where unknown."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from toolkit.kafka_io.logs.offset_time_lookup import (
    FAR,
    NO_OFFSET,
    NOTHING,
    YOUNGEST,
    LogTime,
    TimeGrid,
    TimeLookupResult,
    TimeSearch,
    points_around,
)
from toolkit.planning.lag.time_lag import (
    BY_HISTORY,
    BY_LOOK_UP,
    BY_RECORD,
    CLOCKS_APART_MS,
    IN_THE_FUTURE,
    NO_LAG,
    NO_TIMESTAMP,
    NOT_READ,
    NOTHING_TO_READ,
    earlier_ends,
    with_time_lag,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000
ROUNDS = 20


class Record(NamedTuple):
    """One record of a made-up log."""

    offset: int
    time: int  # ms; -1 or 0: it has none
    is_marker: bool = False  # nobody can read it, but ListOffsets finds it


class Log(NamedTuple):
    """A made-up log: it may have gaps, and end with offsets that hold no record."""

    records: list[Record]
    start: int
    end: int

    def answer(self, asked: int) -> tuple[int, int]:
        if asked == YOUNGEST:
            dated = [record for record in self.records if record.time >= 0]
            return max(dated, key=lambda r: (r.time, -r.offset), default=(NO_OFFSET, -1))[:2]
        found = (record for record in self.records if record.time >= asked)
        return next(found, (NO_OFFSET, -1))[:2]

    def truth(self, committed: int) -> int | None:
        """Return how young the log was with the first unread record; None where it has no time."""
        unread = [r for r in self.records if r.offset >= committed and not r.is_marker]
        if not unread:
            return None
        before = [r.time for r in self.records if r.offset <= unread[0].offset and r.time > 0]
        return max(before, default=None)


def dense(times: Iterable[int]) -> Log:
    """Return a log that starts at 0, with one record for each time."""
    records = [Record(offset, time) for offset, time in enumerate(times)]
    return Log(records, 0, len(records))


def search(log: Log, committed: list[int], at: tuple[int, ...] = ()) -> tuple[TimeSearch, int]:
    """Look up all that is asked for, and return what was learnt and in how many rounds."""
    found = TimeSearch.begin(committed, at, start=log.start, end=log.end)
    lines, rounds = TimeGrid(NOW_MS), 0
    while found.next:
        rounds += 1
        for asked in found.next:
            found.learn(asked, *log.answer(asked))
        found.next = []
        if found.offsets.size:
            found.plan_round(lines, rounds + 1)
    return found, rounds


def utc(ms: int) -> datetime | None:
    """Return a time in ms as rows hold it."""
    return None if ms == FAR else EPOCH + timedelta(milliseconds=ms)


def points(probes: list[TimeLookupResult]) -> list[LogTime]:
    return [
        LogTime(asked_at, None if offset == NOTHING else offset, utc(at))
        for timestamp, offset, at in probes
        if (asked_at := utc(timestamp))
    ]


def frame(log: Log, committed: list[int], **columns: Any) -> pd.DataFrame:
    """Return the rows of groups that have committed on one partition."""
    rows = pd.DataFrame({"committed": committed}, dtype="Int64")
    rows = rows.assign(log_start=log.start, log_end=log.end).astype("Int64")
    unread = rows["committed"].clip(lower=log.start)
    rows["lag"] = (rows["log_end"] - unread).where(rows["committed"] <= log.end)
    return rows.assign(**columns)


def looked_up(log: Log, committed: list[int], **columns: Any) -> pd.DataFrame:
    """Return the rows with their lag in time, after all look-ups that it takes."""
    found, rounds = search(log, committed)
    assert rounds <= ROUNDS
    given = frame(log, committed, points=[points(found.results)] * len(committed), **columns)
    return with_time_lag(given, now=NOW)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw a log: ordered or not, in bursts, with gaps, with times that are missing or to come."""
    step = st.one_of(
        st.just(0), st.integers(0, 3), st.integers(0, 10_000), st.integers(0, DAY_MS * 4)
    )
    steps = draw(st.lists(step, min_size=0, max_size=60))
    back = draw(st.sampled_from([0, 0, 1, DAY_MS]))
    time = NOW_MS - draw(st.integers(0, 2 * sum(steps) + 1000))
    start = offset = draw(st.integers(0, 1000))
    records = []
    for number in steps:
        time += number
        gap = draw(st.sampled_from([0, 0, 0, 1, 39]))
        offset += gap + (1 if records else 0)
        late = draw(st.integers(0, back)) if back else 0
        none = draw(st.integers(0, 30)) == 0 if back else False
        at = draw(st.sampled_from([-1, 0])) if none else max(1, time - late)
        alone = not gap and not (records and records[-1].is_marker)
        records.append(Record(offset, at, is_marker=alone and draw(st.integers(0, 5)) == 0))
    for _ in range(draw(st.integers(0, 4))):
        time, offset = time + draw(step), offset + 1
        records.append(Record(offset, time, is_marker=True))
    return Log(records, start, offset + draw(st.integers(0, 3)) + (1 if records else 0))


@given(logs(), st.data())
def test_the_truth_is_within_the_bound(log: Log, data: st.DataObject) -> None:
    """Every number has the truth within its bound and is not negative; null is only the unknown."""
    committed = data.draw(st.lists(st.integers(max(0, log.start - 5), log.end), min_size=1))
    youngest = max((record.time for record in log.records), default=0)
    for row in looked_up(log, committed).itertuples():
        truth = log.truth(max(row.committed, log.start))
        if row.lag == 0:
            assert (0, 0, NOTHING_TO_READ) == row[-4:-1]
        elif pd.isna(row.time_lag_s):
            undated = not any(r.offset <= row.committed and r.time > 0 for r in log.records)
            future = truth is not None and truth > NOW_MS + CLOCKS_APART_MS
            assert truth is None or undated or future or truth == youngest
            assert row.time_lag_method is None
            assert row.time_lag_why
            assert pd.isna(row.time_lag_error_s)
        else:
            waited = max(0, NOW_MS - truth) / 1000 if truth is not None else 0
            assert (BY_LOOK_UP, "") == row[-2:]
            assert row.time_lag_s >= 0
            assert abs(row.time_lag_s - waited) <= row.time_lag_error_s + 1e-6


@given(logs(), st.data())
def test_the_points_around_an_offset_tell_as_much_as_all(log: Log, data: st.DataObject) -> None:
    """A row that carries only the answers next to its offset has the same lag, and bound."""
    committed = data.draw(st.lists(st.integers(log.start, log.end), min_size=1))
    found, _ = search(log, committed)
    near = points_around(points(found.results), committed)
    given = frame(log, committed, points=[near[offset] for offset in committed])

    assert all(len(cell) <= 2 for cell in near.values())
    pd.testing.assert_frame_equal(
        with_time_lag(given, now=NOW).iloc[:, -4:], looked_up(log, committed).iloc[:, -4:]
    )


@given(st.lists(st.integers(0, 40 * DAY_MS), min_size=30, max_size=200), st.data())
def test_imprecise_lags_are_unsettled(ages: list[int], data: st.DataObject) -> None:
    """Any other is known within twice the requested precision."""
    log = dense(NOW_MS - age for age in sorted(ages, reverse=True))
    committed = data.draw(st.lists(st.integers(0, log.end - 1), min_size=1, unique=True))
    found, _ = search(log, committed)
    unsettled = TimeGrid(NOW_MS).unsettled(found.offsets, found.results, end=log.end)
    for row in looked_up(log, committed).itertuples():
        if row.committed in unsettled:
            assert pd.isna(row.time_lag_s) or row.time_lag_error_s >= 2
        else:
            assert row.time_lag_error_s <= max(2.0, 0.111 * row.time_lag_s) + 1e-6


def test_records_that_come_evenly_are_found_in_few_rounds() -> None:
    """One record a second for a day: a few questions settle any number of groups."""
    log = dense(range(NOW_MS - DAY_MS, NOW_MS, 1000))
    found, rounds = search(log, [3, 40_000, 86_000, 86_399])

    assert rounds <= 4
    assert len(found.results) <= 16


def test_a_log_that_slows_down_takes_no_more_rounds() -> None:
    """Where records come ever faster, or ever slower, to guess leads astray: halving does not."""
    ages = [round(1.012 ** (n - 1)) * 1000 for n in range(1900, 0, -1)]
    faster = dense(max(0, NOW_MS - age) for age in ages)
    stalled = [NOW_MS - 40 * DAY_MS + n for n in range(1800)]
    burst = dense([*stalled, NOW_MS - 999])

    for log in (faster, burst):
        for committed in range(0, log.end, 100):
            _, rounds = search(log, [committed])
            assert rounds <= ROUNDS


def test_groups_share_the_questions() -> None:
    """However many groups there are, a log of a week is asked no more than its lines."""
    log = dense(NOW_MS - 7 * DAY_MS + 201_600 * n for n in range(3000))
    found, rounds = search(log, list(range(3000)))

    assert rounds <= ROUNDS
    assert len(found.results) <= 120


@pytest.mark.parametrize("later_h", [0, 5, 1000])
def test_time_lag_grows_on_an_idle_topic_only_with_unread_records(later_h: int) -> None:
    """A caught-up group never falls behind."""
    log = dense(NOW_MS - DAY_MS + 60_000 * n for n in range(10))
    found, _ = search(log, [4, 10])
    rows = frame(log, [4, 10], points=[points(found.results)] * 2)
    result = with_time_lag(rows, now=NOW + timedelta(hours=later_h))

    off = abs(result["time_lag_s"][0] - (later_h * 3600 + 86_400 - 240))
    assert off <= result["time_lag_error_s"][0]
    assert (0, 0, NOTHING_TO_READ) == tuple(result.iloc[1][-4:-1])


def test_times_to_come_are_no_measure() -> None:
    """Behind a record from the year 2099 look-ups tell nothing; before it they do."""
    times = [NOW_MS - 600_000 + 1000 * n for n in range(100)]
    times[50] += 73 * 365 * DAY_MS
    before, behind = looked_up(dense(times), [20, 70]).itertuples()

    assert abs(before.time_lag_s - 580) <= before.time_lag_error_s <= 60
    assert (None, IN_THE_FUTURE) == behind[-2:]


@pytest.mark.parametrize(("ahead_s", "expected"), [(1, 0), (299, 0), (301, None)])
def test_clocks_may_be_a_little_apart(ahead_s: int, expected: int | None) -> None:
    """A record that is a little younger than now has not waited; one from far ahead is a riddle."""
    ahead = NOW_MS + ahead_s * 1000
    (row,) = looked_up(dense([NOW_MS - 1000, ahead, ahead + 1]), [1]).itertuples()

    assert expected == (None if pd.isna(row.time_lag_s) else row.time_lag_s)


def test_only_a_marker_follows() -> None:
    """If no record is that recent, there is no result until the record there was read."""
    log = Log([Record(n, NOW_MS - DAY_MS + n) for n in range(10)], 0, 11)
    rows = frame(
        *(log, [10] * 4),
        record_found=pd.array([None, False, True, True], dtype="boolean"),
        record_at=pd.to_datetime([None, None, NOW - timedelta(hours=9), None], utc=True),
        points=[points(search(log, [10])[0].results)] * 4,
    )
    unread, nothing, found, undated = with_time_lag(rows, now=NOW).itertuples()

    assert (None, NOT_READ) == unread[-2:]
    assert (0, 0, NOTHING_TO_READ) == nothing[-4:-1]
    assert (9 * 3600, 0, BY_RECORD) == found[-4:-1]
    assert (None, NO_TIMESTAMP) == undated[-2:]


def test_a_marker_is_no_unread_record() -> None:
    """A commit at a marker waits for the record after it."""
    before = [Record(n, NOW_MS - 2 * DAY_MS) for n in range(5)]
    after = [Record(n, NOW_MS - 3_600_000) for n in range(6, 40)]
    log = Log([*before, Record(5, NOW_MS - DAY_MS, is_marker=True), *after], 0, 40)
    (row,) = looked_up(log, [5]).itertuples()

    assert log.truth(5) == NOW_MS - 3_600_000
    assert (86_400, 82_800, BY_LOOK_UP) == row[-4:-1]


@pytest.mark.parametrize(("age_s", "expected"), [(4, (4, 4, BY_LOOK_UP)), (40, None)])
def test_the_last_record_of_a_log(age_s: int, expected: tuple[Any, ...] | None) -> None:
    """It may be a marker, so that nothing waits; that does not matter where it has just come."""
    (row,) = looked_up(dense([NOW_MS - DAY_MS, NOW_MS - age_s * 1000]), [1]).itertuples()

    assert expected == (None if pd.isna(row.time_lag_s) else row[-4:-1])


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=10), st.data())
def test_history_bounds_when_the_log_passed_an_offset(
    grown: list[int], data: st.DataObject
) -> None:
    """The log passed an offset between two readings of its end; the bound holds all that time."""
    ends = [sum(grown[:n]) for n in range(len(grown) + 1)]
    times = [NOW - timedelta(hours=len(grown) - n) for n in range(len(grown) + 1)]
    assume(ends[-1] > 0)
    committed = data.draw(st.integers(0, ends[-1] - 1))
    past = [{"at": at, "log_end": end} for at, end in zip(times, ends, strict=True)][:-1]
    log = Log([], 0, ends[-1])
    (row,) = with_time_lag(frame(log, [committed], past_ends=[past]), now=NOW).itertuples()
    passed = max(n for n, end in enumerate(ends) if end <= committed)

    assert row.time_lag_method == BY_HISTORY
    for at in (times[passed], times[passed + 1]):
        assert abs(row.time_lag_s - (NOW - at).total_seconds()) <= row.time_lag_error_s + 1e-6


def ended(**ends: int) -> list[dict[str, Any]]:
    """Return where a log ended, by how many hours ago: h3=10."""
    return [{"at": NOW - timedelta(hours=int(h[1:])), "log_end": end} for h, end in ends.items()]


def test_history_is_not_stretched() -> None:
    """What the log had before its first reading is unknown, also when it was re-created since."""
    rows = frame(Log([], 0, 100), [50], past_ends=[ended(h1=60)])
    assert [None] == with_time_lag(rows, now=NOW)["time_lag_method"].tolist()

    past = ended(h3=10, h2=400, h1=40)
    recreated = with_time_lag(frame(Log([], 0, 100), [20, 70], past_ends=[past] * 2), now=NOW)

    assert [None, BY_HISTORY] == recreated["time_lag_method"].tolist()
    assert 1800 == recreated["time_lag_s"][1]


def test_earlier_log_end_counts_where_nothing_better_is_known() -> None:
    """An earlier log end gives an estimate; look-ups are preferred to it."""
    log = dense(NOW_MS - 1_800_000 + n // 90 for n in range(100))
    looked_up_at_0 = [None, points(search(log, [0])[0].results)]
    past = [ended(h1=60), ended(h1=0)]
    rows = frame(log, [80, 0], points=looked_up_at_0, past_ends=past)
    first, second = with_time_lag(rows, now=NOW).itertuples()

    assert (1800, 1800, BY_HISTORY) == first[-4:-1]
    assert (1800, 0.001, BY_LOOK_UP) == second[-4:-1]


def test_no_number_without_a_lag() -> None:
    """No commit, a commit past the end and an unknown log have no lag in time."""
    log = dense([NOW_MS - 1000] * 10)
    rows = frame(log, [0, 11, 3], points=[points(search(log, [0])[0].results)] * 3)
    rows.loc[0, ["committed", "lag"]] = pd.NA
    rows.loc[2, ["log_start", "log_end", "lag"]] = pd.NA
    result = with_time_lag(rows, now=NOW)

    assert result[["time_lag_s", "time_lag_error_s"]].isna().all(None)
    assert [(None, NO_LAG)] * 3 == [row[-2:] for row in result.itertuples()]


def test_rows_keep_their_order_index_and_columns() -> None:
    """The rule adds its columns and changes nothing else; nothing gives nothing."""
    log = dense([NOW_MS - 1000] * 10)
    rows = frame(log, [3, 10], other="x").set_axis([7, 7])
    result = with_time_lag(rows, now=NOW)

    pd.testing.assert_frame_equal(rows, result[rows.columns])
    assert ["Float64", "Float64", "object", "object"] == [str(t) for t in result.dtypes[-4:]]
    assert 0 == len(with_time_lag(rows.iloc[:0].assign(points=[]), now=NOW))


@given(logs(), st.lists(st.integers(0, 4 * DAY_MS), min_size=1, max_size=3))
def test_where_logs_ended_earlier(log: Log, ages: list[int]) -> None:
    """The first record since an instant lies where the log ended then; without one, at its end."""
    asked = [NOW_MS - age for age in ages]
    found, _ = search(log, [log.start], tuple(asked))
    instants = [at for ms in asked if (at := utc(ms))]
    offsets = [log.answer(ms)[0] for ms in asked]
    ends = [log.end if offset == NO_OFFSET else offset for offset in offsets]

    assert dict(zip(instants, ends, strict=True)) == earlier_ends(
        points(found.results), log.end, [*instants, NOW + timedelta(days=1)]
    )
