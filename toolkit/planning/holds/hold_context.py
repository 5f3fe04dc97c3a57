"""What a hold is judged by: the group, what is wanted, by which recipe, and how fast it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Self

from toolkit.errors import UsageError
from toolkit.model import Commit, Group, GroupType, Member, Prefer, Snapshot, TopicPartition
from toolkit.model.times import format_duration, parse_duration, short_duration
from toolkit.plan import Plan
from toolkit.planning.selection.index import Index

COOPERATIVE = "cooperative-sticky"
STREAMS = "stream"  # what Kafka Streams calls its assignor on the classic protocol
# `RoundRobinAssigner` is the name that kafkajs gives an ordinary round robin.
EAGER = frozenset({"range", "roundrobin", "sticky", "RoundRobinAssigner"})
KNOWN = EAGER | {COOPERATIVE, STREAMS}


class Recipe(StrEnum):
    """How partitions are captured, in a few words."""

    LOSSLESS = "offsetbook members take over the whole topic and keep the paused partitions"
    QUIET = "offsetbook members, also assigned an unused topic, replace the owner"
    FAST = "the owner is evicted while offsetbook members take over the whole topic"
    EAGER = "an offsetbook member becomes group leader during a rebalance"
    COOPERATIVE = "an offsetbook member becomes group leader right after the leader has committed"
    STREAMS = (
        "an offsetbook member becomes group leader and distributes the application's assignment "
        "without the paused partitions"
    )


RECIPES = {Prefer.LOSSLESS: Recipe.LOSSLESS, Prefer.QUIET: Recipe.QUIET, Prefer.FAST: Recipe.FAST}
CONSUMER_RECIPES = frozenset(RECIPES.values())


@dataclass(frozen=True, slots=True)
class HoldSettings:
    """Settings of a group and its brokers, as far as they are known; the defaults are Kafka's."""

    heartbeat_s: float | None = None  # of its members; 5 s (KIP-848) or 3 s (classic)
    commit_interval_s: float = 5.0  # auto.commit.interval.ms of its members
    survives_s: float = 45.0  # the session time-out of a member that holds
    max_size: int | None = None  # most members of the group
    retention: timedelta | None = None  # offsets.retention.minutes


@dataclass(frozen=True, slots=True)
class HoldTerms:
    """How a hold is captured, and how long it lasts: what is approved beside its partitions."""

    prefer: Prefer = Prefer.LOSSLESS
    hold_for: timedelta | None = None  # None: until it is resumed

    def __post_init__(self) -> None:
        """Refuse a hold that would be over before it begins."""
        if self.hold_for is not None and self.hold_for <= timedelta(0):
            raise UsageError(
                "pause duration must be greater than zero", hint="use a duration such as 30m"
            )

    @classmethod
    def read(cls, prefer: str = "", hold_for: str = "") -> Self:
        """Return terms as people write them, "30m"; raises UsageError. "" is the default."""
        if prefer not in {"", *Prefer}:
            hint = f"use one of: {', '.join(Prefer)}"
            raise UsageError(f"unknown capture mode {prefer!r}", hint=hint)
        length = parse_duration(hold_for) if hold_for else None
        return cls(Prefer(prefer or Prefer.LOSSLESS), length)

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Return the terms of a plan that holds."""
        return cls.read(plan.terms.get("prefer", ""), plan.terms.get("for", ""))

    def as_terms(self) -> dict[str, str]:
        """Return them as they stand in a plan."""
        told = {"prefer": str(self.prefer)}
        return told if self.hold_for is None else {**told, "for": short_duration(self.hold_for)}

    @property
    def words(self) -> str:
        """How long it lasts."""
        if self.hold_for is None:
            return "until it is resumed"
        return f"for {format_duration(self.hold_for)}"


@dataclass(frozen=True, slots=True)
class HoldFacts:
    """
    What is known beside a snapshot.

    `earlier` is a snapshot that was taken before: what was written and committed in between gives
    the rates. `by` is who would hold, and on which host; None: nobody asks. `left_behind` is what
    a process of theirs held that is gone, with which another one goes on.
    """

    settings: HoldSettings = HoldSettings()
    earlier: Snapshot | None = None
    by: tuple[str, str] | None = None
    left_behind: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True)
class HoldContext:
    """
    A group of which partitions are to be held, and the facts about it.

    `wanted` are those that exist and are not paused yet.
    """

    index: Index
    group: Group
    wanted: tuple[TopicPartition, ...]
    terms: HoldTerms = HoldTerms()
    beside: HoldFacts = HoldFacts()

    @property
    def recipe(self) -> Recipe | None:
        """How it is done; None where it is not."""
        if self.group.type is GroupType.CONSUMER:
            return RECIPES[self.terms.prefer]
        if self.group.type is not GroupType.CLASSIC:
            return None
        if self.group.assignor == STREAMS:
            return Recipe.STREAMS
        if self.group.assignor == COOPERATIVE:
            return Recipe.COOPERATIVE
        return Recipe.EAGER if self.group.assignor in EAGER else None

    @property
    def heartbeat_s(self) -> float:
        """How long a member may take to notice."""
        default = 5.0 if self.group.type is GroupType.CONSUMER else 3.0
        return self.beside.settings.heartbeat_s or default

    @cached_property
    def owners(self) -> Mapping[TopicPartition, Member]:
        """Who reads each partition of the group now."""
        return {p: member for member in self.group.readers for p in member.assignment}

    @cached_property
    def stopped(self) -> tuple[TopicPartition, ...]:
        """The other partitions that may stop for a moment."""
        topics = {partition.topic for partition in self.wanted}
        match self.recipe:
            case Recipe.LOSSLESS:
                found = {p for p in self.owners if p.topic in topics}
            case Recipe.QUIET:
                found = {p for member in self.evicted for p in member.assignment}
            case Recipe.FAST:
                evicted = {p for member in self.evicted for p in member.assignment}
                found = evicted | {p for p in self.owners if p.topic in topics}
            case Recipe.EAGER | Recipe.STREAMS:
                found = set(self.owners)
            case _:
                found = set()
        return tuple(sorted(found - set(self.wanted)))

    @cached_property
    def evicted(self) -> tuple[Member, ...]:
        """The members that may be put out of the group before they have committed."""
        match self.recipe:
            case Recipe.QUIET | Recipe.FAST:
                owners = {m.member_id: m for p, m in self.owners.items() if p in self.wanted}
                return tuple(owners[name] for name in sorted(owners))
            case Recipe.COOPERATIVE | Recipe.STREAMS:
                return self.group.readers  # the leader, who is not known from outside; or all
            case _:
                return ()

    @property
    def at_risk(self) -> tuple[TopicPartition, ...]:
        """The partitions of members that may be evicted."""
        return tuple(sorted({p for member in self.evicted for p in member.assignment}))

    @property
    def commits(self) -> Mapping[TopicPartition, Commit]:
        """What the group has committed."""
        return self.index.commits.get(self.group.group_id, {})

    def lag(self, partition: TopicPartition) -> int | None:
        """Count the records that are not read yet; None where that is not known."""
        commit, log = self.commits.get(partition), self.index.snapshot.logs.get(partition)
        if commit is None or log is None or log.log_end is None:
            return None
        return max(0, log.log_end - max(commit.offset, log.log_start or 0))

    def rate(self, partition: TopicPartition) -> float | None:
        """Return records a second, written or read, whichever is more; None where not known."""
        earlier, now = self.beside.earlier, self.index.snapshot
        if earlier is None:
            return None
        seconds = (now.taken_at - earlier.taken_at).total_seconds()
        old, new = earlier.logs.get(partition), now.logs.get(partition)
        if seconds <= 0 or not old or not new or old.log_end is None or new.log_end is None:
            return None
        written, read = new.log_end - old.log_end, 0
        if (commit := self.commits.get(partition)) and partition in self._earlier_offsets:
            read = commit.offset - self._earlier_offsets[partition]
        return max(0, written, read) / seconds

    @cached_property
    def _earlier_offsets(self) -> Mapping[TopicPartition, int]:
        commits = self.beside.earlier.commits if self.beside.earlier else ()
        return {
            TopicPartition(c.topic, c.partition): c.offset
            for c in commits
            if c.group_id == self.group.group_id
        }
