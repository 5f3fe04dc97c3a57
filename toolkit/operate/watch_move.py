"""Watch a group after moved partitions were released, until it continues from the new offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.describe_groups import describe_groups
from toolkit.kafka_io.logs.log_offsets import read_log_offsets
from toolkit.kafka_io.membership.channel import clock
from toolkit.model import Group, GroupState, GroupType, TopicPartition
from toolkit.operate.group_commits import LOOK_EVERY_S, GroupCommits
from toolkit.plan import Action, ChangeStatus, Result, Step, StepOutcome
from toolkit.planning.holds.continuation import Continuation, MovedOffset, MoveEvidence

WATCH_S = 35.0  # Kafka Streams commits every 30 s by default
NOT_SEEN = "moved; the application was not seen to continue from there"


class MoveWatch:
    """Watches the moved partitions of one group; start it while they are still held."""

    def __init__(
        self, connection: Connection, group: Group, moved: Mapping[TopicPartition, MovedOffset]
    ) -> None:
        """Start with the next commit."""
        self.connection = connection
        self.group = group
        self.partitions = {place: Continuation(one) for place, one in moved.items()}
        self.commits = GroupCommits(connection, group.group_id)
        self.since: dict[TopicPartition, float] = {}  # when it was first seen in an assignment
        self.shows_owners = self.is_at_rest = False

    def overwritten_while_held(self) -> list[TopicPartition]:
        """Return the partitions whose committed offset differs from the target."""
        found = self.commits.read_committed()
        late = [p for p, one in self.partitions.items() if found.get(p) != one.moved.target]
        for place in late:
            self.partitions[place].add(found.get(place), assigned_s=None, released_s=0)
        return late

    def run(self, stopped: Callable[[], str]) -> str:
        """
        Judge the commits until all results are clear or the time is over; return why it ended.

        `stopped` (Ctrl-C) ends it early. What cannot be read is not confirmed.
        """
        released = clock()
        self._note_log_ends()
        while clock() < released + WATCH_S:
            if why := stopped():
                return f"until it was {why}"
            try:
                self._look(released)
            except ToolkitError as exc:
                return f"as far as could be read: {exc.problem}"
            if self._is_clear():
                return ""
            time.sleep(LOOK_EVERY_S)
        return f"within {WATCH_S:g} s"

    def _look(self, released: float) -> None:
        """
        Judge the commits since the last sample.

        In this order: commits are read before the group is described, so a commit on a partition
        without an owner in the description is older than its next owner.
        """
        began = clock()
        self.commits.mark()
        assigned = self._assigned()
        for place, offset, _ in self.commits.read():
            if place not in self.partitions:
                continue
            had_s = began - self.since[place] if place in self.since else None
            if had_s is None and (place in assigned or not self.shows_owners):
                # It was assigned since the last sample, before or after this commit; while a
                # classic group rebalances, its description does not show the owners.
                had_s = 0
            self.partitions[place].every_commit &= self.commits.has_every_commit
            self.partitions[place].add(offset, assigned_s=had_s, released_s=clock() - released)
        for place in assigned:
            self.since.setdefault(place, clock())

    def _note_log_ends(self) -> None:
        """Note the log ends of the released partitions, as far as they can be read."""
        logs, _ = read_log_offsets(self.connection, sorted(self.partitions))
        for place, log in logs.items():
            self.partitions[place].readable_to = log.log_end

    def _assigned(self) -> frozenset[TopicPartition]:
        """Return the partitions that are assigned to readers now."""
        found = describe_groups(self.connection, [self.group])
        groups = [one for one in found if isinstance(one, Group)]
        is_stable = any(one.state is GroupState.STABLE for one in groups)
        self.shows_owners = is_stable or any(one.type is GroupType.CONSUMER for one in groups)
        # While anything is paused, a KIP-848 group is never Stable.
        self.is_at_rest = is_stable or any(
            one.state is GroupState.RECONCILING and one.paused for one in groups
        )
        return frozenset(p for g in groups for member in g.readers for p in member.assignment)

    def _is_clear(self) -> bool:
        """Whether all results are clear, and overwritten partitions can be held again."""
        if not all(one.is_settled for one in self.partitions.values()):
            return False
        if all(o.evidence is not MoveEvidence.OVERWRITTEN for o in self.partitions.values()):
            return True
        return self.is_at_rest and self.since.keys() >= self.partitions.keys()


def not_seen_yet(steps: Sequence[Step], outcomes: Iterable[StepOutcome]) -> tuple[StepOutcome, ...]:
    """Return the outcomes of a move that was read back while the partitions are held."""
    return tuple(
        with_results(outcome, [_not_seen(one) for one in outcome.results])
        if step.action is Action.MOVE and step.type is not GroupType.STREAMS
        else outcome
        for step, outcome in zip(steps, outcomes, strict=True)
    )


def _not_seen(one: Result) -> Result:
    if one.status is not ChangeStatus.DONE:
        return one
    return replace(one, status=ChangeStatus.NOT_CONFIRMED, why=NOT_SEEN)


def judged(result: Result, seen: Continuation, ended: str) -> Result:
    """Return the result of one moved partition from the commits that were seen."""
    target, last = seen.moved.target, seen.offsets[-1] if seen.offsets else None
    match seen.evidence:
        case MoveEvidence.CONTINUES:
            return replace(result, status=ChangeStatus.DONE, why="")
        case MoveEvidence.OVERWRITTEN:
            found = "deleted" if last is None else f"overwritten with {last}"
            why = (
                f"moved to {target}, then {found} by a client that continued from its old position "
                f"{seen.moved.before}"
            )
            return replace(result, status=ChangeStatus.FAILED, why=why)
        case MoveEvidence.UNCLEAR:
            why = (
                f"moved to {target}; the first commit after that was {seen.offsets[0]}: the "
                "application read up to there, or a late commit has overwritten the move"
            )
        case MoveEvidence.WAITING:
            why = f"{NOT_SEEN} {ended}: it committed nothing"
    return replace(result, status=ChangeStatus.NOT_CONFIRMED, why=why)


def with_results(step: StepOutcome, results: Collection[Result]) -> StepOutcome:
    """Return an outcome with other results; its status is the worst of them."""
    if not results:
        return step
    worst = min(results, key=lambda one: _WORST_FIRST.index(one.status))
    return replace(step, status=worst.status, why=worst.why, results=tuple(results))


_WORST_FIRST = (
    ChangeStatus.FAILED,
    ChangeStatus.REFUSED,
    ChangeStatus.NOT_TRIED,
    ChangeStatus.NOT_CONFIRMED,
    ChangeStatus.DONE,
)
