"""Groups of every type and their members."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from toolkit.model.names import EVERY_NAME, is_pattern, named
from toolkit.model.offsets import TopicPartition


class GroupType(StrEnum):
    """Group type, which decides how a group may be changed and when its offsets expire."""

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


CLASSIC_REBALANCES = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
# KIP-848 groups are also Reconciling while partitions are paused.
REBALANCES = (*CLASSIC_REBALANCES, GroupState.ASSIGNING, GroupState.RECONCILING)


@dataclass(frozen=True, slots=True)
class Subscription:
    """
    The subscription of a member, as opposed to its assignment.

    `topics` holds the names the member sent and those its pattern matches. If the subscription
    could not be read, `unreadable` has the reason and `topics` is not reliable.
    """

    topics: frozenset[str] = frozenset()
    pattern: str | None = None  # KIP-848: resolved by the broker with RE2 rules
    unreadable: str = ""


# Reason for a classic member whose subscription bytes the coordinator cannot parse either.
UNPARSED = "the member's subscription could not be parsed"
STREAMS_PROTOCOL = "stream"  # of Kafka Streams in a classic group
SESSION_TIMEOUT_S = 45.0  # of Kafka's clients and KIP-848 groups by default, and of our members
HOLDER_CLIENT_ID = "offsetbook-hold"  # client id of offsetbook members that hold partitions


class CaptureMode(StrEnum):
    """Capture mode: for KIP-848 groups, and `lossless` or `quiet` for cooperative classic ones."""

    LOSSLESS = "lossless"  # no redelivery; all partitions of a topic stop briefly
    QUIET = "quiet"  # only the owner's partitions stop; its uncommitted records are redelivered
    FAST = "fast"  # captured within a second; the owner's uncommitted records are redelivered


@dataclass(frozen=True, slots=True)
class HoldNote:
    """The note of a hold, stored at the broker and shown by group descriptions."""

    who: str = ""
    host: str = ""
    since: datetime | None = None
    until: datetime | None = None
    reason: str = ""
    survives_s: float | None = None  # how long it lasts without its keeper
    run_id: str = ""  # of the change that began the hold
    own_delay: str = ""  # in ms, what a Streams application had set before; "" if nothing

    def is_of_same_hold(self, other: HoldNote) -> bool:
        """Whether both are of one hold; two may begin in one millisecond, so the run decides."""
        return self._made == other._made

    @property
    def _made(self) -> tuple[str, str, str, str]:
        since = self.since.isoformat(timespec="milliseconds") if self.since else ""
        return self.who, self.host, since, self.run_id


@dataclass(frozen=True, slots=True)
class Member:
    """One active member of a group; `holds` are the partitions it holds, if it is a sentinel."""

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
        """Whether it is an offsetbook member, which holds partitions and consumes nothing."""
        return self.client_id == HOLDER_CLIENT_ID

    @property
    def display_name(self) -> str:
        return f"{self.client_id} @ {self.host}"


@dataclass(frozen=True, slots=True)
class Group:
    """One group of any type, as described by its coordinator."""

    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str | None = None  # "consumer", "connect", ...; None: simple
    assignor: str | None = None
    coordinator_id: int | None = None
    epoch: int | None = None  # group epoch of KIP-848, streams and share groups
    members: tuple[Member, ...] = ()
    described: bool = True  # False: the state is from the listing, members are unknown
    empty_since: datetime | None = None  # only from __consumer_offsets; None if not read

    @property
    def is_of_consumers(self) -> bool:
        """Whether `kafka-consumer-groups` lists it: no Streams, share or Connect group."""
        is_plain = self.type in {GroupType.CLASSIC, GroupType.SIMPLE, GroupType.CONSUMER}
        return is_plain and self.protocol_type in {None, "consumer"}

    @property
    def is_live(self) -> bool:
        """Whether the group is live: its state is neither Empty nor Dead."""
        return self.state not in {GroupState.EMPTY, GroupState.DEAD}

    @property
    def paused(self) -> Mapping[TopicPartition, Member]:
        """The paused partitions, each with its holder."""
        return {partition: member for member in self.members for partition in member.holds}

    @property
    def readers(self) -> tuple[Member, ...]:
        """The members without those that hold partitions."""
        return tuple(member for member in self.members if not member.is_holder)

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """All topics that a member subscribes to, as far as known."""
        return frozenset().union(*(m.subscription.topics for m in self.members))

    @property
    def unreadable_subscription(self) -> str:
        """Why the subscription is not fully known; "" if it is."""
        if not self.described:
            return "the group could not be described"
        if self.is_live and not self.members:
            return "no members known yet: the group is forming"
        return next(
            (m.subscription.unreadable for m in self.members if m.subscription.unreadable), ""
        )


def select_groups(groups: Iterable[Group], names: Sequence[str]) -> tuple[list[Group], list[str]]:
    """
    Return the groups that are meant by the names, and the names that mean none.

    See `names_meant`; no names means all groups.
    """
    by_name = {group.group_id: group for group in groups}
    if not names:
        return list(by_name.values()), []
    chosen, missing = all_meant(names, by_name)
    return [by_name[name] for name in chosen], missing


def all_meant(names: Iterable[str], known: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the known names that are meant by some names, and the names that mean none."""
    meant = [(name, names_meant(name, known)) for name in names]
    chosen = dict.fromkeys(match for _, matches in meant for match in matches)
    return [*chosen], [name for name, matches in meant if not matches]


def names_meant(name: str, known: Collection[str]) -> list[str]:
    """
    Return which of the known names of groups a name means, in order.

    A name that a group has means that group alone, also where it is written in double quotes, as
    `""` for the empty name; any other is a shell pattern, in which `[*]` matches only a `*`. An
    `ExactName` is no pattern, and `EVERY_NAME` is no name.
    """
    if (exact := exact_name(name, known)) is not None:
        return [exact]
    return sorted(one for one in known if fnmatchcase(one, name)) if is_pattern(name) else []


def exact_name(name: str, known: Collection[str]) -> str | None:
    """Return the known name that is written; None where a name is a pattern, or no group has it."""
    names = (name, named(name)) if name is not EVERY_NAME else ()
    return next((exact for exact in names if exact in known), None)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A series of consecutive readings with the same finding."""

    since: datetime  # time of the first reading
    seen: int  # number of readings
    last: datetime
