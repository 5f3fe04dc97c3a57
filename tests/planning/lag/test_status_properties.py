"""What must hold of the status of any partition, whatever its commits and its log."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from commits import NOW, ago, commits, frame, steps
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.planning.lag.group_summary import status_by_group
from toolkit.planning.lag.status import with_status
from toolkit.planning.lag.status_rules import StatusRules
from toolkit.planning.lag.trend import look_back_s

ADDED = ["status", "status_why", "member_state", "trend", "catch_up_s"]
OFFSETS = st.one_of(st.integers(0, 500), st.integers(0, 2**62))
AGES = st.one_of(st.floats(-50, 200), st.floats(0, 10**6))
SERIES = st.lists(st.tuples(AGES, OFFSETS), min_size=1, max_size=20)
STATES = st.sampled_from(["Stable", "Empty", "Assigning", "PreparingRebalance", "Dead", None])
TYPES = st.sampled_from(["classic", "consumer", "streams", "simple", "unknown"])
WAITS = st.none() | st.floats(0, 10**6)


@st.composite
def any_partition(draw: st.DrawFn) -> dict[str, Any]:
    """Return facts about a partition that may contradict each other."""
    series = draw(SERIES)
    start = draw(OFFSETS)
    facts = commits(*series) if draw(st.booleans()) else {"committed": series[-1][1]}
    return {
        **facts,
        "type": draw(TYPES),
        "state": draw(STATES),
        "subscribed": draw(st.sampled_from([True, False, None])),
        "pending": draw(st.booleans()),
        "hold": draw(st.sampled_from([None, "", "ann @ desk"])),
        "hold_unread": draw(st.sampled_from([None, "", "no answer"])),
        "empty_since": draw(st.none() | AGES.map(ago)),
        "log_start": start,
        "log_end": draw(st.none() | OFFSETS.map(lambda length: min(start + length, 2**63 - 1))),
        "last_stable": draw(st.none() | OFFSETS),
        "earlier_at": draw(st.none() | AGES.map(ago)),
        "earlier_end": draw(st.none() | OFFSETS),
        "time_lag_s": draw(WAITS),
        "time_lag_error_s": draw(st.none() | st.floats(0, 100)),
    }


MANY = st.lists(any_partition(), min_size=1, max_size=25)
EXAMPLES = settings(max_examples=15)  # of many partitions each: making a frame is what takes time


def judged(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    return with_status(frame(rows), now=NOW)


def where(result: pd.DataFrame, column: str, *values: str | None) -> pd.DataFrame:
    """Return the rows that have one of these values, None for no value."""
    return result[result[column].isin(values)]


@EXAMPLES
@given(MANY)
def test_the_log_decides_first(rows: list[dict[str, Any]]) -> None:
    """No log, no word; beyond the end never OK; nothing left to read is never trouble."""
    result = judged(rows)
    known = result[result["state"].notna() & (result["state"] != "Dead")]

    assert result["status_why"].all()
    assert where(result, "position", "log unknown")["status"].isna().all()
    assert result[~result.index.isin(known.index)]["status"].isna().all()
    beyond = where(known, "position", "beyond log end")
    assert set(beyond["status"]) <= {"ERR", "UNSUBSCRIBED"}
    done = where(known, "position", "in range").query("lag == 0")
    assert set(done["status"]) <= {"OK", "UNSUBSCRIBED", "HELD"}
    assert not set(done["trend"]) & {"falling behind"}
    assert set(done["catch_up_s"].dropna()) <= {0}


@EXAMPLES
@given(MANY)
def test_no_word_without_evidence(rows: list[dict[str, Any]]) -> None:
    """Each word needs what it says to be so, whatever contradicts it."""
    result = judged(rows)
    trouble = where(result, "status", "STOP", "STALL", "WARN")
    rewound = where(result, "status", "REWIND")
    left = where(result, "status", "UNSUBSCRIBED")
    held = where(result, "status", "HELD")
    paused = result[result["hold"].fillna("") != ""]
    perhaps = result[(result["hold_unread"].fillna("") != "") & (result["state"] != "Empty")]
    behind = where(result, "trend", "falling behind")
    unseen = result[result["past_at"].isna()]

    assert (trouble["lag"] > 0).fillna(value=False).all()
    assert not set(where(result, "status", "STALL", "WARN")["member_state"]) & {"gone"}
    assert set(where(result, "member_state", "gone")["state"]) <= {"Empty"}
    assert (rewound["committed"] < rewound["max_committed"]).all()
    assert (rewound["max_committed"] <= rewound["log_end"]).all()
    assert set(held.index) <= set(paused.index)
    assert not set(paused.index) & {*trouble.index, *rewound.index}
    assert not set(perhaps["status"]) & {"STOP", "STALL"}
    assert not left["subscribed"].any()
    assert not set(left["state"]) & {"Empty"}
    assert (behind["produced_per_s"] > behind["consumed_per_s"]).all()
    assert unseen[["trend", "produced_per_s"]].isna().all(axis=None)
    assert (result["catch_up_s"].dropna() >= 0).all()


@EXAMPLES
@given(MANY)
def test_nothing_in_nothing_out(rows: list[dict[str, Any]]) -> None:
    """Without a commit, a log or a group there is no word."""
    no_commit = {"committed": None, "committed_at": None, "recent_at": None, "recent_offset": None}
    no_log = {"log_start": None, "log_end": None, "last_stable": None, "log_problem": "no leader"}
    for unknown in (no_commit, no_log, {"state": "Unknown"}):
        result = judged([{**row, **unknown} for row in rows])

        assert result["status"].isna().all()
        assert result["status_why"].all()
        assert unknown is not no_log or result["catch_up_s"].isna().all()


@EXAMPLES
@given(MANY, st.none() | AGES, st.none() | OFFSETS)
def test_earlier_log_ends_mend_no_commit(
    rows: list[dict[str, Any]], earlier_s: float | None, earlier_end: int | None
) -> None:
    """An ERR stays one, whatever is known of earlier log ends; a REWIND may be stuck."""
    earlier_at = None if earlier_s is None else ago(earlier_s)
    known = [{**row, "earlier_at": earlier_at, "earlier_end": earlier_end} for row in rows]
    before, after = judged(rows)["status"], judged(known)["status"]

    for status in ("ERR", "UNSUBSCRIBED"):
        assert ((before == status) == (after == status)).all()
    both = pd.concat([before[after == "REWIND"], after[before == "REWIND"]])
    assert set(both.dropna()) <= {"REWIND", "STALL", "STOP", "WARN"}


@EXAMPLES
@given(MANY, st.integers(0, 1000))
def test_rows_do_not_matter_to_each_other(rows: list[dict[str, Any]], seed: int) -> None:
    """In any order, and in other company, every row has the same answer; and so has its group."""
    table = frame([{**row, "partition": number} for number, row in enumerate(rows)])
    result = with_status(table, now=NOW)
    other = with_status(table.sample(frac=1, random_state=seed), now=NOW)
    half = with_status(table.iloc[::2], now=NOW)

    pd.testing.assert_frame_equal(result[ADDED], other.sort_index()[ADDED])
    pd.testing.assert_frame_equal(result.iloc[::2][ADDED], half[ADDED])
    groups = (status_by_group(one) for one in (result, other))
    pd.testing.assert_frame_equal(*groups)


@st.composite
def steady_reader(draw: st.DrawFn) -> dict[str, Any]:
    """Return the facts about a reader with a steady pace, of which the log end is not known yet."""
    read = draw(st.integers(10, 10**6))
    kind = draw(st.sampled_from(["classic", "consumer", "simple"]))
    series = steps(
        every_s=draw(st.floats(10, 200)), number=draw(st.integers(3, 16)), last_s=0, by=read
    )
    moved = [offset + 10**12 for offset in series["recent_offset"]]
    pace = {"committed": moved[-1], "max_committed": moved[-1], "recent_offset": moved}
    state = "Empty" if kind == "simple" else "Stable"
    return {**series, **pace, "type": kind, "state": state, "log_end": moved[-1]}


def with_log_ends(rows: Sequence[dict[str, Any]], arrived: float, backlog: int) -> pd.DataFrame:
    """Have `arrived` records come for each that is read, known at the instants that are wanted."""
    found, past_at, past_end = [], [], []
    for row in rows:
        step = row["recent_offset"][-1] - row["recent_offset"][-2]
        every_s = (row["recent_at"][-1] - row["recent_at"][-2]).total_seconds()
        end = row["committed"] + backlog
        ages = look_back_s(StatusRules(window_s=4000))
        past_at.append([ago(age) for age in ages])
        past_end.append([max(0, round(end - step * arrived * age / every_s)) for age in ages])
        found.append({**row, "log_end": end, "time_lag_s": max(60.0, 3 * every_s) + 1})
    return frame(found).assign(past_at=past_at, past_end=past_end)


READERS = st.lists(steady_reader(), min_size=1, max_size=20)


@EXAMPLES
@given(READERS, st.floats(1.2, 50), st.integers(1, 10**9))
def test_lag_that_grows_is_never_ok(
    readers: list[dict[str, Any]], arrived: float, backlog: int
) -> None:
    """A group that reads less than arrives is not OK once a record has waited past patience."""
    result = with_status(with_log_ends(readers, arrived, backlog), now=NOW)

    assert ["WARN"] == list(result["status"].unique())
    assert ["falling behind"] == list(result["trend"].unique())
    assert result["catch_up_s"].isna().all()


@EXAMPLES
@given(READERS, st.floats(0, 0.8), st.integers(1, 10**9))
def test_lag_drains_at_the_reported_rate(
    readers: list[dict[str, Any]], arrived: float, backlog: int
) -> None:
    """A group that reads more than arrives catches up when the rate says so."""
    result = with_status(with_log_ends(readers, arrived, backlog), now=NOW)
    gained_per_s = result["consumed_per_s"] * (1 - arrived)

    assert ["OK"] == list(result["status"].unique())
    assert ["catching up"] == list(result["trend"].unique())
    # Offsets are whole and times have milliseconds.
    assert (abs(result["catch_up_s"] * gained_per_s / backlog - 1) < 0.2).all()
