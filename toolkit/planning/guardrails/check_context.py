"""What a rule gets and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from toolkit.model import Commit, Group, GroupState, Policy, Snapshot, TopicPartition
from toolkit.model.sightings import Sighting
from toolkit.plan import Change, Intent, Plan, Position, Step
from toolkit.plan.approvals import WATCH, Limits

# Intents that aim at a position; the others put back, keep or remove what was there.
NEW_OFFSETS = frozenset({Intent.RESET, Intent.MOVE})  # what was not committed was not read
AIMED = NEW_OFFSETS | {Intent.COPY, Intent.RENAME, Intent.RESTORE}
SHOWN_UNKNOWN = 3


class CannotTell(Exception):
    """A rule lacks a fact, which the text names; that blocks like a violation."""

    @classmethod
    def where(cls, unknown: Sequence[str]) -> None:
        """
        Raise it where anything is unknown; name the first few.

        A rule does so after its objections: whoever overrides it is to see those too.
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


class Jump(NamedTuple):
    """A change that sends an offset somewhere in a log that reaches from `start` to `end`."""

    group_id: str
    partition: TopicPartition
    before: Position | None
    after: Position
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EarlierSightings:
    """What earlier looks of ours saw: groups that stayed Empty, and topics that stayed left."""

    empty: Mapping[str, Sighting] = field(default_factory=dict)  # by group
    unsubscribed: Mapping[tuple[str, str], Sighting] = field(default_factory=dict)  # group, topic


@dataclass(frozen=True)
class CheckContext:
    """
    What rules judge: a plan, the facts of now, the policy, and who wants it why.

    While a plan is only being made or reviewed, `applying` is False and `facts` are those it was
    made from. `finishing` says that an earlier run of the same plan was cut off, so that a part of
    it may be done already. `watch` is how far apart two looks at an idle group must be. `limits`
    are those of a standing approval, and `seen` is what they may need to be judged by.
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

    @cached_property
    def groups(self) -> dict[str, Group]:
        """The groups that exist now, by name; a Dead one is gone."""
        return {g.group_id: g for g in self.facts.groups if g.state is not GroupState.DEAD}

    @cached_property
    def commits(self) -> dict[tuple[str, TopicPartition], Commit]:
        """What is committed now."""
        return {(c.group_id, TopicPartition(c.topic, c.partition)): c for c in self.facts.commits}

    def is_made(self, step: Step, change: Change) -> bool:
        """Whether a change has been made already, by the run that is being finished."""
        commit = self.commits.get((step.group_id, change.partition))
        return self.finishing and (Position.of(commit) if commit else None) == change.after

    @cached_property
    def jumps(self) -> tuple[list[Jump], list[str]]:
        """The changes that aim at a position, and which logs are not known that others aim at."""
        jumps, unknown = [], []
        for step in self.plan.steps if self.plan.intent in AIMED else ():
            for change in step.changes:
                if change.after is None:
                    continue
                partition, log = change.partition, self.facts.logs.get(change.partition)
                if log is None or log.log_start is None or log.log_end is None:
                    topic, number = partition
                    unknown.append(f"where the log of {topic} partition {number} starts and ends")
                else:
                    way = (change.before, change.after, log.log_start, log.log_end)
                    jumps.append(Jump(step.group_id, partition, *way))
        return jumps, unknown


Rule = Callable[[CheckContext], Iterable[Objection]]
