"""The word for a partition: right where Burrow's was measured wrong, and none without evidence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commits import NOW, ago, commits, frame, steps

from toolkit.model.snapshot import NO_TOPIC
from toolkit.planning.lag.group_summary import group_summary, status_by_group
from toolkit.planning.lag.status import with_status
from toolkit.planning.lag.status_rules import StatusRules
from toolkit.planning.lag.time_lag import NOTHING_TO_READ

STANDS = {"every_s": 5, "number": 16, "by": 0}
WAITS = {"log_end": 5000, "time_lag_s": 300.0}
GROWS = {"log_end": 9000, "earlier_at": ago(40), "earlier_end": 7000, "time_lag_s": 300.0}
EMPTY = {"state": "Empty", "members": 0, "empty_since": ago(0.5), "subscribed": False}
READS = steps(every_s=5, by=50)
STALLS, SILENT, IDLE = (steps(**STANDS, last_s=age_s) for age_s in (1, 120, 9000))
SIMPLE = {"type": "simple", "state": "Empty", "protocol_type": None, "members": 0}


def judge(**facts: Any) -> pd.Series[Any]:
    return with_status(frame([facts]), now=NOW).iloc[0]


SEEN = {**SILENT, "log_end": 5000}
SHORT = {**steps(every_s=1, number=16), **WAITS}
SELDOM = {"log_end": 5000, "time_lag_s": 3000.0}
BACK, BACK_LATELY = (commits((age_s + 200, 3000), (age_s, 1000)) for age_s in (120, 5))
SHOWS_A_MARKER = {"log_end": 1001, "time_lag_s": 0.0, "time_lag_method": NOTHING_TO_READ}
DUE = {"every_s": 300, "number": 5, "by": 50}
FALLS_BEHIND, READS_SLOWLY = (
    commits((95, 6000), (70, 6100), (40, 6200), (5, 6300)),
    steps(every_s=5, by=10),
)
CATCHES_UP = {**steps(every_s=5, by=500), **GROWS, "earlier_end": 8900}
PERHAPS_PAUSED = {"hold_unread": "no answer"}
DELETED = "the topic does not exist"
NO_LOG = {**steps(every_s=5), "log_start": None}

CASES = {
    # what Burrow says of these too
    "caught up": ({**READS, "log_end": 1000}, "OK"),
    "committed a moment ago": ({**READS, "log_end": 1040}, "OK"),
    "large lag, steady": ({**READS, **GROWS, "earlier_end": 8600}, "OK"),
    "catching up": (CATCHES_UP, "OK"),
    "stalled": ({**STALLS, **WAITS}, "STALL"),
    "hung": ({**SILENT, **WAITS}, "STOP"),
    "stopped": ({**READS, **WAITS, **EMPTY}, "STOP"),
    # what Burrow gets wrong
    "lag grows for ever": ({**READS, **GROWS}, "WARN"),
    "lag grows since it was once caught up": (
        {
            **FALLS_BEHIND,
            "log_end": 9000,
            "earlier_at": ago(95),
            "earlier_end": 6000,
            "time_lag_s": 94.0,
        },
        "WARN",
    ),
    "a burst came before its oldest commit": (
        {**steps(every_s=1, number=16, by=20), **GROWS, "earlier_at": ago(20)},
        "OK",
    ),
    "beyond the end": ({**READS, "log_end": 0}, "ERR"),
    "beyond the end of a dead group": ({**commits((9000, 15)), "log_end": 0, **EMPTY}, "ERR"),
    "records lost": ({**READS, "log_start": 1200, "log_end": 2000}, "ERR"),
    "rewound long ago": (
        {**READS_SLOWLY, **WAITS, "max_committed": 3000, "max_committed_at": ago(86_400)},
        "REWIND",
    ),
    # after that, what the reader does comes first
    "rewound, and nobody has read on yet": ({**BACK_LATELY, **WAITS}, "REWIND"),
    "rewound, and nobody reads on": ({**BACK, **WAITS}, "STOP"),
    "rewound, and nobody reads on, waiting times unknown": ({**BACK, "log_end": 5000}, "STOP"),
    "rewound, and the same offset again and again": (
        {**commits((400, 3000), *((age, 1000) for age in range(300, 0, -5))), **WAITS},
        "STALL",
    ),
    "rewound without members": ({**BACK_LATELY, **WAITS, **EMPTY}, "STOP"),
    "rewound, perhaps paused": ({**BACK, **WAITS, **PERHAPS_PAUSED}, None),
    "rewound and paused": ({**BACK, **WAITS, "hold": "ann"}, "HELD"),
    "rewound, a marker follows": ({**commits((60, 1001), (5, 1000)), **SHOWS_A_MARKER}, "OK"),
    "rewound and regained": ({**commits((40, 900), (30, 500), (5, 950)), "log_end": 950}, "OK"),
    "went further once, in a log that is gone": (
        {**READS_SLOWLY, "log_end": 1000, "max_committed": 90_000, "max_committed_at": ago(9000)},
        "OK",
    ),
    "topic left": ({**IDLE, **WAITS, "subscribed": False}, "UNSUBSCRIBED"),
    "topic left, and cut since": (
        {**commits((9000, 10)), "log_start": 50, "log_end": 90, "subscribed": False},
        "UNSUBSCRIBED",
    ),
    # idle is not silent
    "idle": ({**IDLE, "log_end": 1000}, "OK"),
    "idle, a record has just come": ({**IDLE, "log_end": 1001, "time_lag_s": 1.0}, "OK"),
    "idle Java client, a record has come": ({**STALLS, "log_end": 1001, "time_lag_s": 1.0}, "OK"),
    "commits every ten minutes": ({**steps(every_s=600, by=50, last_s=500), **WAITS}, "OK"),
    # markers of transactions and aborted records are no unread records
    "only a marker follows": ({**SILENT, **SHOWS_A_MARKER}, "OK"),
    "ended before an aborted transaction": (
        {**READS, **EMPTY, "log_end": 1006, "time_lag_s": 0.0, "time_lag_method": NOTHING_TO_READ},
        "OK",
    ),
    # nobody in the group by nature
    "admin commits, lag": ({**commits((9000, 100)), **WAITS, **SIMPLE}, "STOP"),
    "assign() that reads": ({**CATCHES_UP, **SIMPLE}, "OK"),
    "assign() in a group that is Empty": ({**CATCHES_UP, **EMPTY, "empty_since": ago(99)}, "OK"),
    "reset of an Empty group": ({**commits((5, 100)), **WAITS, **EMPTY}, "STOP"),
    # transactions
    "waits at an open transaction": ({**SILENT, **WAITS, "last_stable": 1000}, "WARN"),
    # nothing can be said
    "no commit": ({"log_end": 100}, None),
    "log unknown": ({**steps(every_s=5), "log_problem": "no leader"}, None),
    "topic deleted": ({**NO_LOG, "log_problem": DELETED}, None),
    "group gone": ({**commits((5, 100)), "log_end": 200, "state": "Dead"}, None),
    "group unknown": ({**commits((5, 100)), "log_end": 50, "state": None}, None),
    "silent, waiting times unknown": ({**commits((500, 100)), "log_end": 200}, None),
    "commit times unknown": ({"committed": 100, "log_end": 200}, None),
    "commit times unknown, nothing to read": ({"committed": 200, "log_end": 200}, "OK"),
    "paused": ({**steps(**STANDS, last_s=900), **WAITS, "hold": "ann"}, "HELD"),
    "paused, nothing to read": ({**STALLS, "log_end": 1000, "hold": "ann"}, "HELD"),
    "perhaps paused": ({**steps(**STANDS, last_s=900), **WAITS, **PERHAPS_PAUSED}, None),
    "perhaps paused, nothing to read": ({**STALLS, "log_end": 1000, **PERHAPS_PAUSED}, "OK"),
    "perhaps paused, but reads": ({**READS, **WAITS, **PERHAPS_PAUSED}, "OK"),
    "reads, earlier end unknown": ({**READS, **WAITS}, "OK"),
    # a member that commits every five minutes is silent after a quarter of an hour
    "commits seldom, not yet due": ({**SELDOM, **steps(**DUE, last_s=890)}, "OK"),
    "commits seldom, overdue": ({**SELDOM, **steps(**DUE, last_s=910)}, "STOP"),
    # sixteen commits of a second each prove no minute, but the first of that offset does
    "short series": (SHORT, "OK"),
    "short series, first commit a minute ago": ({**SHORT, "max_committed_at": ago(70)}, "STALL"),
    # a record that was unread when the log end was looked up has waited since then at least
    "unread at the earlier end": ({**SEEN, "earlier_at": ago(90), "earlier_end": 4000}, "STOP"),
    "read at the earlier end": ({**SEEN, "earlier_at": ago(90), "earlier_end": 1000}, None),
    "read at a young earlier end": ({**SEEN, "earlier_at": ago(30), "earlier_end": 1000}, "OK"),
    # an uncertain wait counts with the least it can be
    "waits 70 s at most 5 s less": ({**SEEN, "time_lag_s": 70.0, "time_lag_error_s": 5.0}, "STOP"),
    "waits 70 s at most 20 s less": ({**SEEN, "time_lag_s": 70.0, "time_lag_error_s": 20.0}, "OK"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_behaviour_has_its_status(name: str) -> None:
    """Or none if it cannot be decided; always with a reason."""
    facts, expected = CASES[name]
    row = judge(**facts)

    assert expected == row["status"], row["status_why"]
    assert row["status_why"]


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({**READS, **WAITS}, "alive and committing"),
        ({**STALLS, **WAITS}, "alive and committing"),
        ({**SILENT, **WAITS}, "alive and silent"),
        ({**SILENT, "log_end": 1000}, "alive and idle"),
        ({**SILENT, **WAITS, "time_lag_s": 2.0}, "alive and idle"),
        ({**READS, **WAITS, **EMPTY}, "gone"),
        ({**READS, **WAITS, **SIMPLE}, None),
        ({**READS, **WAITS, "state": "Unknown"}, None),
        ({**READS, **WAITS, "subscribed": False}, None),
        ({**SILENT, "log_end": 1001}, None),
        ({"committed": 5, "log_end": 9}, None),
    ],
)
def test_member_state(facts: dict[str, Any], state: str | None) -> None:
    """A hung member, an idle one and a group that is left have different words, or none."""
    assert state == judge(**facts)["member_state"]


HUNG = steps(every_s=5, by=50, last_s=120)
PACES = ("consumed", "produced")
UNEVEN = commits((60, 0), (40, 100), (20, 500), (0, 900))
WENT_BACK = commits((55, 5000), (45, 0), (25, 400), (5, 800))
UNSORTED = commits((20, 100), (500, 200), (10, 300))


@pytest.mark.parametrize(
    ("facts", "consumed", "produced", "trend"),
    [
        ({**READS, **GROWS}, 10, 50, "falling behind"),
        ({**READS, **GROWS, "earlier_end": 8600}, 10, 10, "steady"),
        ({**READS, **GROWS, "earlier_end": 8800}, 10, 5, "catching up"),
        # an instant between two commits counts from where the group was on its way
        ({**UNEVEN, **GROWS}, 20, 50, "falling behind"),
        ({**UNEVEN, **GROWS, "earlier_at": ago(50)}, 17, 40, "falling behind"),
        # nobody reads any more
        ({**HUNG, **GROWS, "earlier_at": ago(100)}, 0, 20, "falling behind"),
        ({**HUNG, **GROWS, "earlier_at": ago(160)}, 0, 12.5, None),
        ({**READS, **GROWS, **EMPTY, "earlier_at": ago(0.8)}, 0, 2500, "falling behind"),
        ({**HUNG, "log_end": 1000, "earlier_at": ago(100), "earlier_end": 1000}, 0, 0, "steady"),
        # who is at the end is not behind, whatever came before
        ({**READS, "log_end": 1000, "earlier_at": ago(40), "earlier_end": 0}, 10, 25, "steady"),
        # what is not known
        ({**READS, **GROWS, "earlier_end": None}, 10, None, None),
        ({**READS, **GROWS, "earlier_end": 9001}, 10, None, None),
        ({**READS, **GROWS, "earlier_at": ago(-5)}, 10, None, None),
        ({**READS, **GROWS, "earlier_at": ago(50)}, 10, 40, None),
        ({**commits((30, 10), (1, 20)), **GROWS}, None, 50, None),
        # odd series: only what came after it went back; the order is that of the log
        ({**WENT_BACK, **GROWS, "earlier_at": ago(50)}, 20, 40, None),
        ({**WENT_BACK, **GROWS}, 20, 50, "falling behind"),
        ({**UNSORTED, **GROWS, "earlier_at": ago(400), "earlier_end": 8800}, 0.41, 0.5, None),
    ],
)
def test_pace(
    facts: dict[str, Any], consumed: float | None, produced: float | None, trend: str | None
) -> None:
    """Rates are what commits and log ends tell, and are compared only where both reach as far."""
    row = judge(**facts)
    rates = [None if pd.isna(row[f"{name}_per_s"]) else row[f"{name}_per_s"] for name in PACES]

    assert pytest.approx([consumed, produced], abs=0.01) == rates
    assert trend == row["trend"]


LEFT = {**commits((900, 10)), **WAITS, **EMPTY, "empty_since": ago(30)}


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (
            {**commits((60, 5000), (5, 2000)), "log_end": 6000},
            "moved back from 5,000: at most 3,000 records",
        ),
        (
            {**STALLS, **WAITS},
            "same offset for 1 min 16 s; lag 4,000, oldest unread record is 5 min old",
        ),
        ({**BACK, **WAITS}, "no commit for 2 min; lag 4,000"),
        ({**BACK, **WAITS}, "; offset was moved back from 3,000"),
        ({**READS, **GROWS}, "50.0 offsets/s produced, 10.0 consumed"),
        ({**LEFT, "log_end": 90}, "group has had no members for 30 s"),
        # Offsets of a topic that is gone are left over; of one without a leader nothing is known.
        ({**NO_LOG, "log_problem": DELETED}, f"unused offset: {DELETED}"),
        ({**NO_LOG, "log_problem": "no leader"}, "log offsets unknown: no leader"),
        # A silent member whose commit is in an open transaction is told apart from a hung one.
        ({**SILENT, **WAITS, "pending": True}, "a commit is pending in an open transaction"),
        ({"log_end": 5, "pending": True}, "open transaction"),
    ],
)
def test_reasons_have_numbers(facts: dict[str, Any], why: str) -> None:
    """How much, for how long, and what is in the way."""
    assert why in judge(**facts)["status_why"]


def test_a_long_reading_makes_no_group_silent() -> None:
    """Silence ends when commits were read: later commits are unknown."""
    rows = frame(
        [
            {**steps(**STANDS, last_s=100), "log_end": 5000, "time_lag_s": 95.0},
            {**steps(every_s=5, by=50, last_s=100), "log_end": 5000, "time_lag_s": 95.0},
            {**steps(every_s=5, number=7, last_s=100), "log_end": 5000, "time_lag_s": 165.0},
            {**steps(**STANDS, last_s=100), "log_end": 5000, "time_lag_s": 165.0},
            {**steps(**STANDS, last_s=165), "log_end": 5000, "time_lag_s": 165.0},
        ]
    )
    seen = with_status(rows.assign(skew_s=99.0), now=NOW)

    assert ["STOP"] * 5 == with_status(rows, now=NOW)["status"].tolist()
    assert ["OK", "OK", "OK", "STALL", "STOP"] == seen["status"].tolist()
    assert ["alive and committing"] * 4 + ["alive and silent"] == seen["member_state"].tolist()


def test_rules_can_be_chosen() -> None:
    """Patience, tolerance and the number of commits are the caller's to choose."""
    hung = frame([{**steps(**STANDS, last_s=20), "log_end": 5000, "time_lag_s": 25.0}])
    behind = frame([{**READS, **GROWS, "earlier_end": 8520}])

    for table, rules, expected in (
        (hung, StatusRules(), "OK"),
        (hung, StatusRules(patience_s=6), "STOP"),
        (behind, StatusRules(), "WARN"),
        (behind, StatusRules(tolerance=0.5), "OK"),
        (behind, StatusRules(min_commits=30), "OK"),
        (behind, StatusRules(window_s=12), "OK"),
    ):
        assert expected == with_status(table, now=NOW, rules=rules)["status"].iloc[0], rules


def test_a_frame_keeps_its_columns() -> None:
    """Other columns, the index and the order of the rows stay."""
    rows = frame([{**steps(every_s=5), "log_end": 1000}, {}]).assign(more=[7, 8])
    rows.index = pd.Index([9, 9])
    result = with_status(rows, now=NOW)

    pd.testing.assert_frame_equal(rows, result[rows.columns])
    assert ["OK", None] == result["status"].tolist()


def test_an_empty_frame_has_the_columns() -> None:
    """Nothing to judge gives tables without rows."""
    result = with_status(frame([]), now=NOW)
    groups = status_by_group(result)

    assert {"status", "status_why", "member_state", "trend", "catch_up_s"} <= set(result.columns)
    assert {"status", "worst_status", "worst_topic", "unknown"} <= set(groups.columns)
    assert 0 == len(result) == len(groups)


def in_arrays(row: dict[str, Any]) -> dict[str, Any]:
    """Return facts whose commits are arrays, as they come from Arrow."""
    at = pd.DatetimeIndex(row["recent_at"]).tz_localize(None).to_numpy()
    return {**row, "recent_at": at, "recent_offset": np.array(row["recent_offset"])}


def test_lists_may_be_arrays() -> None:
    """Arrow hands lists over as arrays of numpy, without a zone: they mean the same."""
    rows = [{**STALLS, **WAITS}, {**commits((5, 3)), "log_end": 5}]
    as_lists, arrays = frame([*rows, {}]), frame([*map(in_arrays, rows), {}])
    added = ["status", "status_why", "member_state", "trend", "consumed_per_s"]

    pd.testing.assert_frame_equal(
        with_status(as_lists, now=NOW)[added], with_status(arrays, now=NOW)[added]
    )


@pytest.mark.parametrize(
    "series",
    [
        {"recent_at": [], "recent_offset": []},
        {"recent_at": [ago(5), ago(3)], "recent_offset": [4]},
        {"recent_at": None, "recent_offset": [4]},
        {"recent_at": [ago(3), ago(9000), ago(5)], "recent_offset": [4, 2, 9]},
        {"recent_at": [ago(-9000), ago(5), ago(-3)], "recent_offset": [1, 2, 3]},
        {"recent_at": [ago(5)] * 4, "recent_offset": [1, 2, 3, 4]},
        {"recent_at": [None, ago(5)], "recent_offset": [None, 2**63 - 1]},
        {"recent_at": [datetime(9999, 12, 31, tzinfo=UTC), ago(5)], "recent_offset": [0, 2**62]},
        {"recent_at": [ago(i) for i in range(500, 0, -1)], "recent_offset": list(range(500))},
    ],
)
def test_odd_series_do_not_matter(series: dict[str, Any]) -> None:
    """Unsorted, future, equal, missing and endless times of commits are no reason to fail."""
    facts = {"committed": 400, "committed_at": ago(3), "log_end": 500, "time_lag_s": 2.0, **series}

    assert "OK" == judge(**facts)["status"]


def test_a_group_is_as_its_worst_partition() -> None:
    """A group has the worst status, and where it is; STOP is an ERR; counts tell the rest."""
    rows = frame(
        [
            {**LEFT, "partition": 0, "log_end": 50},
            {**LEFT, "partition": 1, "log_end": 90},
            {**LEFT, "partition": 2, "log_end": 10},
            {"partition": 3, "log_end": 10},
            {**steps(every_s=5), "log_end": 1000, "group": "fine"},
            {**steps(every_s=5), "log_end": 1000, "group": "fine", "cluster": "us"},
            {"log_end": 10, "group": "mute"},
        ]
    )
    groups = status_by_group(with_status(rows, now=NOW)).set_index(["cluster", "group"])
    worst, mute = groups.loc[("eu", "g")], groups.loc[("eu", "mute")]

    words, place = ["status", "worst_status", "member_state"], ["worst_topic", "worst_partition"]
    assert ["ERR", "STOP", "gone", "t", 1] == worst[[*words, *place]].tolist()
    assert "group has had no members for 30 s" == worst["status_why"]
    assert [2, 1, 1] == worst[["stop", "ok", "unknown"]].tolist()
    assert "OK" == groups.loc[("us", "fine"), "status"]
    assert [None, None, "no committed offset"] == mute[[*words[:2], "status_why"]].tolist()
    assert mute[place].isna().all()


UNDATED = {"committed": 1000, "committed_at": None, "partition": 1}
NO_LEADER = {"committed": 5, "log_start": None, "log_end": None, "log_problem": "no leader"}
FINE = {**READS, "log_end": 1000, "time_lag_s": 0.0}
LAGS = {**UNDATED, "log_end": 1_001_000, "time_lag_s": 172_800.0}


@pytest.mark.parametrize(
    ("other", "status", "time_lag_s"),
    [
        (LAGS, None, 172_800),
        ({**LAGS, "time_lag_s": None}, None, None),
        ({**NO_LEADER, "partition": 1}, None, None),
        # Of what is not to be judged nothing is unknown.
        ({"committed": None, "log_end": 10, "partition": 1}, "OK", 0),
        ({**NO_LEADER, "log_problem": NO_TOPIC, "topic": "gone"}, "OK", 0),
        # Trouble that is known comes first.
        ({**STALLS, **WAITS, "partition": 1}, "ERR", 300),
    ],
    ids=["no commit time", "no times", "no leader", "no commit", "no topic", "known"],
)
def test_a_group_is_not_fine_for_those_of_its_partitions_that_are(
    other: dict[str, Any], status: str | None, time_lag_s: float | None
) -> None:
    """One partition of which nothing is known may be the one that stands still."""
    rows = with_status(frame([FINE, other]), now=NOW)
    more = dict.fromkeys(("type", "members", "expires_at", "expires_immediately_if_stopped"))
    group = group_summary(rows.assign(**more, skew_s=0.0)).iloc[0]

    found = [None if pd.isna(value) else value for value in group[["status", "time_lag_s"]]]
    assert [status, time_lag_s] == found
    assert status or group["status_partition"] == 1


def test_a_partition_that_was_moved_back_hides_no_stuck_one() -> None:
    """A group of which one partition is read again and another stopped shows the stopped one."""
    again, stopped = {**BACK_LATELY, **WAITS, "partition": 1}, {**SILENT, **WAITS}
    groups = status_by_group(with_status(frame([again, stopped]), now=NOW)).iloc[0]

    assert ("ERR", "STOP", 1) == tuple(groups[["status", "worst_status", "rewind"]])


def test_a_leftover_is_no_alarm() -> None:
    """A topic that was left counts less than any trouble, and more than nothing at all."""
    left = {**commits((9000, 10)), **GROWS, "subscribed": False, "partition": 1}
    fine = {**READS, "log_end": 1000}
    behind = {**READS, **GROWS, "topic": "other"}
    groups = status_by_group(with_status(frame([left, fine]), now=NOW)).iloc[0]
    worse = status_by_group(with_status(frame([left, behind, fine]), now=NOW)).iloc[0]

    assert ("UNSUBSCRIBED", "alive and committing") == tuple(groups[["status", "member_state"]])
    assert groups["trend"] is None
    assert ("WARN", "other", "falling behind") == tuple(worse[["status", "worst_topic", "trend"]])
