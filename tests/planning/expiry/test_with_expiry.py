"""When committed offsets expire: the brokers' table, what was measured, and what is not known."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pandas as pd
import pytest
from expiry_facts import CLASSIC, CONNECT, EMPTY, FACTS, KIP848, READS, STREAMS, T0, at, frame
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import UNPARSED
from toolkit.planning.expiry.expiry_forecast import with_expiry
from toolkit.planning.expiry.expiry_rules import Confidence, ExpiryRule

GRAIN_S = 0.1  # of the clocks with which the cases were measured
ADDED = [
    *("expires_at", "expires_by", "expiry_rule", "expiry_why", "expires_if_stopped_at"),
    *("expires_immediately_if_stopped", "expiry_confidence"),
]
GONE = {"log_problem": "the topic does not exist"}
LEFT, LEFT_848 = {**CLASSIC, **EMPTY}, {**KIP848, **EMPTY}
NOT_PARSED = {**CLASSIC, "subscribed": None, "unreadable": UNPARSED}
SHARE = {"type": "share", "protocol_type": "share"}
PREPARING, COMPLETING = "PreparingRebalance", "CompletingRebalance"
NO_MEMBERS = "group has no members"


def look(row: dict[str, Any], *, now_s: float = 30) -> pd.Series[Any]:
    return with_expiry(frame(row), now=T0 + timedelta(seconds=now_s)).iloc[0]


def seconds(moment: Any) -> float | None:
    """Return seconds from the first instant; None for no time."""
    return None if pd.isna(moment) else (moment - T0).total_seconds()


class Case(NamedTuple):
    """A row of facts, what the table says of it, and when it was gone on a broker, if measured."""

    row: dict[str, Any]
    rule: ExpiryRule
    expires_s: float | None = None
    now_s: float = 30
    measured_s: tuple[float, ...] = ()  # the earliest and the latest


# A case begins with its row in the decision table. The cases of measurements are in brackets: on a
# broker with a retention of 60 s that looks every second. Measurements of the same facts are one
# case, as if the group had become Empty, or had committed, at the same second.
CASES = {
    "0": Case({**LEFT, "empty_since": 5, "committed": None}, ExpiryRule.NO_COMMIT),
    "1": Case({**CLASSIC, **READS, **GONE}, ExpiryRule.TOPIC_DELETED, 30),
    "2": Case({**SHARE, "state": "Stable"}, ExpiryRule.SHARE_GROUP),
    "2 Empty": Case(SHARE, ExpiryRule.SHARE_GROUP),
    "3 [10b]": Case({"pending": True}, ExpiryRule.OPEN_TRANSACTION, now_s=100),
    "4 [8]": Case(CONNECT, ExpiryRule.OTHER_PROTOCOL, now_s=119),
    "4 rebalancing": Case({**CONNECT, "state": PREPARING}, ExpiryRule.OTHER_PROTOCOL),
    "5 preparing [4]": Case({**CLASSIC, "state": PREPARING}, ExpiryRule.REBALANCING, now_s=110),
    "5 completing [4]": Case({**CLASSIC, "state": COMPLETING}, ExpiryRule.REBALANCING, now_s=105),
    "6 [3c]": Case(NOT_PARSED, ExpiryRule.UNPARSED, now_s=109),
    "7 classic [2, 3b]": Case({**CLASSIC, **READS}, ExpiryRule.SUBSCRIBED, now_s=169),
    "7 consumer [6, 6c, 7]": Case({**KIP848, **READS}, ExpiryRule.SUBSCRIBED, now_s=179),
    "7 reconciling": Case({**KIP848, **READS, "state": "Reconciling"}, ExpiryRule.SUBSCRIBED),
    "7 streams [16]": Case({**STREAMS, **READS}, ExpiryRule.SUBSCRIBED, now_s=77),
    "7 streams, not ready": Case({**STREAMS, **READS, "state": "NotReady"}, ExpiryRule.SUBSCRIBED),
    "7 consumer, a time of its own": Case(
        {**KIP848, **READS, "expire_at": 5}, ExpiryRule.SUBSCRIBED
    ),
    "7 classic, a time of its own [9c]": Case(
        {**CLASSIC, **READS, "expire_at": 15}, ExpiryRule.SUBSCRIBED, now_s=39
    ),
    "8 simple [9 v2]": Case({"expire_at": 20}, ExpiryRule.CHOSEN_TIME, 20, 10, (20.73,)),
    "8 later [9 v4]": Case({"expire_at": 90}, ExpiryRule.CHOSEN_TIME, 90, 10, (90.79,)),
    "8 live [9c]": Case({**CLASSIC, "expire_at": 15}, ExpiryRule.CHOSEN_TIME, 15, 10, (15.71,)),
    "8 overdue when it was left [9c]": Case(
        *({**LEFT, "expire_at": 15, "empty_since": 39.8}, ExpiryRule.CHOSEN_TIME, 15),
        *(39.8, (40.75,)),
    ),
    "8 Empty [9d]": Case(
        *({**LEFT, "expire_at": 90, "empty_since": 10}, ExpiryRule.CHOSEN_TIME, 90, 11, (90.77,))
    ),
    "9 [1 ta:0, 2, 3c, 19, 20, 22]": Case(
        *({**LEFT, "empty_since": 40}, ExpiryRule.EMPTY_SINCE, 100, 41, (99.97, 100.72))
    ),
    "9 committed in between [1 ta:1]": Case(
        {**LEFT, "empty_since": 40, "committed_at": 20}, ExpiryRule.EMPTY_SINCE, 100, 45, (99.97,)
    ),
    "9 committed since [13]": Case(
        {**LEFT, "empty_since": 10, "committed_at": 50}, ExpiryRule.EMPTY_SINCE, 70, 51, (70.7,)
    ),
    "9 connect [8]": Case(
        {**CONNECT, **EMPTY, "empty_since": 120}, ExpiryRule.EMPTY_SINCE, 180, 121, (180.1,)
    ),
    "9 old record": Case({**LEFT, "committed_at": 3}, ExpiryRule.EMPTY_SINCE, 63),
    "10 [5, 9 plain, 10b beside, 13c]": Case(
        {"committed_at": 20}, ExpiryRule.SIMPLE_GROUP, 80, 31, (80.0, 80.98)
    ),
    "10 overdue [10b aborted]": Case({}, ExpiryRule.SIMPLE_GROUP, 60, 100.6, (101.5,)),
    "10 a classic group that never had a member": Case(
        {**LEFT, "protocol_type": None, "empty_since": 20}, ExpiryRule.SIMPLE_GROUP, 60
    ),
    "11 classic [3, 3d, 4r, 22]": Case(
        CLASSIC, ExpiryRule.NOT_SUBSCRIBED, 60, measured_s=(60.4, 60.94)
    ),
    "11 classic, a later commit [3 tb:1]": Case(
        {**CLASSIC, "committed_at": 20}, ExpiryRule.NOT_SUBSCRIBED, 80, measured_s=(80.97,)
    ),
    "11 classic, overdue [3b, 4]": Case(CLASSIC, ExpiryRule.NOT_SUBSCRIBED, 60, 90, (90.9,)),
    "11 consumer [3d, 6, 6c, 28]": Case(
        KIP848, ExpiryRule.NOT_SUBSCRIBED, 60, measured_s=(60.83, 60.98)
    ),
    "11 consumer, a later commit [6]": Case(
        {**KIP848, "committed_at": 25}, ExpiryRule.NOT_SUBSCRIBED, 85, measured_s=(85.98,)
    ),
    "11 consumer, overdue [6b]": Case(KIP848, ExpiryRule.NOT_SUBSCRIBED, 60, 90, (90.85,)),
    "11 consumer, left late [7, 7c, 28]": Case(
        *({**LEFT_848, "empty_since": 79.8}, ExpiryRule.NOT_SUBSCRIBED, 60, 79.8, (79.94, 80.81))
    ),
    "11 consumer, left early [7b, 13b, 18]": Case(
        *({**LEFT_848, "empty_since": 30}, ExpiryRule.NOT_SUBSCRIBED, 60, 31, (60.7, 60.8))
    ),
    "11 consumer, committed since [13b]": Case(
        {**LEFT_848, "empty_since": 10, "committed_at": 50},
        *(ExpiryRule.NOT_SUBSCRIBED, 110, 51, (110.97,)),
    ),
    "11 streams [16]": Case(STREAMS, ExpiryRule.NOT_SUBSCRIBED, 60, measured_s=(60.33,)),
    "11 streams, closed [16]": Case(
        *({**STREAMS, **EMPTY, "empty_since": 78.6}, ExpiryRule.NOT_SUBSCRIBED, 60, 78.6, (78.8,))
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_row_of_the_table_as_it_was_measured(case: Case) -> None:
    """A row gives its time, or none; what was measured is between the forecast's two times."""
    found = look(case.row, now_s=case.now_s)

    assert (str(case.rule), case.expires_s) == (found["expiry_rule"], seconds(found["expires_at"]))
    for gone_s in case.measured_s:
        assert seconds(found["expires_at"]) <= gone_s + GRAIN_S
        assert gone_s <= seconds(found["expires_by"]) + GRAIN_S
    assert Confidence.NONE != found["expiry_confidence"]
    assert not case.measured_s or Confidence.HIGH == found["expiry_confidence"]


@pytest.mark.parametrize(
    ("row", "now_s", "stopped_s", "at_once"),
    [
        pytest.param({**KIP848, **READS}, 79.8, 79.8, True, id="848 with an old commit"),
        pytest.param({**KIP848, **READS}, 30, 60, False, id="848 with a new commit"),
        pytest.param({**STREAMS, **READS}, 78.6, 78.6, True, id="streams with an old commit"),
        pytest.param({**CLASSIC, **READS}, 170, 230, False, id="classic"),
        pytest.param(CLASSIC, 59, 119, False, id="classic: stopping gives more time"),
        pytest.param(CONNECT, 120, 180, False, id="connect"),
        pytest.param({**CLASSIC, "state": PREPARING}, 30, 90, False, id="classic, rebalancing"),
        pytest.param({**CLASSIC, **READS, "expire_at": 15}, 39.8, 39.8, True, id="chosen, past"),
        pytest.param({**KIP848, **READS, "expire_at": 90}, 39.8, 90, False, id="chosen, to come"),
        pytest.param({"committed_at": 5}, 90, 65, False, id="simple: nothing to stop"),
        pytest.param(LEFT_848, 90, 60, False, id="848, Empty: nothing to stop"),
        pytest.param({**KIP848, **READS, "pending": True}, 90, None, False, id="open transaction"),
        pytest.param({**SHARE, "state": "Stable"}, 90, None, False, id="share"),
        pytest.param({**KIP848, "committed": None}, 90, None, False, id="no commit"),
        pytest.param({"type": "unknown", "state": "Stable"}, 90, None, None, id="unknown type"),
        pytest.param({**CLASSIC, "state": "Unknown"}, 90, None, None, id="unknown state"),
        pytest.param(
            {**KIP848, "subscribed": None, "committed_at": None}, 90, None, None, id="no clock"
        ),
        pytest.param({**KIP848, "subscribed": None}, 90, 90, True, id="subscription unknown"),
    ],
)
def test_if_the_group_stopped(
    row: dict[str, Any], now_s: float, stopped_s: float | None, at_once: object
) -> None:
    """When an offset would go if the last member left now, and whether that is at once."""
    found = look(row, now_s=now_s)

    assert stopped_s == seconds(found["expires_if_stopped_at"])
    result = found["expires_immediately_if_stopped"]
    assert at_once == (None if pd.isna(result) else result)


NOT_DESCRIBED = "the group could not be described"
NO_STATE = "group state unknown, or the group no longer exists"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"type": "unknown"}, "group type unknown"),
        ({**CLASSIC, "state": "Unknown"}, NO_STATE),
        ({**CLASSIC, "state": "Dead"}, NO_STATE),
        ({**CLASSIC, "subscribed": None}, "subscription unknown"),
        ({**KIP848, "subscribed": None, "unreadable": "why"}, "subscription unknown: why"),
        (
            {**CLASSIC, "subscribed": None, "unreadable": NOT_DESCRIBED},
            f"subscription unknown: {NOT_DESCRIBED}",
        ),
        ({"committed_at": None}, "group has no members; commit time unknown"),
        ({**CLASSIC, "committed_at": None}, "no member subscribes; commit time unknown"),
        ({**LEFT, "committed_at": None}, f"{NO_MEMBERS}; unknown when the group became Empty"),
        ({"retention_s": None}, f"{NO_MEMBERS}; offsets.retention.minutes unknown"),
        ({"retention_s": 2**40}, f"{NO_MEMBERS}; the date is out of range"),
    ],
)
def test_unknown_expiry_has_no_time(row: dict[str, Any], why: str) -> None:
    """If a fact is missing there is no number, no confidence, and the reason."""
    found = look(row)

    assert (None, None) == tuple(seconds(found[name]) for name in ("expires_at", "expires_by"))
    assert ("none", why) == (found["expiry_confidence"], found["expiry_why"])


DAYS = "7 d after the commit at 2026-03-01 00:00 UTC"
A_DAY_AND_A_HALF = "1 d 12 h after the group became Empty at 2026-03-01 00:10 UTC"
AT_THE_EARLIEST = (
    "at the earliest 1 min after the commit at 2026-03-01 00:00 UTC: unknown when the group "
    "became Empty"
)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({}, f"{NO_MEMBERS}; 1 min after the commit at 2026-03-01 00:00 UTC"),
        ({**KIP848, "retention_s": 604_800}, f"no member subscribes; {DAYS}"),
        ({**LEFT, "empty_since": 600, "retention_s": 129_600}, f"{NO_MEMBERS}; {A_DAY_AND_A_HALF}"),
        (LEFT, f"{NO_MEMBERS}; {AT_THE_EARLIEST}"),
        ({"expire_at": 20}, f"{NO_MEMBERS}; at the expiry time that the client set in the commit"),
        ({**CLASSIC, **READS}, "a member subscribes to the topic"),
    ],
)
def test_reasons(row: dict[str, Any], why: str) -> None:
    """A reason names the clock, how long it runs, and since when."""
    assert why == look(row)["expiry_why"]


@pytest.mark.parametrize(
    ("row", "expires_s", "confidence"),
    [
        # A forecast that something unseen can move says so.
        pytest.param({"pending": None}, 60, "medium", id="transaction unknown"),
        pytest.param(LEFT, 60, "low", id="old record"),
        pytest.param(GONE, 90, "low", id="deleted topic"),
    ],
)
def test_how_certain_a_time_is(
    row: dict[str, Any], expires_s: float | None, confidence: str
) -> None:
    """The confidence is that of the evidence, which is the log's own where it can be read."""
    found = look(row, now_s=90)

    assert (expires_s, confidence) == (seconds(found["expires_at"]), found["expiry_confidence"])


def test_overdue_offsets_expire_at_the_next_check() -> None:
    """One check interval from now, not in the past."""
    found = look({}, now_s=200)

    assert (60, 201) == (seconds(found["expires_at"]), seconds(found["expires_by"]))
    assert pd.isna(look({"check_interval_s": None})["expires_by"])


def test_an_empty_frame() -> None:
    """A frame without rows gets its columns, each of its type."""
    found = with_expiry(frame(), now=T0)

    assert ADDED == list(found.columns[len(FACTS) :])
    assert "datetime64[ms, UTC]" == str(found["expires_at"].dtype)
    assert "boolean" == str(found["expires_immediately_if_stopped"].dtype)


def test_other_columns_and_the_index_are_kept() -> None:
    """The rule adds columns and leaves everything else as it was."""
    given_ = frame({}, CLASSIC, KIP848).set_axis([7, 3, 5])
    found = with_expiry(given_, now=T0)

    pd.testing.assert_frame_equal(given_, found.drop(columns=ADDED))


STATES = [
    *("Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning"),
    *("Reconciling", "NotReady", "Dead", "Unknown"),
]
some_time = st.one_of(st.none(), st.integers(0, 300))
facts = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["classic", "consumer", "streams", "share", "simple", "unknown"]),
        "state": st.sampled_from(STATES),
        "protocol_type": st.sampled_from(["consumer", "connect", None]),
        "subscribed": st.sampled_from([True, False, None]),
        "unreadable": st.sampled_from(["", "", UNPARSED, "why"]),
        "pending": st.sampled_from([False, False, True, None]),
        "committed": st.sampled_from([7, 7, 7, None]),
        "log_problem": st.sampled_from(["", "", "", "the topic does not exist", "no leader"]),
        **dict.fromkeys(("committed_at", "expire_at", "empty_since"), some_time),
        "retention_s": st.one_of(st.none(), st.integers(1, 600)),
        "check_interval_s": st.one_of(st.none(), st.integers(1, 60)),
    }
)


def plain(row: dict[str, Any], now_s: int) -> tuple[str, int | None, int | None, int | None]:
    """Return rule, expires_at, expires_by and expires_if_stopped_at, row by row as in the table."""
    rule, expires = by_table(row, now_s)
    by = None
    if expires is not None and row["check_interval_s"] is not None:
        by = max(expires, now_s) + row["check_interval_s"]
    return rule, expires, by, by_stopping(row, now_s, expires)


def kind_of(row: dict[str, Any]) -> str:
    """Return the kind of group as the table tells kinds apart."""
    empty, live = row["state"] == "Empty", row["state"] not in {"Empty", "Dead", "Unknown"}
    if row["type"] == "classic":
        if empty and not row["protocol_type"]:
            return "simple"
        if not row["protocol_type"]:
            return ""
        return "consumers" if row["protocol_type"] == "consumer" else "others"
    if row["type"] in {"consumer", "streams"}:
        return "modern"
    return "" if row["type"] == "simple" and live else row["type"]


def plus(start: int | None, length: int | None) -> int | None:
    """Return a time moved on, where both are known."""
    return None if start is None or length is None else start + length


def by_table(row: dict[str, Any], now_s: int) -> tuple[str, int | None]:  # noqa: C901, PLR0911  # rows of a table
    """Return the first row that fits, and its time."""
    kind, state = kind_of(row), row["state"]
    empty, live = state == "Empty", state not in {"Empty", "Dead", "Unknown"}
    keep = row["retention_s"]
    commit = row["committed_at"]
    if row["committed"] is None:
        return "no commit", None
    if row["log_problem"] == "the topic does not exist":
        return "topic deleted", now_s
    if kind == "share":
        return "share group", None
    if row["pending"]:
        return "open transaction", None
    if kind == "others" and live:
        return "live, not of consumers", None
    if kind == "consumers" and state.endswith("Rebalance"):
        return "rebalancing", None
    if kind == "consumers" and state == "Stable" and row["unreadable"] == UNPARSED:
        return "subscription not parseable", None
    reads = (kind == "consumers" and state == "Stable") or (kind == "modern" and live)
    if reads and row["subscribed"]:
        return "subscribed", None
    alone = kind == "simple" or (empty and kind in {"consumers", "others", "modern"})
    reads = (kind == "consumers" and state == "Stable") or kind == "modern"
    if not alone and not (reads and row["subscribed"] is False):
        return "unknown", None
    if row["expire_at"] is not None:
        return "time chosen with the commit", row["expire_at"]
    if kind in {"consumers", "others"} and empty:
        since = row["empty_since"] if row["empty_since"] is not None else commit
        return "empty since", plus(since, keep)
    return "simple group" if kind == "simple" else "nobody subscribes", plus(commit, keep)


def by_stopping(row: dict[str, Any], now_s: int, expires: int | None) -> int | None:
    """Return when it would expire if the last member left now."""
    kind, state = kind_of(row), row["state"]
    if row["log_problem"] == "the topic does not exist":
        return expires  # which is null where nothing is committed
    if kind == "share" or row["pending"] or row["committed"] is None:
        return None
    if kind == "simple" or state == "Empty":
        return expires
    if state in {"Dead", "Unknown"} or kind not in {"consumers", "others", "modern"}:
        return None
    goes = plus(row["committed_at"] if kind == "modern" else now_s, row["retention_s"])
    goes = row["expire_at"] if row["expire_at"] is not None else goes
    return None if goes is None else max(goes, now_s)


@given(st.lists(facts, max_size=20), st.integers(0, 400))
def test_all_rows_at_once_equal_each_row_by_the_table(
    rows: list[dict[str, Any]], now_s: int
) -> None:
    """The rule for whole frames says of each row what the table says, row by row."""
    found = with_expiry(frame(*rows), now=T0 + timedelta(seconds=now_s))
    times = ("expires_at", "expires_by", "expires_if_stopped_at")
    forecast = [
        (rule, *map(seconds, moments))
        for rule, *moments in found[["expiry_rule", *times]].itertuples(index=False, name=None)
    ]

    assert [plain(row, now_s) for row in rows] == forecast


@given(facts, st.integers(0, 400))
def test_invariants(row: dict[str, Any], now_s: int) -> None:
    """No time without confidence, no early expiry, always a reason."""
    found = look(row, now_s=now_s)
    expires, confidence = seconds(found["expires_at"]), found["expiry_confidence"]
    at_once = found["expires_immediately_if_stopped"]

    assert expires is None or Confidence.NONE != confidence
    assert pd.isna(at_once) or not at_once or now_s == seconds(found["expires_if_stopped_at"])
    assert found["expiry_why"]
    assert not (confidence == "high" and row["pending"] is None and expires)


@given(st.lists(facts, min_size=1, max_size=10), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(rows: list[dict[str, Any]], chance: Any) -> None:
    """A row has the same forecast wherever it stands in a frame."""
    given_ = frame(*rows)
    order = list(given_.index)
    chance.shuffle(order)
    now: datetime = at(200) or T0

    pd.testing.assert_frame_equal(
        with_expiry(given_, now=now).loc[order], with_expiry(given_.loc[order], now=now)
    )
