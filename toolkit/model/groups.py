"""Groups of every type and their members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from toolkit.model.offsets import TopicPartition


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
            return "no members known yet: the group is forming"
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
