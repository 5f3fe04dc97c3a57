"""One word for a group, and which evidence allows it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from facts import NOON, idle, live, member, snapshot
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import (
    HELD_PARTITIONS,
    HIDDEN_COMMITS,
    HOLDER_CLIENT_ID,
    Commit,
    Group,
    GroupType,
    HoldNote,
    LogOffsets,
    Member,
    Problem,
    Snapshot,
    Subscription,
    TimedOffset,
    TopicPartition,
)
from toolkit.planning.diagnosis.group_health import (
    HEALTH,
    Health,
    group_health,
    unread_partitions,
    worst_first,
)
from toolkit.planning.diagnosis.progress_rules import Verdict

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
READER = live("payments", member("orders", owns=(P0,)))
STUCK_AFTER_S = 60.0
OLD, RECENT = 90, 40  # where the log stood a minute ago, for a commit of 50
Offsets = dict[TopicPartition, int]


def look(
    committed: Offsets,
    *,
    after_s: float = 0,
    group: Group | None = READER,
    ends: int | dict[TopicPartition, tuple[int | None, int | None]] = 100,
    stood: int | dict[TopicPartition, Any] | None = OLD,
) -> Snapshot:
    """Return a sample; logs go from 0 to `ends`, and to `stood` a minute before it."""
    commits = tuple(Commit("payments", *place, offset) for place, offset in committed.items())
    logs = ends if isinstance(ends, dict) else dict.fromkeys([*committed, P0], (0, ends))
    at = NOON + timedelta(seconds=after_s)
    if not isinstance(stood, dict):
        stood = dict.fromkeys(committed, timed(stood, at))
    found = snapshot(*([group] if group else []), commits=commits, logs=logs)
    return replace(found, taken_at=at, at=at - timedelta(seconds=60), at_time=stood)


def timed(offset: int | None, at: datetime) -> TimedOffset | None:
    """Return the first record of the last minute."""
    return None if offset is None else TimedOffset(offset, at - timedelta(seconds=59))


def rows(first: Snapshot, second: Snapshot) -> list[dict[str, Any]]:
    """Return the rows of all groups."""
    table = group_health(first, second, stuck_after_s=STUCK_AFTER_S)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def word(first: Snapshot, second: Snapshot) -> tuple[str, str]:
    """Return the word for the only group, and why."""
    (row,) = rows(first, second)
    return row["health"], row["why"]


def two(committed: Offsets, later: Offsets | None = None, **second: Any) -> tuple[str, str]:
    """Return the word and the reason of two samples 2 s apart."""
    group = second.get("group", READER)
    after = {"after_s": 2, **second}
    return word(look(committed, group=group), look(later or committed, **after))


@pytest.mark.parametrize(
    ("after_s", "apart_s", "expected", "said"),
    [(2, None, "behind", "2 s"), (61, None, "stuck", "1 min 1 s"), (61, 59, "behind", "59 s")],
)
def test_stuck_takes_longer_than_the_limit_between_the_samples(
    after_s: float, apart_s: float | None, expected: str, said: str
) -> None:
    """A group that commits every 5 s may be about to; the time that a sample takes is no proof."""
    looks = look({P0: 50}), look({P0: 50}, after_s=after_s)
    table = group_health(*looks, stuck_after_s=STUCK_AFTER_S, apart_s=apart_s)

    why = f"no new committed offset in {said}; unread for more than 1 min"
    assert [(expected, why)] == [row[2:4] for row in table.rows]


@pytest.mark.parametrize(
    ("committed", "later", "stood", "expected"),
    [
        ({P0: 100}, {P0: 100}, OLD, ("ok", "caught up")),
        ({P0: 40}, {P0: 50}, RECENT, ("ok", "unread for less than 1 min")),
        ({P0: 50}, {P0: 50}, RECENT, ("ok", "unread for less than 1 min")),
        ({P0: 40}, {P0: 50}, OLD, ("behind", "moved on by 10; unread for more")),
        ({P0: 50}, {P0: 50}, None, ("behind", "unread for more than 1 min")),
        ({P0: 50}, {P0: 40}, OLD, ("behind", "moved back by 10; unread")),
    ],
)
def test_what_is_unread_for_less_than_the_limit_is_ok(
    committed: Offsets, later: Offsets, stood: int | None, expected: tuple[str, str]
) -> None:
    """Not the lag decides, but how long records have been unread; None: none in the last minute."""
    health, why = two(committed, later, stood=stood)

    assert expected[0] == health
    assert expected[1] in why


def test_records_of_the_last_two_seconds_are_recent_whatever_their_timestamps() -> None:
    """What was written between the samples is not old, as in a backfill of old records."""
    first, second = look({P0: 50}, ends=50), look({P0: 50}, after_s=2, stood=None)

    assert "ok" == word(first, second)[0]
    assert "behind" == word(first, replace(second, taken_at=NOON + timedelta(seconds=61)))[0]


@pytest.mark.parametrize(
    "stood",
    [{}, {P0: TimedOffset(RECENT, NOON + timedelta(hours=1))}],
    ids=["not read", "a producer's clock is ahead"],
)
def test_an_unknown_age_is_not_ok(stood: Any) -> None:
    """Without the age of unread records, or with one of the future, the group is behind."""
    health, why = two({P0: 50}, stood=stood)

    assert "behind" == health
    assert "unread for an unknown time" in why


def holder() -> Member:
    """Return a member of ours that holds partition 0."""
    note = HoldNote("alice", "laptop", since=NOON)
    subscription = Subscription(frozenset({"orders"}))
    return Member("h", HOLDER_CLIENT_ID, "/10.0.0.9", subscription, holds=(P0,), hold_note=note)


STOPPED = idle("payments")
PENDING = {P0: LogOffsets(0, 100, last_stable=50)}


@pytest.mark.parametrize(
    ("second", "expected", "said"),
    [
        ({"group": STOPPED}, "stopped", "no members"),
        ({"group": STOPPED, "stood": RECENT}, "stopped", "no members"),
        ({"group": STOPPED, "ends": {P0: (60, 100)}}, "stopped", "at most 10 unread records"),
        ({"group": live("payments", holder())}, "held", "paused by alice @ laptop"),
        ({"group": live("payments", member("bills"))}, "unsubscribed", "no member subscribes"),
        ({"ends": {P0: (60, 100)}}, "behind", "at most 10 unread records deleted"),
        ({"ends": {P0: (0, 40)}}, "unknown", "past the log end offset"),
        ({"ends": {P0: (None, None)}}, "unknown", "could not be read"),
        ({"group": live("payments", described=False)}, "unknown", "could not be described"),
    ],
)
def test_each_reason_has_its_word(second: Any, expected: str, said: str) -> None:
    """The word for what the samples show; without a fact it is unknown, with the reason."""
    health, why = two({P0: 50}, **second)

    assert (expected, True) == (health, said in why), why


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (live("payments", holder()), "held"),
        (live("payments", member("bills")), "unsubscribed"),
        (live("payments", described=False), "unknown"),
        (STOPPED, "ok"),
    ],
)
def test_a_word_does_not_wait_for_lag(group: Group, expected: str) -> None:
    """A paused, unsubscribed or undescribed group has its word without unread records, too."""
    assert expected == two({P0: 100}, group=group)[0]


def test_an_open_transaction_is_named() -> None:
    """A group that has read up to an open transaction is behind because of that."""
    first, second = (replace(look({P0: 50}, after_s=s), logs=PENDING) for s in (0, 2))
    health, why = word(first, second)

    assert "behind" == health
    assert "blocked by an open transaction; unread for more than 1 min" == why


@pytest.mark.parametrize(("after_s", "expected"), [(2, "behind"), (61, "stopped")])
def test_a_group_that_commits_without_members_is_not_stopped_at_once(
    after_s: int, expected: str
) -> None:
    """With assign() there are never members, so only a missing commit tells, after the limit."""
    group = idle("payments", GroupType.SIMPLE)
    health, why = two({P0: 50}, group=group, after_s=after_s)

    assert expected == health
    assert "no member is ever listed (assign()); no new committed offset in" in why
    assert "ok" == two({P0: 50}, group=group, stood=RECENT)[0]


def test_a_group_has_the_word_of_its_worst_partition() -> None:
    """The row names the partition, how many are like it, and the lag of all."""
    (row,) = rows(look({P0: 50, P1: 20}), look({P0: 100, P1: 20}, after_s=2))

    named = ("health", "worst_topic", "worst_partition", "verdict")
    assert ["behind", "orders", 1, "possibly stuck"] == [row[name] for name in named]
    assert (80, 2, 1) == (row["lag"], row["partitions"], row["affected_partitions"])
    assert row["why"].startswith("1 of 2 partitions: no new committed offset")


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (Problem("committed offset", "not authorised", "payments", "orders", 1), "not authorised"),
        (Problem("committed offsets", "no coordinator", "payments"), "no coordinator"),
        (Problem(HIDDEN_COMMITS, "no ACL"), "that you may not describe are hidden"),
    ],
)
def test_what_could_not_be_read_is_not_ok(problem: Problem, said: str) -> None:
    """A read error in the second sample makes a caught-up group unknown."""
    second = replace(look({P0: 100}, after_s=2), problems=(problem,))
    health, why = word(look({P0: 100}), second)

    assert ("unknown", True) == (health, said in why), why


def test_what_the_first_sample_lacks_is_not_called_a_commit() -> None:
    """Without the group's offsets in the first sample nothing is known about progress."""
    unread = replace(look({}), problems=(Problem("committed offsets", "timed out", "payments"),))
    missing = replace(look({}), groups=())
    second = look({P0: 50}, after_s=2)

    expected = "unknown in the first sample: committed offsets: timed out"
    assert ("unknown", expected) == word(unread, second)
    assert ("unknown", "unknown in the first sample: the group was not listed") == (
        word(missing, second)
    )
    assert ("behind", True) == (
        word(look({}), second)[0],
        "first committed between the two samples" in word(look({}), second)[1],
    )


def test_a_hidden_hold_is_not_called_behind() -> None:
    """Where what is held cannot be seen, a group without progress may be paused."""
    problem = Problem(HELD_PARTITIONS, "the group is rebalancing", "payments")
    first, second = (replace(look({P0: 50}, after_s=s), problems=(problem,)) for s in (0, 2))

    assert ("unknown", "unknown whether it is paused: the group is rebalancing") == (
        word(first, second)
    )


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (
            live("payments", member("orders"), type=GroupType.SHARE),
            "a share group has no committed",
        ),
        (live("payments", member("orders")), "nothing is committed, and no partition is assigned"),
        (READER, "no committed offset: consumers start according to auto.offset.reset"),
    ],
)
def test_a_group_without_offsets_is_a_row(group: Group, said: str) -> None:
    """Every group has a row; one of which nothing can be said is unknown, with the reason."""
    health, why = two({}, group=group)

    assert ("unknown", True) == (health, said in why), why


def test_a_partition_without_records_needs_no_commit() -> None:
    """Nothing can be unread in an empty log, whatever consumers start with."""
    assert ("ok", "no committed offset, and no record in the log") == two({}, ends={P0: (70, 70)})


def test_every_verdict_has_a_word() -> None:
    """No verdict of notebook 90 is left without a word."""
    assert set(Verdict) == set(HEALTH)
    assert set(Health) == set(HEALTH.values())


def test_the_worst_come_first_over_all_clusters() -> None:
    """Rows are ordered by word and then by lag, whatever cluster they are of."""
    other = replace(READER, group_id="other")
    lagging = look({P0: 50}, after_s=2)
    more = replace(
        lagging,
        cluster="us",
        groups=(other, STOPPED),
        commits=(Commit("other", *P0, 10), Commit("payments", *P0, 99)),
    )
    tables = [group_health(one, one, stuck_after_s=STUCK_AFTER_S).rows for one in (lagging, more)]
    found = [row[:3] for row in worst_first(tables).rows]

    assert [
        ("us", "payments", "stopped"),
        ("us", "other", "behind"),
        ("eu", "payments", "behind"),
    ] == found


def test_only_logs_with_unread_records_are_asked_for_their_times() -> None:
    """A look-up by time is made for partitions with records after a committed offset."""
    assert {P1} == unread_partitions(look({P0: 100, P1: 99}))
    assert set() == unread_partitions(look({P0: 50}, ends={}))


@given(
    before=st.integers(0, 120),
    after=st.integers(0, 120),
    end=st.integers(50, 120),
    stood=st.none() | st.integers(0, 120),
    apart_s=st.floats(0, 120),
)
def test_no_word_without_its_evidence(
    before: int, after: int, end: int, stood: int | None, apart_s: float
) -> None:
    """Stuck needs a minute without progress, ok needs that nothing old is unread."""
    first = look({P0: before}, ends=end)
    second = look({P0: after}, ends=end, after_s=apart_s, stood=stood)
    health, _ = word(first, second)

    if health == "stuck":
        assert before == after < end
        assert apart_s > STUCK_AFTER_S
    if health == "ok":
        was_written_since = after >= end and apart_s <= STUCK_AFTER_S
        assert after == end or was_written_since or (stood is not None and after >= stood)
    if after > end:
        assert "unknown" == health
