"""A copy to a mirror never skips a record that the group has not read."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from facts import NOON, changes, idle, live, member, rules, snapshot
from hypothesis import example, given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model import (
    Commit,
    EpochEnd,
    Group,
    GroupType,
    LogOffsets,
    Snapshot,
    TimedOffset,
    TopicPartition,
)
from toolkit.plan import Plan, Position
from toolkit.planning.changes.copy import (
    ByOffset,
    ByTime,
    MirrorPair,
    instants,
    plan_copy_between,
    records_to_date,
)

ORDERS, MIRRORED = TopicPartition("orders", 0), TopicPartition("eu.orders", 0)
PAIR = MirrorPair("g", "g", prefix="eu.")
IDLE = idle(kind=GroupType.CONSUMER)


def source(offset: int, *, start: int = 0, end: int = 100) -> Snapshot:
    """Return a cluster in which a group has committed one offset, with leader epoch 7."""
    commit = Commit("g", *ORDERS, offset, 7, "m")
    return snapshot(IDLE, commits=(commit,), logs={tuple(ORDERS): (start, end)})


def mirror(start: int = 0, end: int = 100, *groups: Group) -> Snapshot:
    """Return another cluster, with the mirrored topic and nothing committed."""
    facts = snapshot(*groups, logs={tuple(MIRRORED): (start, end)})
    return replace(facts, cluster="us", cluster_id="other")


def after(plan: Plan) -> list[tuple[TopicPartition, Position | None]]:
    return [(change.partition, change.after) for change in changes(plan)]


EPOCHS = LogOffsets(0, 100, 100, (EpochEnd(0, 30), EpochEnd(2, 100)))
NEW = ("new-group", "note")


@pytest.mark.parametrize(
    ("there", "epoch"),
    [(mirror(), None), (replace(mirror(), logs={MIRRORED: EPOCHS}), 2)],
    ids=["of another cluster it means nothing", "the mirror's own"],
)
def test_equal_offsets_go_to_the_mirrored_topic(there: Snapshot, epoch: int | None) -> None:
    """Metadata goes along; the leader epoch is that of the mirror, where it is known."""
    plan = plan_copy_between(source(40), there, pair=PAIR, by=ByOffset())

    assert [(MIRRORED, Position(40, epoch, "m"))] == after(plan)
    assert ("us", "other") == (plan.cluster, plan.cluster_id)
    assert "copy g of eu to g of us, by offset" == plan.request
    assert ([NEW], {"new-group"}) == (rules(plan), plan.allows)


def at(minute: int) -> datetime:
    return NOON - timedelta(hours=1) + timedelta(minutes=minute)


def by_time(times: dict[int, int], found: tuple[int, int] | None) -> ByTime:
    """Return a rule from the minutes of the source's records and where the mirror has one."""
    spot = TimedOffset(found[0], at(found[1])) if found else None
    known = {(ORDERS, offset): at(minute) for offset, minute in times.items()}
    return ByTime(known, {MIRRORED: spot})


AT_4, AT_5 = "2026-03-01 11:04:00 UTC", "2026-03-01 11:05:00 UTC"
LAST_READ = "the last record read has timestamp"
CLAMPED = "the same offset; clamped to the log"


@pytest.mark.parametrize(
    ("there", "rule", "offset", "why"),
    [
        # An offset that the mirror lacks is moved to the nearest that exists.
        (mirror(0, 30), ByOffset(), 30, f"{CLAMPED} end offset 30: 40 is past it"),
        (mirror(50, 90), ByOffset(), 50, f"{CLAMPED} start offset 50: 40 is before it"),
        (mirror(), by_time({40: 5}, (33, 5)), 33, f"the next record has timestamp {AT_5}"),
        # Nothing is known of a next record: 40 is a transaction's marker, or the end of the log.
        (mirror(), by_time({39: 4}, (32, 4)), 32, f"{LAST_READ} {AT_4}; it is redelivered"),
        (mirror(), by_time({38: 4}, (32, 4)), 32, LAST_READ),
        (mirror(), by_time({40: 5}, None), 100, f"mirror has no record at or after {AT_5} yet"),
    ],
)
def test_where_a_group_goes_on(
    there: Snapshot, rule: ByOffset | ByTime, offset: int, why: str
) -> None:
    """The group goes to its offset, its next record, its last, or the end; without metadata."""
    plan = plan_copy_between(source(40), there, pair=PAIR, by=rule)

    (change,) = changes(plan)
    assert (Position(offset), why) == (change.after, change.why[: len(why)])
    assert change.why.endswith("; commit metadata cleared")
    assert plan.request.endswith(f", by {'time' if isinstance(rule, ByTime) else 'offset'}")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (by_time({}, (33, 5)), "no source record at or before 40 has a known timestamp"),
        (ByTime({(ORDERS, 40): at(5)}, {}), f"the mirror's offset at {AT_5} is unknown"),
    ],
)
def test_an_unknown_time_blocks(rule: ByTime, why: str) -> None:
    """A place is not guessed."""
    plan = plan_copy_between(source(40), mirror(0, 100, IDLE), pair=PAIR, by=rule)

    assert ([("unreadable", why)], ()) == ([(f.rule, f.why) for f in plan.findings], plan.steps)


def test_an_empty_mirror_has_nothing_to_skip() -> None:
    """Where the source has no records either, the group starts at the mirror's only place."""
    plan = plan_copy_between(
        source(40, start=40, end=40), mirror(7, 7), pair=PAIR, by=by_time({}, None)
    )

    assert [(MIRRORED, Position(7))] == after(plan)


@pytest.mark.parametrize(
    ("offset", "start", "end", "asked"),
    [
        (40, 0, 100, {40, 39, 38}),
        (100, 0, 100, {99, 98}),
        (130, 0, 100, {99, 98}),
        (20, 30, 100, {30}),
        (31, 30, 100, {31, 30}),
        (40, 40, 40, set()),
    ],
)
def test_which_records_times_are_needed(offset: int, start: int, end: int, asked: set[int]) -> None:
    """The next record's, and those where the last one before it is, around markers."""
    facts = source(offset, start=start, end=end)

    assert {(ORDERS, one) for one in asked} == records_to_date(facts, "g")


def test_instants_are_of_the_mirrors_partitions() -> None:
    """One instant for each partition, that of the next record where there is one."""
    times = {(ORDERS, 40): at(5), (ORDERS, 39): at(4)}

    assert {MIRRORED: at(5)} == instants(source(40), PAIR, times)
    assert {} == instants(source(40), PAIR, {})


LIVE_THERE = mirror(0, 100, live("g", member("eu.orders")))
# The other offsets of the mirror's group are not taken for what is meant.
COMMITTED_THERE = replace(mirror(0, 100, IDLE), commits=(Commit("g", *MIRRORED, 5),))


@pytest.mark.parametrize(
    ("here", "there", "pair", "found"),
    [
        (source(40), LIVE_THERE, PAIR, [("group-live", "block")]),
        (source(40), replace(mirror(), logs={}), PAIR, [NEW, ("unreadable", "block")]),
        (source(40), mirror(), MirrorPair("h", "h"), [("no-such-group", "block")]),
        (snapshot(IDLE), COMMITTED_THERE, PAIR, [("no-commit", "note")]),
    ],
    ids=["live on the mirror", "not mirrored", "missing", "nothing committed"],
)
def test_obstacles_on_the_mirror(
    here: Snapshot, there: Snapshot, pair: MirrorPair, found: list[tuple[str, str]]
) -> None:
    """A live group on the mirror, a topic that is not mirrored, and nothing to copy."""
    plan = plan_copy_between(here, there, pair=pair, by=ByOffset())

    assert (found, found[0][0] == "group-live") == (rules(plan), bool(plan.steps))


def test_offsets_of_the_group_on_the_mirror_stay() -> None:
    """Its consumer starts there; without one, auto.offset.reset decides, which is noted."""
    logs = {("orders", number): (0, 100) for number in (0, 1)}
    here, there = snapshot(IDLE, commits=source(40).commits, logs=logs), mirror(0, 100, IDLE)
    kept = replace(there, commits=(Commit("g", "eu.orders", 1, 5),))

    assert [[("no-commit", "note")], []] == [
        rules(plan_copy_between(here, one, pair=PAIR, by=ByOffset())) for one in (there, kept)
    ]


def test_one_cluster_is_not_its_own_mirror() -> None:
    """Within a cluster, a copy keeps everything and needs no times."""
    with pytest.raises(UsageError, match="are the same cluster"):
        plan_copy_between(source(40), source(40), pair=PAIR, by=ByOffset())


@given(
    minutes=st.lists(st.integers(0, 20) | st.none(), max_size=12),
    committed=st.integers(0, 12),
    mirrored=st.integers(0, 12),
    late=st.integers(0, 3),
)
@example(minutes=[3, 3, 3], committed=3, mirrored=3, late=0)
@example(minutes=[5, None], committed=2, mirrored=1, late=1)
def test_no_unread_record_is_skipped(
    minutes: list[int | None], committed: int, mirrored: int, late: int
) -> None:
    """
    Whatever the times, their order, the markers of transactions and the lag of the mirror.

    `minutes` are the source's records, None where a marker is; `mirrored` so many records are in
    the mirror when it is read, `late` more come before the times are looked up in it.
    """
    committed = min(committed, len(minutes))
    records = [(offset, at(minute)) for offset, minute in enumerate(minutes) if minute is not None]
    here = source(committed, end=len(minutes))
    times = {
        (partition, offset): next(time for o, time in records if o >= offset)
        for partition, offset in records_to_date(here, "g")
        if any(o >= offset for o, _ in records)
    }
    in_mirror = [TimedOffset(n, time) for n, (_, time) in enumerate(records[: mirrored + late])]
    found = {
        partition: next((record for record in in_mirror if record.timestamp >= instant), None)
        for partition, instant in instants(here, PAIR, times).items()
    }
    there = mirror(0, min(mirrored, len(records)))
    plan = plan_copy_between(here, there, pair=PAIR, by=ByTime(times, found))

    for _, change in plan.changes:
        skipped = [offset for offset, _ in records[: change.after.offset] if offset >= committed]
        assert [] == skipped
