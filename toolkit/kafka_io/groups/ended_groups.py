"""Groups that ended between their listing and their description."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.describe_groups import describe_groups
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.logs.log_offsets import existing_topics
from toolkit.model import Commit, Group, GroupState
from toolkit.model.commit_columns import CommitColumns


def without_ended(
    connection: Connection, described: Sequence[Group]
) -> tuple[list[Group], frozenset[str]]:
    """
    Return the groups without those that ended since they were listed, and the names of these.

    A group that is of another type by now is not known as what it was, and is described again.
    """
    ended = {group.group_id for group in described if group.state is GroupState.DEAD}
    if not ended:
        return [*described], frozenset()
    listed, _ = list_groups(connection)
    there = [group for group in listed if group.group_id in ended]
    again = [
        found
        for found in describe_groups(connection, there, topics=lambda: existing_topics(connection))
        if isinstance(found, Group) and found.state is not GroupState.DEAD
    ]
    kept = [group for group in described if group.group_id not in ended]
    return [*kept, *again], frozenset(ended - {group.group_id for group in again})


def commits_without(commits: Sequence[Commit], groups: Collection[str]) -> CommitColumns:
    """Return commits without those of some groups."""
    return CommitColumns(commit for commit in commits if commit.group_id not in groups)
