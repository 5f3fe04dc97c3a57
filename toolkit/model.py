"""
The facts about a cluster, as frozen records.

Kafka's -1, -2 and "" for "nothing" become `None` or an enum member before they get here, and times
are aware UTC datetimes. Every name (group, topic, client id, metadata) came from a cluster and is
hostile until escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class GroupType(StrEnum):
    """What kind of group it is, which decides how it may be changed and when its offsets expire."""

    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    STREAMS = "streams"  # KIP-1071
    SHARE = "share"  # KIP-932
    SIMPLE = "simple"  # committed offsets and no protocol: assign() or an admin client
    UNKNOWN = "unknown"


class GroupState(StrEnum):
    """The state a group coordinator reports."""

    EMPTY = "Empty"
    STABLE = "Stable"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"
    DEAD = "Dead"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Subscription:
    """
    What a member wants to read, which is not what it has been assigned.

    `topics` holds the names the member sent and those its pattern matches. Where the subscription
    could not be read, `unreadable` says why and `topics` is not to be relied on.
    """

    topics: frozenset[str] = frozenset()
    pattern: str | None = None  # KIP-848: resolved by the broker with RE2 rules
    unreadable: str = ""


# What is said of a classic member whose bytes its coordinator cannot understand either.
UNPARSED = "the member's subscription could not be parsed"
HOLDER = "offsetbook-hold"  # the client id of members of ours that hold partitions back


class Prefer(StrEnum):
    """What matters most while partitions of a KIP-848 group are captured."""

    LOSSLESS = "lossless"  # no record twice; all partitions of a topic stop for a while
    QUIET = "quiet"  # only the partitions of the owner stop; it repeats what it has not committed
    FAST = "fast"  # captured within a second; the owner repeats what it has not committed


@dataclass(frozen=True, slots=True)
class HoldNote:
    """What a hold says about itself at the broker, to whoever describes the group."""

    who: str = ""
    host: str = ""
    since: datetime | None = None
    until: datetime | None = None
    reason: str = ""
    survives_s: float | None = None  # how long it lasts when the process behind it is gone


@dataclass(frozen=True, slots=True)
class Member:
    """One live member of a group; `holds` is what it keeps from all the others, where it does."""

    member_id: str
    client_id: str
    host: str
    subscription: Subscription
    assignment: tuple[TopicPartition, ...] = ()
    instance_id: str | None = None  # set: a static member
    rack_id: str | None = None
    epoch: int | None = None  # KIP-848 member epoch
    holds: tuple[TopicPartition, ...] = ()
    hold_note: HoldNote | None = None

    @property
    def is_holder(self) -> bool:
        """Whether it is one of ours, which holds partitions back and reads nothing."""
        return self.client_id == HOLDER

    @property
    def in_words(self) -> str:
        """The member as its people know it: its client id and host."""
        return f"{self.client_id} @ {self.host}"


@dataclass(frozen=True, slots=True)
class Group:
    """One group of any type, as its coordinator described it."""

    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str | None = None  # "consumer", "connect", ...; None: simple
    assignor: str | None = None
    coordinator_id: int | None = None
    epoch: int | None = None  # group epoch of KIP-848, streams and share groups
    members: tuple[Member, ...] = ()
    described: bool = True  # False: the state is from the listing, members are not known
    empty_since: datetime | None = None  # only the offsets topic tells; None where not read

    @property
    def is_live(self) -> bool:
        """Whether the coordinator takes it for more than a store of offsets: not Empty or Dead."""
        return self.state not in {GroupState.EMPTY, GroupState.DEAD}

    @property
    def paused(self) -> Mapping[TopicPartition, Member]:
        """The partitions that are held back from its members, each with its holder."""
        return {partition: member for member in self.members for partition in member.holds}

    @property
    def readers(self) -> tuple[Member, ...]:
        """Its members without those that hold partitions back."""
        return tuple(member for member in self.members if not member.is_holder)

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """All topics that any member subscribes to, as far as they are readable."""
        return frozenset().union(*(m.subscription.topics for m in self.members))

    @property
    def unreadable_subscription(self) -> str:
        """Why the subscription is not fully known; "" when it is."""
        if not self.described:
            return "the group could not be described"
        if self.is_live and not self.members:
            return "no member is known yet: the group is forming"
        return next(
            (m.subscription.unreadable for m in self.members if m.subscription.unreadable), ""
        )


def select_groups(groups: Iterable[Group], wanted: Sequence[str]) -> tuple[list[Group], list[str]]:
    """
    Return the groups that have or match one of the wanted names, and the names that none has.

    Each is a name and a shell pattern at once, so that a group that somebody calls `*` does not
    stand in the way of all others; `[*]` matches just that name. None means all.
    """
    by_name = {group.group_id: group for group in groups}
    if not wanted:
        return list(by_name.values()), []
    chosen: dict[str, Group] = {}
    missing = []
    for name in wanted:
        names = {name} & by_name.keys()
        if any(sign in name for sign in "*?["):
            names |= {group_id for group_id in by_name if fnmatchcase(group_id, name)}
        chosen.update((match, by_name[match]) for match in sorted(names))
        missing += [] if names else [name]
    return list(chosen.values()), missing


@dataclass(frozen=True, slots=True)
class Commit:
    """One committed offset: the next record that the group would read."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None = None
    metadata: str = ""
    committed_at: datetime | None = None  # only the offsets topic tells, not the Admin protocol
    pending: bool = False  # an open transaction is about to change it


class EpochEnd(NamedTuple):
    """Where the records that one leader epoch wrote end in a log."""

    leader_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """Where one partition's log begins and ends; `None` where the broker could not say."""

    log_start: int | None
    log_end: int | None
    last_stable: int | None = None  # below log_end while a transaction is open
    epochs: tuple[EpochEnd, ...] = ()  # the newest ones, oldest first; () where not asked for

    def holds(self, offset: int) -> bool:
        """Whether there is a record at an offset, or one was there that compaction removed."""
        start, end = self.log_start, self.log_end
        return start is not None and end is not None and start <= offset < end


class TimedOffset(NamedTuple):
    """The first record at or after an instant."""

    offset: int
    timestamp: datetime


UNREAD_OFFSETS_TOPIC = "commit times"  # what a problem is about when that topic was not read
HELD_PARTITIONS = "held partitions"  # what a problem is about when a hold is hidden
NO_SUCH_GROUP = "group"  # what a problem is about when a group was named that does not exist


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that could not be read: what, and why. It takes the place of the missing rows."""

    what: str
    why: str
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    The facts about one cluster at about one instant.

    Commits are read before log ends, so a lag made from them may be a little too high on a busy
    partition but is never negative because of the reading order.
    """

    cluster: str  # its name in the fleet file
    cluster_id: str
    taken_at: datetime
    groups: tuple[Group, ...]
    commits: tuple[Commit, ...]
    logs: Mapping[TopicPartition, LogOffsets]
    problems: tuple[Problem, ...] = ()
    # Where logs stood at an instant, where that was asked for: None for a partition in which no
    # record is as young as that.
    at: datetime | None = None
    at_time: Mapping[TopicPartition, TimedOffset | None] = field(default_factory=dict)
    # By the name of a topic, what tells it from an earlier one of that name; only plans need it.
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def why_unlisted(self) -> str:
        """Why a group that is not in it may exist all the same; "" where all could be listed."""
        return next(
            (
                f"{problem.what}: {problem.why}"
                for problem in self.problems
                if problem.group_id is None and problem.what.startswith("groups")
            ),
            "",
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be changed on a cluster, and how much at once without an override."""

    read_only: bool = False
    protected_groups: tuple[str, ...] = ()  # names and shell patterns
    max_groups: int = 100
    max_partitions: int = 10_000
    max_records_skipped: int = 1_000_000
    max_records_repeated: int = 10_000_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """One entry of the fleet file: a name, how to connect, and what may be changed."""

    name: str
    bootstrap_servers: str
    settings: Mapping[str, str] = field(
        default_factory=dict
    )  # secrets are references, never values
    policy: Policy = Policy()
