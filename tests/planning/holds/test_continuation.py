"""What the commits since a move show: properties, and the cases that the rules are made of."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.planning.holds.continuation import (
    FETCHED_AFTER_S,
    MOST_PER_S,
    Continuation,
    MovedOffset,
    MoveEvidence,
)

BACK = MovedOffset(target=50, before=100, log_end=103)  # it may have three records in its hands
CAUGHT_UP = MovedOffset(target=50, before=100, log_end=100)
SKIP = MovedOffset(target=100, before=50, log_end=1000)
FIRST = MovedOffset(target=50, before=None, log_end=1000)
JUST_NOW, LATER = 0.1, FETCHED_AFTER_S
RELEASED = 110  # the log end at the release, in the table of cases


def continued(
    moved: MovedOffset, *offsets: int | None, had_s: float | None = JUST_NOW
) -> Continuation:
    """Return what is known after these commits, all of a reader that has had it for so long."""
    one = Continuation(moved, readable_to=RELEASED)
    for offset in offsets:
        one.add(offset, assigned_s=had_s, released_s=5)
    return one


@pytest.mark.parametrize(
    ("moved", "offsets", "had_s", "evidence"),
    [
        (BACK, (51,), JUST_NOW, MoveEvidence.CONTINUES),  # only who reads from there is there now
        (BACK, (50,), JUST_NOW, MoveEvidence.CONTINUES),  # it commits where it begins
        (BACK, (101,), JUST_NOW, MoveEvidence.UNCLEAR),  # read up to there, or late
        (BACK, (101, 52), JUST_NOW, MoveEvidence.CONTINUES),  # it was late, and did not matter
        (BACK, (101, 102, 103), JUST_NOW, MoveEvidence.UNCLEAR),
        (BACK, (101, 102, 103, 104), JUST_NOW, MoveEvidence.OVERWRITTEN),  # 51, then 1, 1, 1
        (BACK, (101, 140, 180, 220), JUST_NOW, MoveEvidence.UNCLEAR),  # it reads that many at once
        (BACK, (101, 110, 111, 112, 113), JUST_NOW, MoveEvidence.UNCLEAR),  # nothing more was there
        (BACK, (104,), JUST_NOW, MoveEvidence.CONTINUES),  # that was not there to be held
        (BACK, (101,), LATER, MoveEvidence.CONTINUES),
        (BACK, (101,), None, MoveEvidence.OVERWRITTEN),  # nobody can have read from there
        (BACK, (50,), None, MoveEvidence.WAITING),
        (BACK, (49,), LATER, MoveEvidence.OVERWRITTEN),
        (BACK, (None,), LATER, MoveEvidence.OVERWRITTEN),  # deleted
        (CAUGHT_UP, (100,), JUST_NOW, MoveEvidence.CONTINUES),  # it had nothing in its hands
        (SKIP, (51,), JUST_NOW, MoveEvidence.OVERWRITTEN),
        (SKIP, (101,), JUST_NOW, MoveEvidence.CONTINUES),
        (SKIP, (150,), None, MoveEvidence.CONTINUES),  # what is skipped stays skipped
        (FIRST, (60,), JUST_NOW, MoveEvidence.UNCLEAR),
        (FIRST, (1001,), JUST_NOW, MoveEvidence.CONTINUES),
        (FIRST, (60,), None, MoveEvidence.OVERWRITTEN),
    ],
)
def test_each_case(
    moved: MovedOffset, offsets: tuple[int | None, ...], had_s: float | None, evidence: MoveEvidence
) -> None:
    """Each rule, with the commits that it is about."""
    assert evidence is continued(moved, *offsets, had_s=had_s).evidence


def test_a_commit_that_was_missed_may_have_been_late() -> None:
    """Where not every commit is seen, what looks like the first is not known to be it."""
    one = Continuation(BACK, every_commit=False)
    one.add(104, assigned_s=JUST_NOW, released_s=5)
    assert one.evidence is MoveEvidence.UNCLEAR


def test_a_commit_too_far_ahead_was_not_read() -> None:
    """It is farther than any client reads, so the client began elsewhere."""
    far = MovedOffset(target=0, before=10 * int(MOST_PER_S), log_end=None)
    one = Continuation(far)
    one.add(far.before, assigned_s=LATER, released_s=5)
    assert one.evidence is MoveEvidence.OVERWRITTEN


@given(
    st.integers(0, 100),
    st.integers(1, 100),
    st.integers(0, 20),
    st.lists(st.integers(1, 30), min_size=1, max_size=8),
)
def test_a_late_commit_never_passes_for_a_continuation(
    target: int, back: int, in_hands: int, steps: list[int]
) -> None:
    """A client that continues from a late commit is never reported as moved."""
    before = target + back
    late = before + in_hands + 1
    one = Continuation(MovedOffset(target, before, log_end=late), readable_to=late + sum(steps))
    for step in [0, *steps]:
        late += step
        one.add(late, assigned_s=JUST_NOW, released_s=5)
    assert one.evidence in {MoveEvidence.UNCLEAR, MoveEvidence.OVERWRITTEN}


@given(
    st.integers(0, 100),
    st.integers(1, 100),
    st.tuples(st.integers(0, 100), st.integers(0, 3)),
    st.integers(1, 300),
    st.lists(st.integers(1, 5), min_size=8, max_size=8),
)
def test_a_client_that_continues_is_never_reported_as_overwriting(
    target: int, back: int, waiting: tuple[int, int], at_once: int, produced: list[int]
) -> None:
    """Whether it commits every few records, or at the end, it is not moved again."""
    before = target + back
    log_end = before + waiting[0]
    readable_to = log_end + waiting[1]
    one = Continuation(MovedOffset(target, before, log_end), readable_to=readable_to)
    position, end = target, readable_to
    for more in produced:
        position = min(position + at_once, end)
        one.add(position, assigned_s=JUST_NOW, released_s=5)
        end += more
    assert one.evidence in {MoveEvidence.UNCLEAR, MoveEvidence.CONTINUES}


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.lists(st.integers(0, 30)))
def test_a_settled_result_stays_while_commits_advance(steps: list[int], more: list[int]) -> None:
    """Later commits that change nothing are not waited for."""
    offsets = [*accumulate([*steps, *more], initial=101)][1:]
    before, after = continued(BACK, *offsets[: len(steps)]), continued(BACK, *offsets)
    assert not before.is_settled or before.evidence is after.evidence


@pytest.mark.parametrize(
    ("offsets", "is_settled"),
    [
        ((), False),
        ((101,), False),
        ((101, 109, 110, 111), False),
        ((101, 110, 111, 112), True),
        ((51,), True),
        ((49,), True),
    ],
)
def test_when_nothing_more_is_expected(offsets: tuple[int, ...], *, is_settled: bool) -> None:
    """Three commits beyond what could be read at first settle what the first one left open."""
    assert is_settled is continued(BACK, *offsets).is_settled
