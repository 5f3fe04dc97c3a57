"""
The seeded fleet as data: its topics, and one consumer group for every problem.

`applications` creates it, `readiness` checks whether a broker shows it, and `sandbox status` and
the documentation list it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.model import GroupState, GroupType, TopicPartition


class Behaviour(StrEnum):
    """What the application behind a group does while the sandbox is up."""

    READS = "reads and commits"
    READS_AS_HTML = "reads and commits under a client id and with metadata that are HTML"
    READS_SLOWLY = "reads more slowly than records arrive"
    READS_COMMITTED = "reads committed transactions only"
    RETRIES = "tries an undecodable record again and again, and reads its other partitions"
    ASSIGNS = "assigns itself partitions, without a subscription"
    CONNECTS = "is a member of protocol type connect"
    SHARES = "is a share consumer"
    STREAMS = "is a streams instance"
    LEFT = "committed and left"
    LEFT_BEHIND = "committed and left, and then the log was cut"


@dataclass(frozen=True, slots=True)
class SeededTopic:
    """A topic with records of the last two days, to which more are added all the time."""

    name: str
    partitions: int = 2
    per_second: int = 2  # new records, over all partitions


@dataclass(frozen=True, slots=True)
class SeededGroup:
    """One group: its problem, and what causes it."""

    group_id: str
    problem: str  # a few words, to find it by
    story: str  # how an operator would describe it
    behaviour: Behaviour = Behaviour.READS
    reads: tuple[str, ...] = ()  # topics that it subscribes to, or assigns itself
    left: tuple[str, ...] = ()  # topics that it read before and has offsets of
    pattern: str = ""  # subscribes by this instead of by name
    type: GroupType = GroupType.CLASSIC
    since: tuple[int, int] = (3, 9)  # the oldest Apache Kafka that has this type by default

    @property
    def state(self) -> GroupState:
        """The state in which its coordinator sees it once everything runs."""
        memberless = {Behaviour.ASSIGNS, Behaviour.LEFT, Behaviour.LEFT_BEHIND}
        return GroupState.EMPTY if self.behaviour in memberless else GroupState.STABLE

    @property
    def committed_topics(self) -> tuple[str, ...]:
        """The topics that it has committed offsets of; share groups commit none."""
        return () if self.type is GroupType.SHARE else (*self.reads, *self.left)


BACKLOG = 200  # records in each partition before the applications start
HISTORY_HOURS = 48  # over which their timestamps are spread
LEFT_AT = 50  # where the offsets of groups that left point
CUT_AT = 120  # where the cut log starts
POISON = TopicPartition("payments.authorized", 2)
POISON_OFFSET = 150
OPEN_TRANSACTION = TopicPartition("payments.settled", 0)

TOPICS = (
    SeededTopic("orders.created", partitions=4, per_second=8),
    SeededTopic("orders.confirmed", per_second=4),
    SeededTopic("payments.authorized", partitions=4, per_second=4),
    SeededTopic("payments.settled"),
    SeededTopic("invoices.issued"),
    SeededTopic("invoices.draft"),
    SeededTopic("ledger.entries"),
    SeededTopic("page.views", per_second=6),
    SeededTopic("warehouse.picks"),
    SeededTopic("audit.events", per_second=1),
)

GROUPS = (
    SeededGroup(
        "payments",
        "nothing",
        "healthy, live, classic protocol",
        reads=("orders.created", "orders.confirmed"),
    ),
    SeededGroup(
        "search-indexer",
        "nothing",
        "healthy, live, KIP-848 protocol (classic before Kafka 4.0), subscribed by pattern",
        reads=("orders.created", "orders.confirmed"),
        pattern=r"^orders\..*",
        type=GroupType.CONSUMER,
    ),
    SeededGroup(
        "billing",
        "unsubscribed offsets",
        "live, no longer subscribes to invoices.draft; lag there grows until the offsets expire",
        reads=("invoices.issued",),
        left=("invoices.draft",),
    ),
    SeededGroup(
        "billing-v2",
        "unsubscribed offsets of a topic that is still in use",
        "live, has unsubscribed offsets of orders.confirmed, which payments still needs",
        reads=("invoices.issued",),
        left=("orders.confirmed",),
    ),
    SeededGroup(
        "fraud-check",
        "poison record",
        f"live, partition {POISON.partition} of {POISON.topic} is stuck at offset {POISON_OFFSET}, "
        "the others are consumed",
        behaviour=Behaviour.RETRIES,
        reads=(POISON.topic,),
    ),
    SeededGroup(
        "reports",
        "too slow",
        "live, consumes more slowly than records arrive; its lag grows",
        behaviour=Behaviour.READS_SLOWLY,
        reads=("page.views",),
    ),
    SeededGroup(
        "nightly-export",
        "empty",
        "all members have left; its offsets will expire",
        behaviour=Behaviour.LEFT,
        left=("orders.created",),
    ),
    SeededGroup(
        "archiver",
        "offsets before the log start",
        "empty; its committed offset is before the log start offset (records deleted)",
        behaviour=Behaviour.LEFT_BEHIND,
        left=("audit.events",),
    ),
    SeededGroup(
        "ledger-reader",
        "no subscription",
        "uses assign(): commits continuously, but the coordinator sees no members",
        behaviour=Behaviour.ASSIGNS,
        reads=("ledger.entries",),
    ),
    SeededGroup(
        "settlement",
        "open transaction",
        f"live, read_committed; an open transaction blocks it on partition "
        f"{OPEN_TRANSACTION.partition} of {OPEN_TRANSACTION.topic}",
        behaviour=Behaviour.READS_COMMITTED,
        reads=(OPEN_TRANSACTION.topic,),
    ),
    SeededGroup(
        "connect-warehouse",
        "not a consumer group",
        "live, protocol type connect: its members' subscriptions cannot be read",
        behaviour=Behaviour.CONNECTS,
        reads=("warehouse.picks",),
    ),
    SeededGroup(
        "share-pickers",
        "share group",
        "live, KIP-932: has no committed offsets at all (Kafka 4.2 and newer)",
        behaviour=Behaviour.SHARES,
        reads=("warehouse.picks",),
        type=GroupType.SHARE,
        since=(4, 2),
    ),
    SeededGroup(
        "order-totals",
        "streams group",
        "live, KIP-1071: assigns tasks, not partitions (Kafka 4.2 and newer)",
        behaviour=Behaviour.STREAMS,
        reads=("orders.created",),
        type=GroupType.STREAMS,
        since=(4, 2),
    ),
    SeededGroup(
        "<img src=x onerror=alert(1)>",
        "hostile name",
        "live and healthy; its name, client id and commit metadata are HTML",
        behaviour=Behaviour.READS_AS_HTML,
        reads=("ledger.entries",),
    ),
    SeededGroup(
        "café reports 東京",
        "awkward name",
        "live and healthy; its name has spaces and is not ASCII",
        reads=("page.views",),
    ),
)


def seeded_groups(version: str) -> tuple[SeededGroup, ...]:
    """Return the groups that Apache Kafka `version` has by default."""
    release = tuple(int(part) for part in version.split(".")[:2])
    return tuple(group for group in GROUPS if release >= group.since)
