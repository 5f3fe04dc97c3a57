"""
Decide which partitions of a cooperative group offsetbook can own for a moment.

A cooperative leader lets each member keep what it says it owns, up to an equal share. So if there
is a member of ours for each partition, which says that it owns that one, none is left for others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from toolkit.model import TopicPartition

MOST_PARTITIONS = 200  # a member and a connection each, for some seconds


def partitions_to_claim(
    subscriptions: Collection[frozenset[str]], counts: Mapping[str, int]
) -> tuple[TopicPartition, ...]:
    """
    Return all partitions of a group's topics, sorted, if members of ours can own one each.

    `subscriptions` are the topics of each member, `counts` the partitions of each topic. Return ()
    if members subscribe to different topics, as then the leader shares out by other rules, or if
    there are too many partitions.
    """
    places = tuple(
        TopicPartition(topic, number)
        for topic, count in sorted(counts.items())
        for number in range(count)
    )
    is_one = len(set(subscriptions)) == 1 and counts.keys() == next(iter(subscriptions))
    return places if is_one and len(places) <= MOST_PARTITIONS else ()
