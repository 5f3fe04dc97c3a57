"""Index a snapshot by group, topic and partition; make steps from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from toolkit.model import (
    Commit,
    Group,
    GroupState,
    GroupType,
    Problem,
    Snapshot,
    TopicPartition,
    Unread,
)
from toolkit.model.garbage_collection import no_garbage_collection
from toolkit.model.snapshot import MISSING_LOG
from toolkit.plan import Action, Change, Finding, Position, Step
from toolkit.planning.selection.findings import block, unread


class SnapshotIndex:
    """
    One snapshot, looked up by group, by topic and by partition.

    `groups`: those that exist; a Dead one is gone. `partitions`: the known partition numbers of
    each topic, including unreadable ones. `about_log`: problems of logs; a key has no partition if
    the problem concerns the topic.
    """

    @no_garbage_collection()
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.groups: Mapping[str, Group] = {
            g.group_id: g for g in snapshot.groups if g.state is not GroupState.DEAD
        }
        commits: dict[str, dict[TopicPartition, Commit]] = defaultdict(dict)
        # One object for all groups.
        places: dict[tuple[str, int], TopicPartition] = {place: place for place in snapshot.logs}
        for commit in snapshot.commits:
            key = commit.topic, commit.partition
            place = places.get(key) or TopicPartition(*key)
            commits[commit.group_id][place] = commit
        partitions: dict[str, set[int]] = defaultdict(set)
        for partition in snapshot.logs:
            partitions[partition.topic].add(partition.partition)
        about_commit: dict[str, dict[TopicPartition, Problem]] = defaultdict(dict)
        about_group: dict[str, list[Problem]] = defaultdict(list)
        about_log: dict[tuple[str, int | None], Problem] = {}
        for problem in snapshot.problems:
            topic, number = problem.topic, problem.partition
            if problem.group_id is None and topic is not None:
                # Log offsets are read first, so their problem is the cause of later ones.
                about_log.setdefault((topic, number), problem)
                if number is not None:
                    partitions[topic].add(number)
            elif problem.group_id is not None and topic is not None and number is not None:
                about_commit[problem.group_id][TopicPartition(topic, number)] = problem
            elif problem.group_id is not None and problem.what is not Unread.GROUP:
                about_group[problem.group_id].append(problem)
        self._commits, self._about_commit, self._about_group = commits, about_commit, about_group
        self.partitions = {topic: frozenset(numbers) for topic, numbers in partitions.items()}
        self.about_log: Mapping[tuple[str, int | None], Problem] = about_log

    def commits_of(self, group_id: str) -> Mapping[TopicPartition, Commit]:
        return self._commits.get(group_id, {})

    def committed_position(self, group_id: str, partition: TopicPartition) -> Position | None:
        commit = self.commits_of(group_id).get(partition)
        return Position.of(commit) if commit else None

    def unread_of(self, group_id: str) -> Mapping[TopicPartition, Problem]:
        """Return why single committed offsets of a group could not be read."""
        return self._about_commit.get(group_id, {})

    def problems_of(self, group_id: str) -> Sequence[Problem]:
        """Return what could not be read of a group as a whole."""
        return self._about_group.get(group_id, ())

    def log_problem(self, partition: TopicPartition) -> Problem | None:
        """Return what could not be read of a partition's log, or of its topic as a whole."""
        return self.about_log.get(partition) or self.about_log.get((partition.topic, None))

    def why_gone(self, partition: TopicPartition) -> str:
        """Return that a partition does not exist any more; "" if it does, or that is unknown."""
        problem = self.log_problem(partition)
        return problem.why if problem and problem.why in MISSING_LOG else ""

    def unlisted(self, group_id: str) -> Iterator[Finding]:
        """Yield that it is not known whether a group exists, where not all could be listed."""
        why = self.snapshot.listing_problem
        if why and group_id not in self.groups:
            yield block("unreadable", f"unknown whether the group exists: {why}", group_id)

    def unread_commits(self, group_id: str) -> Iterator[Finding]:
        """Return why no committed offset of a group could be read: it may have some."""
        return (unread(one) for one in self.problems_of(group_id) if one.hides_commits)

    def unreadable(self, group_id: str) -> Iterator[Finding]:
        """Return the read errors of a group and its committed offsets."""
        return map(unread, (*self.problems_of(group_id), *self.unread_of(group_id).values()))

    def step(
        self, group_id: str, action: Action, changes: Iterable[Change], *, needs: str | None = None
    ) -> Step:
        """Return a step on the group's current state; a missing group will be a simple group."""
        group = self.groups.get(group_id)
        return Step(
            group_id,
            action,
            tuple(sorted(changes, key=attrgetter("partition"))),
            type=group.type if group else GroupType.SIMPLE,
            state=group.state if group else None,
            last_commit_at=self._newest_commit_at(group_id),
            needs=needs,
        )

    def _newest_commit_at(self, group_id: str) -> datetime | None:
        """Return when a group last committed; None if the time of any commit is unknown."""
        times = [commit.committed_at for commit in self.commits_of(group_id).values()]
        known = [at for at in times if at]
        return max(known) if known and len(known) == len(times) else None
