"""What a pause is said to cost, before anything happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from facts import NOON
from held import classic, facts, group, notes, reader, told
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import CaptureMode, Group, GroupType, Snapshot, TopicPartition
from toolkit.model.records import FirstRecord
from toolkit.plan import Plan
from toolkit.planning.changes.pause import plan_pause
from toolkit.planning.holds.hold_context import HoldFacts, HoldSettings, HoldTerms

COSTS = ["stops", "repeats", "disturbs", "survives", "alternatives"]
ORDERS = TopicPartition("orders", 0)
TEN_SECONDS = timedelta(seconds=10)


def earlier(now: Snapshot, *, written: int = 0, read: int = 0) -> Snapshot:
    """Return the facts of ten seconds ago, since when so much was written and read everywhere."""
    logs = {p: replace(log, log_end=(log.log_end or 0) - written) for p, log in now.logs.items()}
    commits = tuple(replace(c, offset=c.offset - read) for c in now.commits)
    return replace(now, taken_at=NOON - TEN_SECONDS, logs=logs, commits=commits)


def pause(
    about: Group,
    prefer: CaptureMode = CaptureMode.LOSSLESS,
    *,
    pause_for: timedelta | None = None,
    end: int = 20,
    age_s: float = 1.0,
    **rates: int,
) -> Plan:
    """Plan to pause orders:1 where records were written and read at some rate."""
    now = facts(about, end=end, age_s=age_s)
    beside = HoldFacts(earlier=earlier(now, **rates) if rates else None)
    terms = HoldTerms(prefer, pause_for)
    return plan_pause(now, group="g", topics=["orders:1"], terms=terms, hold_facts=beside)


@pytest.mark.parametrize("about", [group(), classic(), classic(assignor="cooperative-sticky")])
def test_every_cost_is_told(about: Group) -> None:
    """A note for each cost, whatever the recipe; of classic groups, that none can be upgraded."""
    more = ["no-upgrade"] if about.type is GroupType.CLASSIC else []
    told = [*COSTS, *more]
    assert told == notes(pause(about))[-len(told) :]


def test_a_lossless_capture_stops_the_topic_and_repeats_nothing() -> None:
    """The topic's other partitions are handed over too; whom it evicts, if anybody, is named."""
    plan = pause(group(), written=100)
    assert "3 other partitions stop for up to about 6 s" in told(plan, "stops")
    assert told(plan, "repeats").startswith("no redelivered records, provided consumers commit")
    said = told(plan, "disturbs")
    assert said.startswith("no member is evicted; partitions are revoked from a @")

    said = told(pause(group(), age_s=60), "disturbs")
    assert "evicted if they revoke nothing for 15 s: a @ /10.0.0.1" in said
    assert "no member is evicted" not in said


def test_a_quiet_capture_stops_the_owner_alone() -> None:
    """The owner of orders:1 reads orders:0 too; it is evicted, and what it read comes twice."""
    plan = pause(group(), CaptureMode.QUIET, written=100)
    assert "1 other partitions stop" in told(plan, "stops")
    assert "evicted once, and rejoin automatically: a @ /10.0.0.1" == told(plan, "disturbs")
    # 10 records a second of two partitions, since a commit at most 5 s old, noticed within 5 s.
    assert "up to about 200 records of orders:0-1 are redelivered" == told(plan, "repeats")


def test_an_eager_group_waits_for_slow_members_and_says_what_they_may_repeat() -> None:
    """Both have not committed for a minute, with ten unread records in each of two partitions."""
    plan = pause(classic(), age_s=60)
    assert "paused within about 17 s" in told(plan, "stops")
    assert told(plan, "repeats").endswith(
        "poll at least every 15 s; of those that may not, a @ /10.0.0.1, b @ /10.0.0.1, at most "
        "their lag of 40 offsets of orders:0-3"
    )
    assert "all members stop until it polls" in told(plan, "slow-member")


@pytest.mark.parametrize(
    ("unread", "is_slow"),
    [
        (None, True),
        ({ORDERS: FirstRecord(found=True, at=NOON - timedelta(seconds=59))}, True),
        ({ORDERS: FirstRecord(found=True)}, True),
        ({ORDERS: FirstRecord(found=True, at=NOON - timedelta(seconds=2))}, False),
        ({ORDERS: FirstRecord(found=False)}, False),
        ({}, False),
    ],
    ids=["not looked at", "old", "without a time", "has just come", "only markers", "none before"],
)
def test_a_member_whose_topic_rests_is_not_slow(
    unread: Mapping[TopicPartition, FirstRecord] | None, *, is_slow: bool
) -> None:
    """It has nothing to commit; what counts is since when a record has waited for it."""
    now, beside = facts(classic(), age_s=60), HoldFacts(unread=unread)
    plan = plan_pause(now, group="g", topics=["orders:1"], hold_facts=beside)

    assert is_slow is ("slow-member" in {finding.rule for finding in plan.findings})


STREAMS = classic(assignor="stream")


@pytest.mark.parametrize(
    ("about", "prefer", "rates", "said"),
    [
        # Reading may be faster than writing, and it is what counts then.
        (group(), CaptureMode.FAST, {"written": 0, "read": 200}, "up to about 400 records"),
        # Everything since the last commit comes twice, however long ago that was.
        (group(), CaptureMode.FAST, {"written": 100, "age_s": 60}, "up to about 1,300 records"),
        # With one snapshot alone no number is made up.
        (group(), CaptureMode.QUIET, {}, "the number is unknown"),
        # Every instance is evicted, and commits every 30 s only: four partitions, 10 a second.
        (STREAMS, CaptureMode.LOSSLESS, {"written": 100}, "up to about 1,320 records"),
    ],
    ids=["catches up", "old commit", "rate unknown", "streams"],
)
def test_how_many_records_are_redelivered(
    about: Group, prefer: CaptureMode, rates: dict[str, int], said: str
) -> None:
    """The number follows from the rate and from when members commit."""
    assert said in told(pause(about, prefer, **rates), "repeats")


def test_classic_groups_wait_as_a_whole() -> None:
    """A rebalance stops all of a group, unless a cooperative one is to be quiet; so of Streams."""
    streams = told(pause(STREAMS, written=100), "stops")
    assert "3 other partitions stop for up to about 4 s" in streams
    assert "3 other partitions stop" in told(pause(classic()), "stops")
    assert told(pause(classic()), "repeats").startswith("no redelivered records")
    assert told(pause(classic()), "disturbs").startswith("all members rebalance twice")
    cooperative = classic(assignor="cooperative-sticky")
    lossless = pause(cooperative, written=100)
    assert "3 other partitions stop for up to about 4 s" in told(lossless, "stops")
    # Of the leader, should it not let go: as below. All read 120 in a heartbeat.
    assert "up to about 160 records" in told(lossless, "repeats")
    assert "prefer quiet" in told(lossless, "alternatives")
    quiet = pause(cooperative, CaptureMode.QUIET, written=100)
    assert "no other partition stops" in told(quiet, "stops")
    # Of the leader alone, whoever that is: two partitions, 10 records a second, 5 + 3 seconds.
    assert "up to about 160 records" in told(quiet, "repeats")
    assert "no-choice" not in notes(quiet)


def test_what_happens_when_the_holder_dies() -> None:
    """The partitions are read again by themselves, and it is said after how long."""
    assert "after about 45 s" in told(pause(group()), "survives")
    assert "ends after 30 min." in told(pause(group(), pause_for=timedelta(minutes=30)), "survives")
    longer = plan_pause(
        facts(classic()),
        group="g",
        topics=["orders:1"],
        hold_facts=HoldFacts(HoldSettings(survives_s=300)),
    )
    assert "after about 5 min" in told(longer, "survives")


def test_alternatives_have_their_costs() -> None:
    """A KIP-848 group has two others; every group may be stopped instead."""
    said = told(pause(group()), "alternatives")
    assert ("prefer quiet" in said, "prefer fast" in said) == (True, True)
    assert "prefer lossless" not in said
    assert "stop the application, reset the group, restart the application" == told(
        pause(classic()), "alternatives"
    )


@given(st.integers(0, 1000), st.integers(0, 1000), st.sampled_from(CaptureMode))
def test_more_traffic_never_repeats_less(written: int, more: int, prefer: CaptureMode) -> None:
    """What is announced grows with the rate, and is nothing only where nothing is evicted."""

    def announced(count: int) -> int:
        plan = pause(group(), prefer, end=5000, written=count)
        said = told(plan, "repeats").split()
        return int(said[3].replace(",", "")) if said[0] == "up" else 0

    assert announced(written) <= announced(written + more)


def test_a_partition_without_facts_has_no_rate() -> None:
    """A log that was not read before leaves the number unknown."""
    now = facts(group(reader("a", 0, 1)))
    before = replace(earlier(now, written=100), logs={})
    plan = plan_pause(
        now,
        group="g",
        topics=["orders:1"],
        terms=HoldTerms(CaptureMode.FAST),
        hold_facts=HoldFacts(earlier=before),
    )
    assert "the number is unknown" in told(plan, "repeats")
