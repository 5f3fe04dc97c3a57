"""What a deletion of groups reads, and what it shows of that."""

from __future__ import annotations

from applications import Applications
from operators import Operator

from toolkit.model import TopicPartition


def test_with_an_age_only_the_named_groups_are_shown(
    operator: Operator, apps: Applications
) -> None:
    """The whole cluster is read for the age, but nobody asked for the other groups."""
    topic = apps.create_topic(apps.name("orders"), records=3)
    group, other = apps.name("idle"), apps.name("other")
    for name in (group, other):
        apps.commit(name, {TopicPartition(topic, 0): 1})

    change = operator.session.delete_groups([group], empty_for="1d")

    assert [group] == [found.group_id for found in change.facts.groups]
    assert {group, other} <= {commit.group_id for commit in change.facts.commits}
