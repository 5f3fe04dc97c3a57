"""What a pause is said to cost, before anything happens."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from facts import NOON
from held import classic, facts, group, holder, notes, reader, reason
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


LOSSLESS = HoldTerms()


def pause(
    about: Group,
    terms: HoldTerms = LOSSLESS,
    *,
    end: int = 20,
    age_s: float = 1.0,
    survives_s: float = 45.0,
    **rates: int,
) -> Plan:
    """Plan to pause orders:1 where records were written and read at some rate."""
    now = facts(about, end=end, age_s=age_s)
    settings = HoldSettings(survives_s=survives_s)
    beside = HoldFacts(settings, earlier=earlier(now, **rates) if rates else None)
    return plan_pause(now, group="g", topics=["orders:1"], terms=terms, hold_facts=beside)


@pytest.mark.parametrize("about", [group(), classic(), classic(assignor="cooperative-sticky")])
def test_every_cost_has_a_note(about: Group) -> None:
    """Whatever the recipe; for classic groups, that none can be upgraded during it."""
    costs = [*COSTS, *(["no-upgrade"] if about.type is GroupType.CLASSIC else [])]
    assert costs == notes(pause(about))[-len(costs) :]


MODERN, EAGER, STREAMS = group(), classic(), classic(assignor="stream")
COOPERATIVE = classic(assignor="cooperative-sticky")
HELD = classic(reader("a", 0, 1), reader("b", 2), holder(3))
BUSY, SLOW = {"written": 100}, {"age_s": 60}
QUIET, FAST = ({"terms": HoldTerms(mode)} for mode in (CaptureMode.QUIET, CaptureMode.FAST))
QUIETLY = {**QUIET, **BUSY}
STOP, READ_AGAIN = "3 other partitions stop for up to about 4 s", "no redelivered records"
LAG_OF_SLOW = (
    "poll at least every 15 s; of those that may not, a @ /10.0.0.1, b @ /10.0.0.1, at most "
    "their lag of 40 offsets of orders:0-3$"
)
FOR_HALF_AN_HOUR = {"terms": HoldTerms(pause_for=timedelta(minutes=30))}
EXPECTED = [
    # Lossless: the topic's other partitions are handed over too; whom it evicts is named.
    (MODERN, BUSY, "stops", "within about 11 s; .* 3 other partitions stop for up to about 7 s"),
    (MODERN, BUSY, "stops", "about 7 s; up to 10 s longer where a Java application waits long"),
    (MODERN, BUSY, "repeats", f"^{READ_AGAIN}, provided consumers commit"),
    (MODERN, BUSY, "disturbs", "^no member is evicted; partitions are revoked from a @"),
    (MODERN, SLOW, "disturbs", "evicted if they revoke nothing for 15 s: a @ /10.0.0.1"),
    # Quiet: the owner of orders:1 reads orders:0 too; it is evicted, and what it read comes twice.
    (MODERN, QUIETLY, "stops", "1 other partitions stop"),
    (MODERN, QUIETLY, "disturbs", "^evicted once, and rejoin automatically: a @ /10.0.0.1$"),
    # 10 records a second of two partitions, since a commit at most 5 s old, noticed within 5 s.
    (MODERN, QUIETLY, "repeats", "^up to about 200 records of orders:0-1 are redelivered$"),
    # With one snapshot alone no number is made up.
    (MODERN, QUIET, "repeats", "the number is unknown"),
    # Reading may be faster than writing, and it is what counts then.
    (MODERN, {**FAST, "written": 0, "read": 200}, "repeats", "up to about 400 records"),
    # Everything since the last commit comes twice, however long ago that was.
    (MODERN, {**FAST, **BUSY, **SLOW}, "repeats", "up to about 1,300 records"),
    # Both have not committed for a minute, with ten unread records in each of two partitions.
    (EAGER, SLOW, "stops", "paused within about 17 s"),
    (EAGER, SLOW, "repeats", LAG_OF_SLOW),
    (EAGER, SLOW, "slow-member", "all members stop until it polls"),
    (HELD, SLOW, "slow-member", "until it polls, .* for up to its rebalance timeout"),
    # A rebalance stops all of a group, unless a cooperative one is to be quiet; so of Streams.
    (EAGER, {}, "stops", "3 other partitions stop"),
    (EAGER, {}, "repeats", f"^{READ_AGAIN}"),
    (EAGER, {}, "disturbs", "^all members rebalance twice"),
    (STREAMS, BUSY, "stops", STOP),
    # Every instance is evicted, and commits every 30 s only: four partitions, 10 a second.
    (STREAMS, BUSY, "repeats", "up to about 1,320 records"),
    (COOPERATIVE, BUSY, "stops", STOP),
    (COOPERATIVE, QUIETLY, "stops", "no other partition stops"),
    # Of the leader alone, whoever that is, should it not let go: two partitions, 10 records a
    # second, 5 + 3 seconds. All read 120 in a heartbeat.
    (COOPERATIVE, BUSY, "repeats", "up to about 160 records"),
    (COOPERATIVE, QUIETLY, "repeats", "up to about 160 records"),
    # The partitions are read again by themselves when the holder dies.
    (MODERN, {}, "survives", "after about 45 s"),
    (MODERN, FOR_HALF_AN_HOUR, "survives", "ends after 30 min."),
    (EAGER, {"survives_s": 300}, "survives", "after about 5 min"),
    # A KIP-848 group has two others; every group may be stopped instead.
    (MODERN, {}, "alternatives", "prefer quiet"),
    (MODERN, {}, "alternatives", "prefer fast"),
    (COOPERATIVE, BUSY, "alternatives", "prefer quiet"),
    (EAGER, {}, "alternatives", "^stop the application, reset the group, restart the application$"),
]


@pytest.mark.parametrize(
    ("about", "options", "rule", "says"),
    EXPECTED,
    ids=[f"{rule}: {says}" for *_, rule, says in EXPECTED],
)
def test_the_costs_of_a_pause(about: Group, options: dict[str, Any], rule: str, says: str) -> None:
    """What stops, is redelivered and disturbed, by group type, rates and mode."""
    assert re.search(says, reason(pause(about, **options), rule))


@pytest.mark.parametrize(
    ("readers", "seconds"),
    [(([0, 1], [2, 3]), "6 s"), (([0, 1], [2], [3]), "16 s"), (([0], [3]), "6 s")],
)
def test_a_capture_may_wait_for_the_heartbeats_of_owners(
    readers: Sequence[Sequence[int]], seconds: str
) -> None:
    """Those of all owners of a KIP-848 group are within an interval of the first."""
    now = facts(group(*(reader(name, *has) for name, has in zip("abc", readers, strict=False))))
    plan = plan_pause(now, group="g", topics=["orders:1,2"], terms=LOSSLESS, hold_facts=HoldFacts())

    words = f"paused within about {seconds}; .* 2 other partitions stop for up to about 12 s"
    assert re.search(words, reason(plan, "stops"))


def test_costs_that_a_pause_does_not_have() -> None:
    """A member that may be evicted is not reported as staying."""
    assert "no member is evicted" not in reason(pause(MODERN, **SLOW), "disturbs")
    assert "prefer lossless" not in reason(pause(MODERN), "alternatives")


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


@pytest.mark.parametrize(("committed_ago_s", "is_slow"), [(1, False), (30, True), (None, False)])
def test_a_member_that_commits_another_partition_is_not_slow(
    committed_ago_s: float | None, *, is_slow: bool
) -> None:
    """It is stuck on one partition, and polls: it commits the others, which it reads to the end."""
    now = facts(classic(reader("a", 0, 1, 2, 3)), age_s=600)
    at = None if committed_ago_s is None else NOON - timedelta(seconds=committed_ago_s)
    stuck, *others = now.commits
    read = tuple(replace(commit, offset=20, committed_at=at) for commit in others)
    plan = plan_pause(replace(now, commits=(stuck, *read)), group="g", topics=["orders:0"])

    assert is_slow is ("slow-member" in notes(plan))


@given(st.integers(0, 1000), st.integers(0, 1000), st.sampled_from(CaptureMode))
def test_more_traffic_never_repeats_less(written: int, more: int, prefer: CaptureMode) -> None:
    """What is announced grows with the rate, and is nothing only where nothing is evicted."""

    def announced(count: int) -> int:
        plan = pause(group(), HoldTerms(prefer), end=5000, written=count)
        said = reason(plan, "repeats").split()
        return int(said[3].replace(",", "")) if said[0] == "up" else 0

    assert announced(written) <= announced(written + more)


def test_a_partition_without_facts_has_no_rate() -> None:
    """A log that was not read before leaves the number unknown."""
    now, terms = facts(group(reader("a", 0, 1))), HoldTerms(CaptureMode.FAST)
    beside = HoldFacts(earlier=replace(earlier(now, written=100), logs={}))
    plan = plan_pause(now, group="g", topics=["orders:1"], terms=terms, hold_facts=beside)
    assert "the number is unknown" in reason(plan, "repeats")
