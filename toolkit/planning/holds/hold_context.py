"""Inputs of the hold rules: group, partitions, recipe and consumption rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Self

from toolkit.errors import UsageError
from toolkit.model import (
    CaptureMode,
    Commit,
    Group,
    GroupType,
    Member,
    Problem,
    Snapshot,
    TopicPartition,
)
from toolkit.model.groups import SESSION_TIMEOUT_S, STREAMS_PROTOCOL
from toolkit.model.offsets import NO_LOG
from toolkit.model.records import FirstRecord
from toolkit.model.times import format_duration, parse_duration, short_duration
from toolkit.plan import Plan
from toolkit.planning.holds.recipes import (
    APPLICATIONS,
    COOPERATIVE,
    EAGER,
    RECIPES,
    WAITS_FOR,
    Recipe,
    is_internal_topic,
    partitions_to_claim,
)
from toolkit.planning.lag.lag import lag_of
from toolkit.planning.selection.snapshot_index import SnapshotIndex


@dataclass(frozen=True, slots=True)
class HoldSettings:
    """Settings of a group and its brokers, as far as known; the defaults are Kafka's."""

    heartbeat_s: float | None = None  # of its members; 5 s (KIP-848) or 3 s (classic)
    commit_interval_s: float = 5.0  # auto.commit.interval.ms of its members
    survives_s: float = SESSION_TIMEOUT_S  # session timeout of a holding member
    max_size: int | None = None  # maximum size of the group
    retention: timedelta | None = None  # offsets.retention.minutes


@dataclass(frozen=True, slots=True)
class HoldTerms:
    """Capture mode and duration of a hold, approved together with its partitions."""

    prefer: CaptureMode = CaptureMode.LOSSLESS
    pause_for: timedelta | None = None  # None: until resumed
    for_move: bool = False  # a move resumes them itself, whatever else is held
    commit_missing: str = ""  # earliest, latest or an offset, where no offset is committed

    def __post_init__(self) -> None:
        if self.pause_for is not None and self.pause_for <= timedelta(0):
            raise UsageError(
                "pause duration must be greater than zero", hint="use a duration such as 30m"
            )

    @classmethod
    def read(cls, prefer: str = "", pause_for: str = "", commit_missing: str = "") -> Self:
        """Parse terms such as "30m"; "" is the default. Raises UsageError."""
        if prefer not in {"", *CaptureMode}:
            hint = f"use one of: {', '.join(CaptureMode)}"
            raise UsageError(f"unknown capture mode {prefer!r}", hint=hint)
        length = parse_duration(pause_for) if pause_for else None
        return cls(
            CaptureMode(prefer or CaptureMode.LOSSLESS), length, commit_missing=commit_missing
        )

    @classmethod
    def of(cls, plan: Plan) -> Self:
        given = (plan.terms.get(name, "") for name in ("prefer", "for", "commit_missing"))
        terms = cls.read(*given)
        return replace(terms, for_move=plan.terms.get("within") == "move")

    def as_terms(self) -> dict[str, str]:
        """Return the terms as stored in a plan."""
        terms = {"prefer": str(self.prefer)}
        if self.pause_for is not None:
            terms["for"] = short_duration(self.pause_for)
        if self.commit_missing:
            terms["commit_missing"] = self.commit_missing
        return {**terms, "within": "move"} if self.for_move else terms

    @property
    def words(self) -> str:
        if self.pause_for is None:
            return "until resumed"
        return f"for {format_duration(self.pause_for)}"


@dataclass(frozen=True, slots=True)
class HoldFacts:
    """
    Facts about one group that a hold needs and its snapshot does not have.

    `earlier` is an earlier snapshot, from which the rates are computed. `by` is the user and host
    of the hold; None: unknown. `orphaned` are the partitions of a crashed keeper of this user,
    which another keeper takes over. `unread` has the first unread record of each partition that had
    lag before the snapshot; None: not read.
    """

    settings: HoldSettings = HoldSettings()
    earlier: Snapshot | None = None
    by: tuple[str, str] | None = None
    orphaned: frozenset[TopicPartition] = frozenset()
    unread: Mapping[TopicPartition, FirstRecord] | None = None


@dataclass(frozen=True)
class HoldContext:
    """
    A group with partitions to hold, and the facts about it.

    `partitions` are those to hold: they exist and are not paused yet.
    """

    index: SnapshotIndex
    group: Group
    partitions: tuple[TopicPartition, ...]
    terms: HoldTerms = HoldTerms()
    hold_facts: HoldFacts = HoldFacts()

    @property
    def recipe(self) -> Recipe | None:
        """The recipe; None if the group cannot be held."""
        if self.group.type is GroupType.CONSUMER:
            return RECIPES[self.terms.prefer]
        if self.group.type is not GroupType.CLASSIC:
            is_held = self.group.type is GroupType.STREAMS and not self.terms.for_move
            return Recipe.APPLICATION if is_held else None
        if self.group.assignor == STREAMS_PROTOCOL:
            return Recipe.STREAMS
        if self.group.assignor in EAGER | {COOPERATIVE} and self.group.paused:
            return Recipe.SHARED
        if self.group.assignor == COOPERATIVE:
            by_claims = self.claimed and self.terms.prefer is not CaptureMode.QUIET
            return Recipe.CLAIMS if by_claims else Recipe.COOPERATIVE
        return Recipe.EAGER if self.group.assignor in EAGER else None

    @cached_property
    def claimed(self) -> tuple[TopicPartition, ...]:
        """The partitions of a cooperative group that offsetbook members can take over; or none."""
        if self.group.type is not GroupType.CLASSIC or self.group.assignor != COOPERATIVE:
            return ()
        read = [member.subscription.topics for member in self.group.readers]
        topics = frozenset().union(*read)
        return partitions_to_claim(read, {t: len(self.index.partitions.get(t, ())) for t in topics})

    @property
    def heartbeat_s(self) -> float:
        default = 3.0 if self.group.type is GroupType.CLASSIC else 5.0
        return self.hold_facts.settings.heartbeat_s or default

    @cached_property
    def owners(self) -> Mapping[TopicPartition, Member]:
        return {p: member for member in self.group.readers for p in member.assignment}

    @cached_property
    def stopped(self) -> tuple[TopicPartition, ...]:
        """The other partitions that may be interrupted."""
        topics = {partition.topic for partition in self.partitions}
        match self.recipe:
            case Recipe.LOSSLESS:
                found = {p for p in self.owners if p.topic in topics}
            case Recipe.QUIET:
                found = {p for member in self.evicted for p in member.assignment}
            case Recipe.FAST:
                evicted = {p for member in self.evicted for p in member.assignment}
                found = evicted | {p for p in self.owners if p.topic in topics}
            case Recipe.EAGER | Recipe.STREAMS | Recipe.CLAIMS:
                found = set(self.owners)
            case Recipe.SHARED if self.group.assignor != COOPERATIVE:
                found = set(self.owners)
            case _:
                found = set()
        return tuple(sorted(found - set(self.partitions)))

    @cached_property
    def evicted(self) -> tuple[Member, ...]:
        """The members that may be evicted before they have committed."""
        match self.recipe:
            case Recipe.QUIET | Recipe.FAST:
                owners = {m.member_id: m for p, m in self.owners.items() if p in self.partitions}
                return tuple(owners[name] for name in sorted(owners))
            case Recipe.CLAIMS | Recipe.COOPERATIVE | Recipe.STREAMS | Recipe.APPLICATION:
                return self.group.readers  # the leader, which is unknown from outside; or all
            case Recipe.EAGER | Recipe.LOSSLESS:
                return self.slow
            case _:
                return ()

    @cached_property
    def slow(self) -> tuple[Member, ...]:
        """
        The members with lag that have not committed for longer than the capture waits for them.

        A member revokes in its next poll. While it processes one record it sends heartbeats, so the
        group is Stable, and nothing else shows it. A lossless capture waits for readers of its
        topics only, one of a classic group for all members.
        """
        topics = {partition.topic for partition in self.partitions}
        if self.recipe in {Recipe.EAGER, Recipe.CLAIMS, Recipe.SHARED}:
            topics = {partition.topic for partition in self.owners}
        waited = (m for m in self.group.readers if topics & {p.topic for p in m.assignment})
        ages = ((member, self.since_last_commit(member)) for member in waited)
        return tuple(
            member
            for member, age in ages
            if age is not None and age > WAITS_FOR and self._has_old_unread(member)
        )

    def _has_old_unread(self, member: Member) -> bool:
        """
        Whether a record may have been unread for as long as that.

        A member of a topic that rests commits nothing, and is not slow when a record has just come.
        """
        if (unread := self.hold_facts.unread) is None:
            return True
        waits_since = self.index.snapshot.taken_at - WAITS_FOR
        found = [unread[place] for place in member.assignment if place in unread]
        return any(first.found and (first.at is None or first.at < waits_since) for first in found)

    def since_last_commit(self, member: Member) -> timedelta | None:
        """
        Return how long ago a member with lag last committed; None without lag, or if unknown.

        A commit of a partition that it has read to the end shows as well that it polls.
        """
        committed = [p for p in member.assignment if p in self.commits]
        times = [self.commits[partition].committed_at for partition in committed]
        known = [at for at in times if at]
        if len(known) < len(times) or not any(map(self.lag, committed)):
            return None
        return self.index.snapshot.taken_at - max(known)

    @property
    def at_risk(self) -> tuple[TopicPartition, ...]:
        """The partitions of members that may be evicted."""
        return tuple(sorted({p for member in self.evicted for p in member.assignment}))

    @cached_property
    def regained(self) -> frozenset[TopicPartition]:
        """
        The partitions that members get again, and read from the committed offset.

        A move commits those that it holds. Kafka Streams reads its internal topics from the
        beginning.
        """
        taken = {*self.partitions, *self.stopped, *self.at_risk}
        if self.recipe in APPLICATIONS:
            taken = {p for p in taken if not is_internal_topic(p.topic, self.group.group_id)}
        return frozenset(taken - {*self.partitions} if self.terms.for_move else taken)

    @cached_property
    def uncommitted(self) -> tuple[TopicPartition, ...]:
        """The partitions that members get again without a committed offset."""
        return tuple(sorted(self.regained - self.commits.keys() - self.unread.keys()))

    @property
    def unread(self) -> Mapping[TopicPartition, Problem]:
        """Why the committed offset of a partition could not be read."""
        return self.index.unread_of(self.group.group_id)

    @property
    def commits(self) -> Mapping[TopicPartition, Commit]:
        return self.index.commits_of(self.group.group_id)

    def lag(self, partition: TopicPartition) -> int | None:
        commit = self.commits.get(partition)
        return lag_of(
            commit.offset if commit else None, self.index.snapshot.logs.get(partition, NO_LOG)
        )[0]

    def rate(self, partition: TopicPartition) -> float | None:
        """Return the larger of production and consumption rate in offsets/s; None if unknown."""
        earlier, now = self.hold_facts.earlier, self.index.snapshot
        if earlier is None:
            return None
        seconds = (now.taken_at - earlier.taken_at).total_seconds()
        old, new = earlier.logs.get(partition), now.logs.get(partition)
        if seconds <= 0 or not old or not new or old.log_end is None or new.log_end is None:
            return None
        written, read = new.log_end - old.log_end, 0
        if (commit := self.commits.get(partition)) and partition in self._earlier_commits:
            read = commit.offset - self._earlier_commits[partition].offset
        return max(0, written, read) / seconds

    @cached_property
    def _earlier_commits(self) -> Mapping[TopicPartition, Commit]:
        earlier = self.hold_facts.earlier
        return earlier.commits_of(self.group.group_id) if earlier else {}
