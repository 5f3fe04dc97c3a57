"""What a move of a live group is approved as, and the exact plan that is made of it later."""

from dataclasses import replace
from datetime import timedelta

import pytest
from facts import NOON
from guardrail_cases import BILLS, step
from guardrail_cases import plan as run_of
from held import PARTITIONS, blocks, classic, facts, group, holder, notes, numbers, reader, reason
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import CaptureMode, GroupState, GroupType, Snapshot, TimedOffset, TopicPartition
from toolkit.plan import Action, Change, Intent, Plan, Position
from toolkit.planning.changes.move import (
    MoveRequest,
    PlannedMove,
    moves_back,
    plan_move,
)
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.targets import (
    PastEnd,
    ShiftBy,
    Target,
    ToDatetime,
    ToOffset,
    from_offsets,
    parse_target,
)

FLOWING = group()
HELD = group(reader("a", 0), reader("b", 2, 3), holder(1), state=GroupState.RECONCILING)


def move(
    about: Snapshot, to: Target, *topics: str, prefer: CaptureMode = CaptureMode.LOSSLESS
) -> PlannedMove:
    return plan_move(about, MoveRequest(to, "g", topics or ("orders:1",), prefer=prefer))


def offsets(plan: Plan) -> list[int]:
    return [change.after.offset for _, change in plan.changes if change.after]


def test_a_move_is_approved_as_requested() -> None:
    """The group reads on during the review; the target and the terms must stay the same."""
    plan = move(facts(FLOWING), ToOffset(5)).plan
    later = move(facts(FLOWING, committed=15, end=99), ToOffset(5)).plan

    assert (Intent.MOVE, [Action.MOVE]) == (plan.intent, [step.action for step in plan.steps])
    assert plan.fingerprint == later.fingerprint
    others = (
        move(facts(FLOWING), ToOffset(6)),
        move(facts(FLOWING), ToOffset(5), "orders:2"),
        move(facts(FLOWING), ToOffset(5), prefer=CaptureMode.FAST),
    )
    assert plan.fingerprint not in {other.plan.fingerprint for other in others}


def test_a_move_has_the_costs_and_blocks_of_its_hold() -> None:
    """An approval of a move includes its hold."""
    plan = move(facts(FLOWING), ToOffset(5)).plan
    assert [] == blocks(plan)
    assert {"stops", "repeats", "disturbs", "survives", "alternatives"} <= set(notes(plan))
    # A move that goes back repeats records, which is what it is for.
    repeats = "no redelivered records besides those that the move repeats"
    assert reason(plan, "repeats").startswith(repeats)
    assert "custom-protocol" in blocks(move(facts(classic(assignor="ours")), ToOffset(5)).plan)


def test_a_group_that_cannot_be_held() -> None:
    """A KIP-1071 group is moved by evicting its owners, which is noted."""
    streams = facts(group(type=GroupType.STREAMS))
    planned = move(streams, ToOffset(5))
    plan, exact = planned.plan, planned.exact(streams)

    assert ([], True) == (blocks(plan), "evicted" in reason(plan, "move-unheld"))
    assert ([], [5]) == (blocks(exact), offsets(exact))


def test_paused_partitions_are_only_moved() -> None:
    """They need no hold of the move, so there is no note about one."""
    plan = move(facts(HELD), ToOffset(5)).plan
    assert ([], [1], "stops" in notes(plan)) == (blocks(plan), numbers(plan), False)


def test_a_move_of_nothing_invents_no_member() -> None:
    """Blocks are about the selection; no finding names a holder, or suggests a move."""
    plan = move(facts(FLOWING), ToOffset(5), "bills").plan

    assert ((), ["unreadable"]) == (plan.steps, blocks(plan))
    assert "offsetbook" not in " ".join(finding.why for finding in plan.findings)


@given(st.integers(0, 20), st.integers(-20, 20).filter(bool))
def test_the_exact_plan_has_the_numbers_of_a_standstill(committed: int, shift: int) -> None:
    """It is made once the partitions stand still, and blocked where they do not."""
    planned = move(facts(FLOWING), ShiftBy(shift))
    goal = min(max(committed + shift, 0), 20)
    exact = planned.exact(facts(HELD, committed=committed))

    assert ([], [goal] * (goal != committed)) == (blocks(exact), offsets(exact))
    assert "group-live" in blocks(planned.exact(facts(FLOWING, committed=committed)))


def test_a_time_is_looked_up_again() -> None:
    """The facts of the exact plan must have the offsets of that time; without them it blocks."""
    at_time = dict.fromkeys(PARTITIONS, TimedOffset(7, NOON))
    about = replace(facts(FLOWING), at=NOON, at_time=at_time)
    planned = move(about, ToDatetime(NOON, PastEnd.KEEP, "to-datetime noon"))
    exact = planned.exact(replace(facts(HELD), at=NOON, at_time=at_time))
    blind = planned.exact(facts(HELD))

    assert (NOON, [7]) == (planned.at, offsets(exact))
    assert ((), True) == (blind.steps, bool(blocks(blind)))


@pytest.mark.parametrize("past_end", list(PastEnd))
@pytest.mark.parametrize(
    "asked",
    [
        "to-earliest",
        "to-latest",
        "to-current",
        "to-offset 5",
        "shift-by -3",
        "shift-by +3",
        "to-datetime 2026-02-28 10:00",
        "to-datetime 2026-02-28T10:00:00.125+02:00",
        "by-duration 90m",
    ],
)
def test_a_move_goes_where_it_was_to_go(asked: str, past_end: PastEnd) -> None:
    """From the plan alone the exact one is that of the target, whatever was asked for."""
    mode, _, value = asked.partition(" ")
    to = parse_target(mode, value, now=NOON, past_end=past_end)
    found = dict.fromkeys(PARTITIONS, TimedOffset(7, NOON))
    about = facts(FLOWING, committed=99)  # outside the log, or to-current moves nothing
    planned = move(replace(about, at=getattr(to, "at", None), at_time=found), to)
    for at_time in (found, dict.fromkeys(PARTITIONS)):  # a record of that time, or none
        later = replace(facts(HELD, committed=12), at=planned.at, at_time=at_time)

        exact = planned.exact(later)
        expected = plan_reset(later, to, groups=["g"], topics=["orders:1"])
        assert (expected.steps, expected.findings) == (exact.steps, exact.findings)


def test_a_duration_is_approved_as_it_was_asked_for() -> None:
    """Planned again some seconds later, the fingerprint is the same; each plan has its own time."""

    def planned(text: str, after_s: int) -> PlannedMove:
        mode, _, value = text.partition(" ")
        to = parse_target(mode, value, now=NOON + timedelta(seconds=after_s))
        assert isinstance(to, ToDatetime)
        # The facts are read after the time was chosen.
        read = replace(facts(FLOWING), taken_at=NOON + timedelta(seconds=after_s + 2.5))
        found = dict.fromkeys(PARTITIONS, TimedOffset(7, NOON))
        return move(replace(read, at=to.at, at_time=found), to)

    one, other = planned("by-duration PT90M", 0), planned("by-duration PT90M", 7)
    earlier = planned("to-datetime 2026-03-01 10:30", 0)

    assert one.plan.fingerprint == other.plan.fingerprint != earlier.plan.fingerprint
    assert one.at == earlier.at != other.at


@pytest.mark.parametrize("row", [Position(3, None, "a note"), 99])
def test_a_move_to_offsets_that_were_written_down(row: int | Position) -> None:
    """They are those that were approved, however far the group and the log have gone on since."""
    rows: dict[tuple[str | None, TopicPartition], int | Position]
    rows = {("g", place): row for place in PARTITIONS}
    planned = move(facts(FLOWING), from_offsets(rows, source="as before run R"))
    exact = planned.exact(facts(HELD, committed=12, end=150))

    approved, moved = ([change.after for _, change in p.changes] for p in (planned.plan, exact))
    assert approved == moved == [Position(20) if row == 99 else row]


def test_only_offsets_that_were_there_before_are_moved_back() -> None:
    """A live group with first commits alone has nothing to be moved to; another one may read on."""
    back = Change(PARTITIONS[1], Position(10), Position(5))
    changes = (back, back._replace(before=None), back._replace(partition=BILLS))
    runs = [run_of(step(change), intent=Intent.MOVE) for change in changes]

    assert [True, False, False] == [moves_back(done, facts(FLOWING)) for done in runs]
