"""
Judge from a group's commits whether it continues from the offset that a partition was moved to.

A consumer that was processing a record when it lost the partition may commit it later, over the
moved offset. The next owner of the partition then continues from there. Only commits are visible
from outside, so the question is which of them only a consumer can make that fetched the moved
offset. Without such a commit the move is not confirmed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

# No client reads faster: a commit beyond that did not start at the new offset.
MOST_PER_S = 200_000.0
# A consumer fetches its offset as soon as it has the partition. One that commits later than this,
# with the moved offset in place until then, has fetched that.
FETCHED_AFTER_S = 3.0
COMMITS_TO_COMPARE = 3  # further commits that show how far apart those of the application are
FARTHER = 2  # a first commit so many times as far away was not read up to, if more could be read


class MoveEvidence(StrEnum):
    """What the commits since a move show of one partition."""

    WAITING = "waiting"  # nothing was committed
    UNCLEAR = "unclear"  # the first commit fits a late one as well
    CONTINUES = "continues"  # from the moved offset
    OVERWRITTEN = "overwritten"  # it continues from another offset


@dataclass(frozen=True, slots=True)
class MovedOffset:
    """
    The new offset of a partition.

    `before` is what was committed when it was held, `log_end` the log end after that; None where
    it is not known.
    """

    target: int
    before: int | None
    log_end: int | None

    @property
    def could_be_late(self) -> bool:
        """Whether a consumer may have had records in its hands that it had not committed."""
        return None in {self.before, self.log_end} or (self.before or 0) < (self.log_end or 0)


@dataclass
class Continuation:
    """
    The commits of one partition since it was moved, and what they show.

    `every_commit` says that none is left out: the first one is really the first. `readable_to` is
    the log end when it was released; None where it is not known.
    """

    moved: MovedOffset
    every_commit: bool = True
    readable_to: int | None = None
    evidence: MoveEvidence = MoveEvidence.WAITING
    offsets: list[int] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        """
        Whether further commits are not expected to change the result.

        Commits past `readable_to` show nothing about the distances, and a late commit is soon
        followed by a lower one of the new owner.
        """
        if self.evidence is not MoveEvidence.UNCLEAR:
            return self.evidence is not MoveEvidence.WAITING
        last = self.offsets[-COMMITS_TO_COMPARE:]
        is_read = self.readable_to is not None and last[0] >= self.readable_to
        return is_read and len(last) == COMMITS_TO_COMPARE and last == sorted(last)

    def add(self, offset: int | None, *, assigned_s: float | None, released_s: float) -> None:
        """
        Judge one more commit; None is one that was deleted.

        `assigned_s` is how long a reader had had the partition at least, None if none had it;
        `released_s` how long it had not been held.
        """
        if self.evidence in {MoveEvidence.CONTINUES, MoveEvidence.OVERWRITTEN}:
            return
        if offset is not None:
            self.offsets.append(offset)
        self.evidence = self._judge(offset, assigned_s, released_s)

    def _judge(
        self, offset: int | None, assigned_s: float | None, released_s: float
    ) -> MoveEvidence:
        target, before = self.moved.target, self.moved.before
        if offset is None or is_written_over(target, before, offset, released_s):
            return MoveEvidence.OVERWRITTEN
        if offset == target:
            return self.evidence if assigned_s is None else MoveEvidence.CONTINUES
        # Skipped records stay skipped, also if a late commit is past them.
        if before is not None and before <= target:
            return MoveEvidence.CONTINUES
        if assigned_s is None:
            return MoveEvidence.OVERWRITTEN
        if before is not None and offset < before:
            return MoveEvidence.CONTINUES
        is_first = self.evidence is MoveEvidence.WAITING
        return self._of_the_first(offset, assigned_s) if is_first else self._of_the_distances()

    def _of_the_first(self, offset: int, assigned_s: float) -> MoveEvidence:
        """Judge the first commit, at or beyond the offset from before."""
        log_end = self.moved.log_end
        is_newer = self.every_commit and log_end is not None and offset > log_end
        if is_newer or not self.moved.could_be_late or assigned_s >= FETCHED_AFTER_S:
            return MoveEvidence.CONTINUES
        return MoveEvidence.UNCLEAR

    def _of_the_distances(self) -> MoveEvidence:
        """
        Compare how far the first commit is from the moved offset with those after it.

        A caught-up consumer commits as records come in, however far apart its commits were before:
        only commits with more unread records show how the application commits.
        """
        if self.readable_to is None:
            return self.evidence
        of_its_own = [offset for offset in self.offsets if offset < self.readable_to]
        distances = [later - earlier for earlier, later in pairwise(of_its_own)]
        if len(distances) < COMMITS_TO_COMPARE or min(distances) < 0:
            return self.evidence
        first = self.offsets[0] - self.moved.target
        return MoveEvidence.OVERWRITTEN if first > FARTHER * max(distances) else self.evidence


def is_written_over(target: int, before: int | None, found: int | None, elapsed_s: float) -> bool:
    """
    Return whether a commit shows that its client did not start at the new offset.

    True if it is lower, or at or beyond the old position and too far to have been read since.
    """
    if found is None or found < target:
        return True
    was = target if before is None else before
    return found >= was > target and found - target > MOST_PER_S * elapsed_s
