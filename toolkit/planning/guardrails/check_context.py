"""Input (`CheckContext`) and output (`Objection`) of the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from toolkit.model import Commit, Group, LogOffsets, Policy, Snapshot, TopicPartition
from toolkit.model.commit_columns import pending_of
from toolkit.model.groups import Sighting
from toolkit.model.names import shown_name
from toolkit.plan import Action, Intent, Plan, Position, Step
from toolkit.plan.approvals import WATCH, Limits
from toolkit.planning.changes.skipped_ranges import unread_from
from toolkit.planning.changes.topic_recreated import commits_of_earlier_topics
from toolkit.planning.holds.hold_context import HoldContext, HoldFacts, HoldTerms
from toolkit.planning.selection.plan_parts import out_of_range
from toolkit.planning.selection.snapshot_index import SnapshotIndex

# Intents that aim at a position; the others put back, keep or remove what was there.
NEW_OFFSETS = frozenset({Intent.RESET, Intent.MOVE})  # partitions without a commit were not read
AIMED = NEW_OFFSETS | {Intent.COPY, Intent.RENAME, Intent.RESTORE}
SHOWN_UNKNOWN = 3


class FactsMissing(Exception):
    """A rule lacks a fact, which the text names; that blocks like a violation."""

    @classmethod
    def where(cls, unknown: Sequence[str]) -> None:
        """
        Raise it where anything is unknown; name the first few.

        A rule does so after its objections, so that an operator who overrides it sees those too.
        """
        if unknown:
            more = len(unknown) - SHOWN_UNKNOWN
            named = "; ".join(unknown[:SHOWN_UNKNOWN])
            raise cls(f"{named}; and {more:,} more" if more > 0 else named)


class Objection(NamedTuple):
    """Why a rule says no, and about what."""

    why: str
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None


@dataclass(slots=True)
class OffsetMoves:
    """What the changes that aim at a position come to; `skipped` has offsets by group."""

    skipped: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    outside: list[Objection] = field(default_factory=list)  # to offsets that are not in the log
    unknown: list[str] = field(default_factory=list)  # which logs are not known
    uncounted: list[str] = field(default_factory=list)  # where all offsets count as records


@dataclass(frozen=True, slots=True)
class EarlierSightings:
    """Sightings of earlier runs: groups that stayed Empty, and offsets that stayed unsubscribed."""

    empty: Mapping[str, Sighting] = field(default_factory=dict)  # by group
    unsubscribed: Mapping[tuple[str, str], Sighting] = field(default_factory=dict)  # group, topic


@dataclass(frozen=True)
class CheckContext:
    """
    What rules judge: a plan, the current facts, the policy, and the reason.

    While a plan is only being made or reviewed, `applying` is False and `facts` are those it was
    made from. `finishing` says that an earlier run of the same plan was cut off, so that a part of
    it may be done already. `watch` is the minimum time between two reads of an idle group. `limits`
    are those of a standing approval, and `seen` are the sightings that they are judged by.
    `hold_facts` are by group, for groups with partitions to hold; they are read again only when a
    plan is applied, because planning a hold has judged the same facts already. `by` is who applies
    it, the user and the host.
    """

    plan: Plan
    facts: Snapshot
    policy: Policy
    now: datetime
    reason: str = ""
    applying: bool = False
    finishing: bool = False
    watch: timedelta = WATCH
    limits: Limits | None = None
    seen: EarlierSightings = EarlierSightings()
    hold_facts: Mapping[str, HoldFacts] = field(default_factory=dict)
    by: tuple[str, str] | None = None

    @property
    def groups(self) -> Mapping[str, Group]:
        """The groups that exist now, by name; a Dead one is gone."""
        return self.index.groups

    @cached_property
    def index(self) -> SnapshotIndex:
        return SnapshotIndex(self.facts)

    def committed(self, group_id: str) -> Mapping[TopicPartition, Commit]:
        return self.index.commits_of(group_id)

    @cached_property
    def pending(self) -> frozenset[tuple[str, TopicPartition]]:
        found = pending_of(self.facts.commits)
        return frozenset((c.group_id, c.topic_partition) for c in found)

    @cached_property
    def earlier_topics(self) -> frozenset[tuple[str, TopicPartition]]:
        return commits_of_earlier_topics(self.facts)

    @cached_property
    def made(self) -> frozenset[tuple[str, TopicPartition]]:
        """The changes that have been made already, by the run that is being finished."""
        return frozenset(
            (step.group_id, change.partition)
            for step, change in (self.plan.changes if self.finishing else ())
            if self.index.committed_position(step.group_id, change.partition) == change.after
        )

    @cached_property
    def moves(self) -> OffsetMoves:
        moves, logs = OffsetMoves(), self.facts.logs
        for step in self.plan.steps if self.plan.intent in AIMED else ():
            skipped = 0
            for partition, before, after, _ in step.changes:
                if after is None:
                    continue
                log, offset = logs.get(partition), after.offset
                if log is None or log.log_start is None or log.log_end is None:
                    topic, number = partition
                    moves.unknown.append(
                        f"where the log of {topic} partition {number} starts and ends"
                    )
                    continue
                start, end = log.log_start, log.log_end
                if why := out_of_range(offset, log):
                    moves.outside.append(Objection(why, step.group_id, *partition))
                if before is not None:
                    unread = self.unread_from(step.group_id, partition, before, log)
                    is_known = (partition, unread) in self.facts.first_records
                    if unread < min(offset, end) and not is_known:
                        topic, number = partition
                        uncounted = f"which offsets of {topic} partition {number} are records"
                        moves.uncounted.append(uncounted)
                    skipped += self._records(partition, unread, min(offset, end))
                    moves.repeated += max(0, min(before.offset, end) - max(offset, start))
                elif self.plan.intent in NEW_OFFSETS:
                    # Where a copy or a restore fills a group in, nothing is known to be unread.
                    skipped += max(0, min(offset, end) - start)
            if skipped:
                moves.skipped[step.group_id] += skipped
        return moves

    def unread_from(
        self, group_id: str, partition: TopicPartition, before: Position, log: LogOffsets
    ) -> int:
        """Return from which offset a group that is at a position has not read a log."""
        is_earlier = (group_id, partition) in self.earlier_topics
        return unread_from(before, log, is_earlier=is_earlier)

    def _records(self, partition: TopicPartition, start: int, end: int) -> int:
        """Return the maximum number of records in a range, from its first record if known."""
        first = self.facts.first_records.get((partition, start), start)
        return max(0, end - first) if first is not None else 0

    @cached_property
    def holds(self) -> tuple[HoldContext, ...]:
        """The holds that are still to be made, of groups with known `hold_facts`."""
        found = []
        for step in self._holding:
            group = self.groups.get(step.group_id)
            if group is None or step.group_id not in self.hold_facts:
                continue
            partitions = tuple(c.partition for c in step.changes if c.partition not in group.paused)
            if partitions:
                terms, hold_facts = HoldTerms.of(self.plan), self.hold_facts[step.group_id]
                found.append(HoldContext(self.index, group, partitions, terms, hold_facts))
        return tuple(found)

    @property
    def holds_unknown(self) -> list[str]:
        """Of which groups with partitions to hold the `hold_facts` were not read."""
        groups = {step.group_id for step in self._holding} if self.applying else set()
        return [f"the settings of {shown_name(n)}" for n in sorted(groups - self.hold_facts.keys())]

    @property
    def _holding(self) -> Iterator[Step]:
        return (step for step in self.plan.steps if step.action is Action.HOLD)
