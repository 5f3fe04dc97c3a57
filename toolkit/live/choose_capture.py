"""Choose how to become the leader of a classic group with the least disturbance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from toolkit.errors import NotCaptured
from toolkit.kafka_io.groups.subscriptions import assignment_from_bytes
from toolkit.kafka_io.membership.classic import (
    ClassicFacts,
    DescribedClassicMember,
    JoinResult,
)
from toolkit.kafka_io.membership.protocol_bytes import protocol_named, read_subscription
from toolkit.kafka_io.membership.topics_and_commits import FetchTopics
from toolkit.live.classic_capture import (
    AssignedAgain,
    check_capturable,
    lead_eager,
)
from toolkit.live.classic_member import OwnIds, SentinelMember
from toolkit.live.cooperative_captures import NotClaimed, lead_after_commit, lead_by_claims
from toolkit.live.recipe_steps import RecipeChannel
from toolkit.live.rival_captures import look_for_others
from toolkit.model import TopicPartition
from toolkit.planning.holds.assignment import Shares
from toolkit.planning.holds.recipes import partitions_to_claim


class Captured(NamedTuple):
    """A group that `member` leads now: as it was before, and the partition counts of its topics."""

    member: SentinelMember
    joined: JoinResult
    group: ClassicFacts
    counts: Mapping[str, int]


def capture_lead(own: OwnIds, survives_s: float, *, quietly: bool = False) -> Captured:
    """
    Become the leader of a group.

    `quietly`: the members of a cooperative group keep reading meanwhile, and its leader reads some
    records again. Raises NotCaptured, and Blocked for an unknown protocol.
    """
    group, counts = _look(own.channel)
    protocol = protocol_named(group.protocol)
    places: Sequence[TopicPartition] = ()
    if protocol.cooperative and not quietly:
        places = partitions_to_claim(list(map(_topics, group.members)), counts)
    if places:
        own.channel.connect(1 + len(places))
        group, counts = _look(own.channel)  # that took a while
    member = SentinelMember(protocol, round(survives_s * 1000), topics=frozenset(counts))
    try:
        if not protocol.cooperative:
            joined = lead_eager(own, member, len(group.members))
        elif places:
            joined = lead_by_claims(own, member, places)
        else:
            joined = lead_after_commit(own, member, shares_of(group))
    except (NotClaimed, AssignedAgain):
        if not places:
            raise
        own.leave(own.ids)
        return capture_lead(own, survives_s, quietly=True)
    return Captured(member, joined, group, counts)


def _look(channel: RecipeChannel) -> tuple[ClassicFacts, dict[str, int]]:
    """Return a group that can be captured, and the partition counts of its topics."""
    group = look_for_others(channel)
    check_capturable(group)
    # Before any member is disturbed: partitions that we cannot see cannot be assigned.
    return group, count_partitions(channel, topics_of(group), {})


def topics_of(group: ClassicFacts) -> frozenset[str]:
    """Return the topics that the members of a group subscribe to."""
    return frozenset().union(*map(_topics, group.members))


def shares_of(group: ClassicFacts) -> Shares:
    """Return the assignment of each member of a Stable group."""
    return {
        one.member_id: frozenset(assignment_from_bytes(one.assignment)) for one in group.members
    }


def count_partitions(
    channel: RecipeChannel, topics: Iterable[str], known: Mapping[str, int]
) -> dict[str, int]:
    """
    Return the partition counts of topics; a topic that cannot be read keeps its known count.

    Raises NotCaptured for a topic whose count is not known.
    """
    names = tuple(sorted(topics))
    found = channel.ask(FetchTopics(names))
    counts = {name: topic.partitions for name, topic in found.topics.items()}
    for name, why in found.unread.items():
        if name not in known:
            raise NotCaptured(f"topic {name} cannot be read: {why}; its partitions would stop")
        counts[name] = known[name]
    # A deleted topic keeps its count as well: its readers notice that by themselves.
    return {name: counts.get(name, known.get(name, 0)) for name in names}


def _topics(member: DescribedClassicMember) -> frozenset[str]:
    subscribed = read_subscription(member.subscription)
    return subscribed.topics if subscribed else frozenset()
