"""One word for a group, and which evidence allows it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from facts import NOON, idle, live, member
from hypothesis import given
from hypothesis import strategies as st
from samples import HELD, P0, P1, READER, UNDESCRIBED, UNSUBSCRIBED, Offsets, sample

from toolkit.model import (
    Commit,
    GroupType,
    LogOffsets,
    Problem,
    Snapshot,
    TimedOffset,
    TopicPartition,
    Unread,
)
from toolkit.planning.diagnosis.group_health import (
    HEALTH,
    Health,
    group_health,
    unread_partitions,
    worst_first,
)
from toolkit.planning.diagnosis.progress_rules import Verdict

STUCK_AFTER_S = 60.0
STOPPED = idle("payments")
OLD, RECENT = 90, 40  # where the log stood a minute ago, for a commit of 50


def look(
    committed: Offsets,
    *,
    ends: int | dict[TopicPartition, tuple[int | None, int | None]] = 100,
    stood: int | dict[TopicPartition, Any] | None = OLD,
    **fields: Any,
) -> Snapshot:
    """Return a sample; logs go from 0 to `ends`, and to `stood` a minute before it."""
    logs = ends if isinstance(ends, dict) else dict.fromkeys([*committed, P0], (0, ends))
    found = sample(committed, logs=logs, **fields)
    at = found.taken_at - timedelta(seconds=60)
    if not isinstance(stood, dict):
        first = None if stood is None else TimedOffset(stood, at + timedelta(seconds=1))
        stood = dict.fromkeys(committed, first)
    return replace(found, at=at, at_time=stood)


def rows(first: Snapshot, second: Snapshot) -> list[dict[str, Any]]:
    return [*group_health(first, second, stuck_after_s=STUCK_AFTER_S).as_dicts()]


def word(first: Snapshot, second: Snapshot) -> tuple[str, str]:
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


def test_records_of_the_last_two_seconds_are_recent_whatever_their_timestamps() -> None:
    """What was written between the samples is not old, as in a backfill of old records."""
    first, second = look({P0: 50}, ends=50), look({P0: 50}, after_s=2, stood=None)

    assert "ok" == word(first, second)[0]
    assert "behind" == word(first, replace(second, taken_at=NOON + timedelta(seconds=61)))[0]


SHARE = live("payments", member("orders"), type=GroupType.SHARE)
UNASSIGNED = live("payments", member("orders"))
NO_COMMIT = "no committed offset"
UNKNOWN_AGE = "unread for an unknown time"
FUTURE = {P0: TimedOffset(RECENT, NOON + timedelta(hours=1))}  # a producer's clock is ahead


CUT = {P0: (60, 100)}


@pytest.mark.parametrize(
    ("before", "after", "second", "expected", "says"),
    [
        # Not the lag decides, but how long records have been unread; None: none in the last minute.
        (100, 100, {}, "ok", "caught up"),
        (40, 50, {"stood": RECENT}, "ok", "unread for less than 1 min"),
        (50, 50, {"stood": RECENT}, "ok", "unread for less than 1 min"),
        (40, 50, {}, "behind", "moved on by 10; unread for more"),
        (50, 50, {"stood": None}, "behind", "unread for more than 1 min"),
        (50, 40, {}, "behind", "moved back by 10; unread"),
        # Without the age of unread records, or with one of the future, it is not ok.
        (50, 50, {"stood": {}}, "behind", UNKNOWN_AGE),
        (50, 50, {"stood": FUTURE}, "behind", UNKNOWN_AGE),
        # What the samples show has its word; without a fact it is unknown.
        (50, 50, {"group": STOPPED}, "stopped", "no members"),
        (50, 50, {"group": STOPPED, "stood": RECENT}, "stopped", "no members"),
        (50, 50, {"group": STOPPED, "ends": CUT}, "stopped", "at most 10 unread records"),
        (50, 50, {"group": HELD}, "held", "paused by alice @ laptop"),
        (50, 50, {"group": UNSUBSCRIBED}, "unsubscribed", "no member subscribes"),
        (50, 50, {"ends": CUT}, "behind", "at most 10 unread records deleted"),
        (50, 50, {"ends": {P0: (0, 40)}}, "unknown", "past the log end offset"),
        (50, 50, {"ends": {P0: (None, None)}}, "unknown", "could not be read"),
        (50, 50, {"group": UNDESCRIBED}, "unknown", "could not be described"),
        # A word does not wait for lag.
        (100, 100, {"group": HELD}, "held", ""),
        (100, 100, {"group": UNSUBSCRIBED}, "unsubscribed", ""),
        (100, 100, {"group": UNDESCRIBED}, "unknown", ""),
        (100, 100, {"group": STOPPED}, "ok", ""),
        # Every group has a row, also without offsets.
        (None, None, {"group": SHARE}, "unknown", "a share group has no committed"),
        (None, None, {"group": UNASSIGNED}, "unknown", "committed, and no partition is assigned"),
        (None, None, {}, "unknown", f"{NO_COMMIT}: consumers start according to auto.offset.reset"),
        # Nothing can be unread in an empty log, whatever consumers start with.
        (None, None, {"ends": {P0: (70, 70)}}, "ok", f"{NO_COMMIT}, and no record in the log"),
    ],
)
def test_each_reason_has_its_word(
    before: int | None, after: int | None, second: Any, expected: str, says: str
) -> None:
    """A group has a word for what two samples show, and the reason."""
    first, later = ({} if offset is None else {P0: offset} for offset in (before, after))
    health, why = two(first, later, **second)

    assert (expected, True) == (health, says in why), why


REBALANCING = Problem(Unread.HELD_PARTITIONS, "the group is rebalancing", "payments")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            {"logs": {P0: LogOffsets(0, 100, last_stable=50)}},
            ("behind", "blocked by an open transaction; unread for more than 1 min"),
        ),
        # Where what is held cannot be seen, a group without progress may be paused.
        (
            {"problems": (REBALANCING,)},
            ("unknown", "unknown whether it is paused: the group is rebalancing"),
        ),
    ],
    ids=["open transaction", "hidden hold"],
)
def test_the_reason_for_no_progress_is_named(
    facts: dict[str, Any], expected: tuple[str, str]
) -> None:
    """A group at an open transaction is behind because of it; a hidden hold is not."""
    assert expected == word(*(replace(look({P0: 50}, after_s=s), **facts) for s in (0, 2)))


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
        (Problem(Unread.COMMIT, "not authorised", "payments", "orders", 1), "not authorised"),
        (Problem(Unread.COMMITS, "no coordinator", "payments"), "no coordinator"),
        (Problem(Unread.HIDDEN_COMMITS, "no ACL"), "that you may not describe are hidden"),
    ],
)
def test_an_unread_group_is_not_ok(problem: Problem, said: str) -> None:
    """A read error in the second sample makes a caught-up group unknown."""
    second = replace(look({P0: 100}, after_s=2), problems=(problem,))
    health, why = word(look({P0: 100}), second)

    assert ("unknown", True) == (health, said in why), why


def test_offsets_missing_in_the_first_sample_are_no_commits() -> None:
    """Without them nothing is known about progress."""
    problem = Problem(Unread.COMMITS, "timed out", "payments")
    second = look({P0: 50}, after_s=2)
    for lacking, why in (
        ({"problems": (problem,)}, "committed offsets: timed out"),
        ({"groups": ()}, "the group was not listed"),
    ):
        expected = ("unknown", f"unknown in the first sample: {why}")
        assert expected == word(replace(look({}), **lacking), second)
    health, why = word(look({}), second)
    assert ("behind", True) == (health, "first committed between the two samples" in why)


def test_every_verdict_has_a_word() -> None:
    """No verdict of notebook 90 is left without a word."""
    assert set(Verdict) == set(HEALTH)
    assert set(Health) == set(HEALTH.values())


def test_the_worst_come_first_over_all_clusters() -> None:
    """Rows are ordered by word and then by lag, whatever cluster they are of."""
    lagging = look({P0: 50}, after_s=2)
    groups = replace(READER, group_id="other"), STOPPED
    commits = Commit("other", *P0, 10), Commit("payments", *P0, 99)
    more = replace(lagging, cluster="us", groups=groups, commits=commits)
    tables = [group_health(one, one, stuck_after_s=STUCK_AFTER_S).rows for one in (lagging, more)]

    assert [
        ("us", "payments", "stopped"),
        ("us", "other", "behind"),
        ("eu", "payments", "behind"),
    ] == [row[:3] for row in worst_first(tables).rows]


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
