"""
Read a KIP-848 group before a capture, and refuse groups that cannot be captured.

No member joins here: a refusal leaves the group as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from toolkit.errors import NotCaptured
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.groups.describe_groups import consumer_holder
from toolkit.kafka_io.groups.hold_notes import read_note
from toolkit.kafka_io.membership.consumer import (
    ConsumerFacts,
    DescribeConsumer,
    DescribedConsumerMember,
    IdPartition,
)
from toolkit.kafka_io.membership.topics_and_commits import FetchTopics, Topic
from toolkit.live.recipe_steps import AGAIN, RecipeChannel
from toolkit.live.rival_captures import (
    BEING_CAPTURED,
    AnotherAnnounced,
    AnotherCapture,
    AnotherHold,
)
from toolkit.model import HOLDER_CLIENT_ID, GroupState, Member, TopicPartition
from toolkit.planning.selection.member_names import in_short

SETTLE_S = 20.0  # a change takes two heartbeats, by default 10 s
LOOK_EVERY_S = 0.25
LAST_ID = "\x7f"  # after all member ids of offsetbook


@dataclass(frozen=True, slots=True)
class GroupView:
    """The group, at a time when the assignment of all members matched their targets."""

    assignor: str
    members: tuple[DescribedConsumerMember, ...]
    topics: Mapping[str, Topic]  # those of the requested partitions

    @property
    def readers(self) -> list[DescribedConsumerMember]:
        """The members of the application, without sentinels."""
        return [member for member in self.members if member.client_id != HOLDER_CLIENT_ID]

    @property
    def is_static(self) -> bool:
        """Whether a member has an instance id."""
        return any(member.instance_id for member in self.members)

    @property
    def read_topics(self) -> frozenset[str]:
        """Topics subscribed to by name, and those of patterns that have assigned partitions."""
        return frozenset().union(*(_topics_of(member) for member in self.readers))

    def owners(self, partitions: frozenset[TopicPartition]) -> list[DescribedConsumerMember]:
        """Return the members that read any of some partitions."""
        return [member for member in self.readers if member.assigned & partitions]

    def by_id(self, place: TopicPartition) -> IdPartition:
        """Return a requested partition as the protocol writes it."""
        return IdPartition(self.topics[place.topic].topic_id, place.partition)


def observe(
    channel: RecipeChannel, partitions: frozenset[TopicPartition], own_ids: frozenset[str]
) -> GroupView:
    """
    Return the group once it is settled; raises NotCaptured if it cannot or must not be captured.

    `own_ids` are the member ids of the running hold.
    """
    facts = _settled_facts(channel, partitions, own_ids)
    names = tuple(sorted({place.topic for place in partitions}))
    topics = channel.ask(FetchTopics(names)).topics
    missing = [
        place
        for place in partitions
        if place.topic not in topics or not 0 <= place.partition < topics[place.topic].partitions
    ]
    if missing:
        raise NotCaptured(f"there is no partition {in_short(missing)}")
    view = GroupView(facts.assignor, facts.members, topics)
    unread = [name for name in names if name not in view.read_topics]
    if unread:
        raise NotCaptured(f"no member of the group subscribes to topic {', '.join(unread)}")
    return view


def _settled_facts(
    channel: RecipeChannel, partitions: frozenset[TopicPartition], own_ids: frozenset[str]
) -> ConsumerFacts:
    give_up_at = channel.now() + SETTLE_S
    while True:
        facts = channel.ask(DescribeConsumer())
        _refuse(facts, partitions, own_ids)
        changing = unsettled_reason(facts, own_ids)
        if not changing:
            return facts
        if channel.sleep(LOOK_EVERY_S) >= give_up_at:
            raise NotCaptured(
                f"the group does not become Stable: {changing}",
                hint="run the command again when it is Stable",
            )


def _refuse(
    facts: ConsumerFacts, partitions: frozenset[TopicPartition], own_ids: frozenset[str]
) -> None:
    if facts.error == ErrorCode.GROUP_ID_NOT_FOUND:
        raise NotCaptured("there is no KIP-848 group with this name")
    if facts.error:
        raise NotCaptured(f"the group cannot be described: {facts.why}")
    if all(member.client_id == HOLDER_CLIENT_ID for member in facts.members):
        raise NotCaptured("the group has no consuming member")
    refuse_what_is_held(facts, partitions, own_ids)
    refuse_what_is_announced(facts, partitions, own_ids)


def refuse_what_is_held(
    facts: ConsumerFacts, partitions: frozenset[TopicPartition], own_ids: Collection[str]
) -> None:
    """Raise AnotherHold if other sentinels hold partitions; those still capturing do not count."""
    others = (one for one in facts.members if one.member_id not in own_ids and not one.topics)
    if taken := [consumer_holder(one) for one in others if one.holds & partitions]:
        raise AnotherHold(taken)


def refuse_what_is_announced(
    facts: ConsumerFacts,
    partitions: frozenset[TopicPartition],
    own_ids: Collection[str],
    *,
    below: str = LAST_ID,
) -> None:
    """Raise AnotherAnnounced if other sentinels with ids before `below` announce partitions."""
    announced = _announced(facts, own_ids, below)
    if taken := [one for one in announced if partitions.intersection(one.holds)]:
        raise AnotherAnnounced(taken)


def give_way(facts: ConsumerFacts, own_ids: Collection[str], *, below: str = LAST_ID) -> None:
    """Raise AnotherCapture if another capture goes on; it says who captures what, if shown."""
    if is_being_captured(facts, own_ids, below=below):
        known = [one for one in _announced(facts, own_ids, LAST_ID) if one.holds]
        words = AnotherAnnounced(known).problem if known else BEING_CAPTURED
        raise AnotherCapture(words, hint=AGAIN)


def _announced(facts: ConsumerFacts, own_ids: Collection[str], below: str) -> list[Member]:
    return [
        replace(consumer_holder(one), holds=read_note(one.rack_id).paused)
        for one in facts.members
        if one.client_id == HOLDER_CLIENT_ID
        and one.member_id not in own_ids
        and one.member_id < below
    ]


def unsettled_reason(facts: ConsumerFacts, own_ids: frozenset[str]) -> str:
    """Explain why assignment and target assignment differ; "" if they match."""
    if facts.state == GroupState.STABLE:
        return ""
    if is_being_captured(facts, own_ids):
        return "another hold is being captured"
    if facts.state != GroupState.RECONCILING:
        return f"its state is {facts.state}"
    # While partitions are held a group is never Stable: members wait for them.
    held = frozenset[TopicPartition]().union(*(one.holds for one in facts.members))
    waiting = [
        member
        for member in facts.members
        if member.client_id != HOLDER_CLIENT_ID and member.assigned != member.target - held
    ]
    if not waiting:
        return ""
    return f"member {waiting[0].client_id} @ {waiting[0].host} is changing its partitions"


def is_being_captured(
    facts: ConsumerFacts, own_ids: Collection[str], *, below: str = LAST_ID
) -> bool:
    """Whether sentinels of another hold, with ids before `below`, still subscribe to topics."""
    return any(
        member.client_id == HOLDER_CLIENT_ID
        and member.member_id not in own_ids
        and member.member_id < below
        and member.topics
        for member in facts.members
    )


def late_members(facts: ConsumerFacts) -> dict[str, frozenset[TopicPartition]]:
    """
    Return, by member id, partitions that a member has not revoked though others are to own them.

    Such members are busy with polled records, or have not noticed the change yet. The coordinator
    and the new owners wait for them, up to their rebalance timeout, 5 min by default.
    """
    readers = [member for member in facts.members if member.client_id != HOLDER_CLIENT_ID]
    meant = Counter(place for member in facts.members for place in member.target)
    owed = {one.member_id: one.assigned - one.target for one in readers}
    late = {name: frozenset(p for p in places if meant[p]) for name, places in owed.items()}
    return {name: places for name, places in late.items() if places}


def _topics_of(member: DescribedConsumerMember) -> frozenset[str]:
    return member.topics | {place.topic for place in member.assigned | member.target}
