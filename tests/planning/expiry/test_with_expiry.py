"""When committed offsets expire: the brokers' table, what was measured, and what is not known."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from expiry_facts import CLASSIC, CONNECT, EMPTY, FACTS, KIP848, READS, STREAMS, T0, at, frame
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import UNPARSED
from toolkit.planning.expiry.expiry_rules import Confidence, ExpiryRule
from toolkit.planning.expiry.with_expiry import with_expiry

GRAIN_S = 0.1  # of the clocks with which the cases were measured
ADDED = [
    *("expires_at", "expires_by", "expiry_rule", "expiry_why", "expires_if_stopped_at"),
    *("expires_immediately_if_stopped", "expiry_confidence"),
]
GONE = {"log_problem": "the topic does not exist"}
LEFT, LEFT_848 = {**CLASSIC, **EMPTY}, {**KIP848, **EMPTY}
NOT_PARSED = {**CLASSIC, "subscribed": None, "unreadable": UNPARSED}
SHARE = {"type": "share", "protocol_type": "share"}


def look(row: dict[str, Any], *, now_s: float = 30) -> pd.Series[Any]:
    """Return the forecast of one row, made some seconds after the first instant."""
    return with_expiry(frame(row), now=T0 + timedelta(seconds=now_s)).iloc[0]


def seconds(moment: Any) -> float | None:
    """Return seconds from the first instant; None for no time."""
    return None if pd.isna(moment) else (moment - T0).total_seconds()


TABLE = [
    ("0", {**LEFT, "empty_since": 5, "committed": None}, ExpiryRule.NO_COMMIT, None),
    ("1", {**CLASSIC, **READS, **GONE}, ExpiryRule.TOPIC_DELETED, 30),
    ("2", {**SHARE, "state": "Stable"}, ExpiryRule.SHARE_GROUP, None),
    ("2 Empty", SHARE, ExpiryRule.SHARE_GROUP, None),
    ("3", {"pending": True}, ExpiryRule.OPEN_TRANSACTION, None),
    ("4", CONNECT, ExpiryRule.OTHER_PROTOCOL, None),
    ("4 rebalancing", {**CONNECT, "state": "PreparingRebalance"}, ExpiryRule.OTHER_PROTOCOL, None),
    ("5 preparing", {**CLASSIC, "state": "PreparingRebalance"}, ExpiryRule.REBALANCING, None),
    ("5 completing", {**CLASSIC, "state": "CompletingRebalance"}, ExpiryRule.REBALANCING, None),
    ("6", NOT_PARSED, ExpiryRule.UNPARSED, None),
    ("7 classic", {**CLASSIC, **READS}, ExpiryRule.SUBSCRIBED, None),
    ("7 consumer", {**KIP848, **READS, "state": "Reconciling"}, ExpiryRule.SUBSCRIBED, None),
    ("7 streams", {**STREAMS, **READS, "state": "NotReady"}, ExpiryRule.SUBSCRIBED, None),
    ("7, with a time of its own", {**KIP848, **READS, "expire_at": 5}, ExpiryRule.SUBSCRIBED, None),
    ("8 simple", {"expire_at": 20}, ExpiryRule.CHOSEN_TIME, 20),
    ("8 live", {**CLASSIC, "expire_at": 15}, ExpiryRule.CHOSEN_TIME, 15),
    ("8 Empty", {**LEFT, "expire_at": 90, "empty_since": 10}, ExpiryRule.CHOSEN_TIME, 90),
    ("9", {**LEFT, "committed_at": 0, "empty_since": 20}, ExpiryRule.EMPTY_SINCE, 80),
    ("9 connect", {**CONNECT, **EMPTY, "empty_since": 20}, ExpiryRule.EMPTY_SINCE, 80),
    ("9 old record", {**LEFT, "committed_at": 3}, ExpiryRule.EMPTY_SINCE, 63),
    ("10", {"committed_at": 12}, ExpiryRule.SIMPLE_GROUP, 72),
    (
        "10, a classic group that never had a member",
        {**LEFT, "protocol_type": None, "empty_since": 20},
        ExpiryRule.SIMPLE_GROUP,
        60,
    ),
    ("11 classic", {**CLASSIC, "committed_at": 12}, ExpiryRule.NOT_SUBSCRIBED, 72),
    ("11 consumer", {**KIP848, "committed_at": 12}, ExpiryRule.NOT_SUBSCRIBED, 72),
    (
        "11 consumer, Empty",
        {**LEFT_848, "committed_at": 12, "empty_since": 25},
        ExpiryRule.NOT_SUBSCRIBED,
        72,
    ),
    ("11 streams", {**STREAMS, "committed_at": 12}, ExpiryRule.NOT_SUBSCRIBED, 72),
    ("11 streams, Empty", {**STREAMS, **EMPTY}, ExpiryRule.NOT_SUBSCRIBED, 60),
]


@pytest.mark.parametrize(
    ("row", "rule", "expires_s"), [t[1:] for t in TABLE], ids=[t[0] for t in TABLE]
)
def test_rows_of_the_table(row: dict[str, Any], rule: ExpiryRule, expires_s: float | None) -> None:
    """Each row of the decision table is found, and gives its time or none."""
    found = look(row)

    assert (str(rule), expires_s) == (found["expiry_rule"], seconds(found["expires_at"]))
    assert Confidence.NONE != found["expiry_confidence"]


# What was measured on a broker with a retention of 60 s that looks every second: when it was looked
# at, what could be read then, the row that tells, and when it was gone (None: still there).
CASES = [
    ("1 ta:0", 45, {**LEFT, "empty_since": 40}, "empty since", 99.97),
    ("1 ta:1", 45, {**LEFT, "empty_since": 40, "committed_at": 20}, "empty since", 99.97),
    ("2 live", 169, {**CLASSIC, **READS}, "subscribed", None),
    ("2 left", 171, {**LEFT, "empty_since": 170}, "empty since", 230.2),
    ("3 tb:0", 30, CLASSIC, "nobody subscribes", 60.91),
    ("3 tb:1", 30, {**CLASSIC, "committed_at": 20}, "nobody subscribes", 80.97),
    ("3b subscribed", 89, {**CLASSIC, **READS}, "subscribed", None),
    ("3b no more", 90, CLASSIC, "nobody subscribes", 90.9),
    ("3c live", 109, NOT_PARSED, "subscription not parseable", None),
    ("3c left", 111, {**LEFT, "empty_since": 110}, "empty since", 170.0),
    ("3d classic", 30, CLASSIC, "nobody subscribes", 60.94),
    ("3d 848", 30, KIP848, "nobody subscribes", 60.98),
    ("4 preparing", 110, {**CLASSIC, "state": "PreparingRebalance"}, "rebalancing", None),
    ("4 completing", 105, {**CLASSIC, "state": "CompletingRebalance"}, "rebalancing", None),
    ("4 Stable again", 105, CLASSIC, "nobody subscribes", 105.9),
    ("4r Stable by a restart", 30, CLASSIC, "nobody subscribes", 60.4),
    ("5 ta:1", 31, {"committed_at": 20}, "simple group", 80.97),
    ("5 ta:0", 31, {"committed_at": 30}, "simple group", 90.98),
    ("6 tb:0", 30, KIP848, "nobody subscribes", 60.83),
    ("6 tb:1", 30, {**KIP848, "committed_at": 25}, "nobody subscribes", 85.98),
    ("6 ta", 179, {**KIP848, **READS}, "subscribed", None),
    ("6b no more", 90, KIP848, "nobody subscribes", 90.85),
    ("6c pattern", 100, {**KIP848, **READS}, "subscribed", None),
    ("6c foreign", 30, KIP848, "nobody subscribes", 60.97),
    ("7 live", 79, {**KIP848, **READS}, "subscribed", None),
    ("7 left", 79.8, {**LEFT_848, "empty_since": 79.8}, "nobody subscribes", 80.81),
    ("7b left early", 31, {**LEFT_848, "empty_since": 30}, "nobody subscribes", 60.80),
    ("7c fenced", 84.1, {**LEFT_848, "empty_since": 84.1}, "nobody subscribes", 84.82),
    ("8 live", 119, CONNECT, "live, not of consumers", None),
    ("8 left", 121, {**CONNECT, **EMPTY, "empty_since": 120}, "empty since", 180.1),
    ("9 v2", 10, {"expire_at": 20}, "time chosen with the commit", 20.73),
    ("9 v4", 10, {"expire_at": 90}, "time chosen with the commit", 90.79),
    ("9c foreign", 10, {**CLASSIC, "expire_at": 15}, "time chosen with the commit", 15.71),
    ("9c subscribed", 39, {**CLASSIC, **READS, "expire_at": 15}, "subscribed", None),
    (
        "9c left",
        39.8,
        {**LEFT, "expire_at": 15, "empty_since": 39.8},
        "time chosen with the commit",
        40.75,
    ),
    (
        "9d Empty",
        11,
        {**LEFT, "expire_at": 90, "empty_since": 10},
        "time chosen with the commit",
        90.77,
    ),
    ("9 plain again", 10, {"committed_at": 5}, "simple group", 65.9),
    ("10b pending", 100, {"pending": True}, "open transaction", None),
    ("10b aborted", 100.6, {}, "simple group", 101.5),
    ("10b beside it", 30, {}, "simple group", 60.4),
    ("13 altered", 51, {**LEFT, "empty_since": 10, "committed_at": 50}, "empty since", 70.7),
    ("13 new", 61, {**LEFT, "empty_since": 10, "committed_at": 60}, "empty since", 70.7),
    (
        "13b altered",
        51,
        {**LEFT_848, "empty_since": 10, "committed_at": 50},
        "nobody subscribes",
        110.97,
    ),
    ("13b the other", 51, {**LEFT_848, "empty_since": 10}, "nobody subscribes", 60.72),
    ("13c simple by now", 81, {"committed_at": 80}, "simple group", 140.0),
    ("16 live", 30, STREAMS, "nobody subscribes", 60.33),
    ("16 source", 77, {**STREAMS, **READS}, "subscribed", None),
    ("16 closed", 78.6, {**STREAMS, **EMPTY, "empty_since": 78.6}, "nobody subscribes", 78.8),
    ("18 848 after classic", 36, {**LEFT_848, "empty_since": 35}, "nobody subscribes", 60.70),
    ("19 classic after 848", 41, {**LEFT, "empty_since": 40}, "empty since", 100.72),
    ("20 joined again", 56, {**LEFT, "empty_since": 55}, "empty since", 115.7),
    ("22 tb", 30, CLASSIC, "nobody subscribes", 60.67),
    ("22 ta", 101, {**LEFT, "empty_since": 100}, "empty since", 160.72),
    ("28 mixed, tb", 30, KIP848, "nobody subscribes", 60.93),
    ("28 mixed, ta", 74.8, {**LEFT_848, "empty_since": 74.8}, "nobody subscribes", 74.94),
]


@pytest.mark.parametrize(
    ("now_s", "row", "rule", "gone_s"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_measured_cases(now_s: float, row: dict[str, Any], rule: str, gone_s: float | None) -> None:
    """What was measured is between the forecast's two times, and what was kept has none."""
    found = look(row, now_s=now_s)

    assert rule == found["expiry_rule"]
    assert (gone_s is None) == pd.isna(found["expires_at"])
    if gone_s is not None:
        assert seconds(found["expires_at"]) <= gone_s + GRAIN_S
        assert gone_s <= seconds(found["expires_by"]) + GRAIN_S
    assert Confidence.HIGH == found["expiry_confidence"]


@pytest.mark.parametrize(
    ("row", "now_s", "stopped_s", "at_once"),
    [
        pytest.param({**KIP848, **READS}, 79.8, 79.8, True, id="848 with an old commit"),
        pytest.param({**KIP848, **READS}, 30, 60, False, id="848 with a new commit"),
        pytest.param({**STREAMS, **READS}, 78.6, 78.6, True, id="streams with an old commit"),
        pytest.param({**CLASSIC, **READS}, 170, 230, False, id="classic"),
        pytest.param(CLASSIC, 59, 119, False, id="classic: stopping gives more time"),
        pytest.param(CONNECT, 120, 180, False, id="connect"),
        pytest.param(
            {**CLASSIC, "state": "PreparingRebalance"}, 30, 90, False, id="classic, rebalancing"
        ),
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
    told = found["expires_immediately_if_stopped"]
    assert at_once == (None if pd.isna(told) else told)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"type": "unknown"}, "group type unknown"),
        ({**CLASSIC, "state": "Unknown"}, "group state unknown, or the group no longer exists"),
        ({**CLASSIC, "state": "Dead"}, "group state unknown, or the group no longer exists"),
        ({**CLASSIC, "subscribed": None}, "subscription unknown"),
        (
            {**KIP848, "subscribed": None, "unreadable": "no pattern"},
            "subscription unknown: no pattern",
        ),
        (
            {**CLASSIC, "subscribed": None, "unreadable": "the group could not be described"},
            "subscription unknown: the group could not be described",
        ),
        ({"committed_at": None}, "group has no members; commit time unknown"),
        ({**CLASSIC, "committed_at": None}, "no member subscribes; commit time unknown"),
        (
            {**LEFT, "committed_at": None},
            "group has no members; unknown when the group became Empty",
        ),
        ({"retention_s": None}, "group has no members; offsets.retention.minutes unknown"),
        ({"retention_s": 2**40}, "group has no members; the date is out of range"),
    ],
)
def test_what_is_not_known_has_no_time(row: dict[str, Any], why: str) -> None:
    """Where a fact is missing there is no number, no confidence, and the reason."""
    found = look(row)

    assert (None, None) == tuple(seconds(found[name]) for name in ("expires_at", "expires_by"))
    assert ("none", why) == (found["expiry_confidence"], found["expiry_why"])


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({}, "group has no members; 1 min after the commit at 2026-03-01 00:00 UTC"),
        (
            {**KIP848, "retention_s": 604_800},
            "no member subscribes; 7 d after the commit at 2026-03-01 00:00 UTC",
        ),
        (
            {**LEFT, "empty_since": 600, "retention_s": 129_600},
            "group has no members; 1 d 12 h after the group became Empty at 2026-03-01 00:10 UTC",
        ),
        (
            LEFT,
            (
                "group has no members; at the earliest 1 min after the commit at 2026-03-01 "
                "00:00 UTC: unknown when the group became Empty"
            ),
        ),
        (
            {"expire_at": 20},
            "group has no members; at the expiry time that the client set in the commit",
        ),
        ({**CLASSIC, **READS}, "a member subscribes to the topic"),
        (
            {"committed_at": None, "seen_since": 120},
            (
                "group has no members; at most 1 min after 2026-03-01 00:02 UTC, when it was "
                "first observed; a new commit delays it"
            ),
        ),
    ],
)
def test_reasons(row: dict[str, Any], why: str) -> None:
    """A reason names the clock, how long it runs, and since when."""
    assert why == look(row)["expiry_why"]


@pytest.mark.parametrize(
    ("row", "expires_s", "confidence"),
    [
        pytest.param({}, 120, "medium", id="simple"),
        pytest.param(LEFT, 120, "medium", id="classic, Empty"),
        pytest.param(LEFT_848, 120, "medium", id="848, Empty"),
        pytest.param(KIP848, 120, "low", id="848, not subscribed"),
        pytest.param({**KIP848, **READS}, None, "high", id="848, subscribed"),
        pytest.param(CONNECT, None, "high", id="connect"),
    ],
)
def test_admin_alone(row: dict[str, Any], expires_s: float | None, confidence: str) -> None:
    """Without times from the log, the first sight of a commit is a bound, and called one."""
    admin = {"source": "admin", "committed_at": None, "seen_since": 60}
    found = look({**row, **admin}, now_s=90)

    assert (expires_s, confidence) == (seconds(found["expires_at"]), found["expiry_confidence"])


def test_a_clock_that_was_read_is_better_than_what_was_seen() -> None:
    """The log's own time wins over the first sight of a commit."""
    assert 60 == seconds(look({"seen_since": 40})["expires_at"])


@pytest.mark.parametrize(
    ("row", "confidence"),
    [({"pending": None}, "medium"), (LEFT, "low"), (GONE, "low")],
    ids=["transaction unknown", "old record", "deleted topic"],
)
def test_less_than_certain(row: dict[str, Any], confidence: str) -> None:
    """A forecast that something unseen can move says so."""
    assert confidence == look(row)["expiry_confidence"]


def test_what_is_due_goes_at_the_next_look() -> None:
    """An offset that is overdue is gone a check interval from now, not in the past."""
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
    given_ = frame({}, CLASSIC, KIP848).set_axis([7, 3, 5]).drop(columns="seen_since")
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
        "source": st.sampled_from(["offsets topic", "admin"]),
        **dict.fromkeys(("committed_at", "expire_at", "empty_since", "seen_since"), some_time),
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
    commit = row["committed_at"] if row["committed_at"] is not None else row["seen_since"]
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
    commit = row["committed_at"] if row["committed_at"] is not None else row["seen_since"]
    goes = plus(commit if kind == "modern" else now_s, row["retention_s"])
    goes = row["expire_at"] if row["expire_at"] is not None else goes
    return None if goes is None else max(goes, now_s)


@given(st.lists(facts, max_size=20), st.integers(0, 400))
def test_all_rows_at_once_equal_each_row_by_the_table(
    rows: list[dict[str, Any]], now_s: int
) -> None:
    """The rule for whole frames says of each row what the table says, row by row."""
    found = with_expiry(frame(*rows), now=T0 + timedelta(seconds=now_s))
    times = ("expires_at", "expires_by", "expires_if_stopped_at")
    told = [
        (rule, *map(seconds, moments))
        for rule, *moments in found[["expiry_rule", *times]].itertuples(index=False, name=None)
    ]

    assert [plain(row, now_s) for row in rows] == told


@given(facts, st.integers(0, 400))
def test_what_always_holds(row: dict[str, Any], now_s: int) -> None:
    """No time without facts, none for what is kept, and none before the clock began."""
    found = look(row, now_s=now_s)
    rule, expires = found["expiry_rule"], seconds(found["expires_at"])
    stopped = seconds(found["expires_if_stopped_at"])
    at_once = found["expires_immediately_if_stopped"]

    if row["subscribed"] and row["state"] == "Stable" and rule != ExpiryRule.TOPIC_DELETED:
        assert expires is None or row["type"] == "simple"
    if rule in {ExpiryRule.SIMPLE_GROUP, ExpiryRule.NOT_SUBSCRIBED} and expires is not None:
        known = row["committed_at"] is not None
        assert expires > (row["committed_at"] if known else row["seen_since"])
    if rule == ExpiryRule.UNKNOWN or found["expiry_confidence"] == Confidence.NONE:
        assert expires is None
    assert (found["expires_by"] is pd.NaT) or seconds(found["expires_by"]) > max(now_s, expires)
    assert pd.isna(at_once) or at_once is False or at_once is np.False_ or stopped == now_s
    assert found["expiry_why"]
    assert not (found["expiry_confidence"] == "high" and row["pending"] is None and expires)


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
