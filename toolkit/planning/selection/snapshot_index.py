"""Index a snapshot by group, topic and partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from toolkit.model import Commit, Problem, Snapshot, TopicPartition, Unread
from toolkit.model.garbage_collection import no_garbage_collection


class SnapshotIndex:
    """
    One snapshot, looked up by group, by topic and by partition.

    `commits`: the commits of each group. `unread`: why a single committed offset could not be read.
    `partitions`: the known partition numbers of each topic, including unreadable ones.
    `about_group` and `about_log`: problems by subject; a log's key has no partition if the problem
    concerns the topic.
    """

    @no_garbage_collection()
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
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
        unread: dict[str, dict[TopicPartition, str]] = defaultdict(dict)
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
                unread[problem.group_id][TopicPartition(topic, number)] = problem.why
            elif problem.group_id is not None and problem.what is not Unread.GROUP:
                about_group[problem.group_id].append(problem)
        self.commits: Mapping[str, Mapping[TopicPartition, Commit]] = dict(commits)
        self.unread: Mapping[str, Mapping[TopicPartition, str]] = dict(unread)
        self.partitions = {topic: frozenset(numbers) for topic, numbers in partitions.items()}
        self.about_group: Mapping[str, Sequence[Problem]] = dict(about_group)
        self.about_log: Mapping[tuple[str, int | None], Problem] = about_log

    def log_problem(self, partition: TopicPartition) -> Problem | None:
        """Return what could not be read of a partition's log, or of its topic as a whole."""
        return self.about_log.get(partition) or self.about_log.get((partition.topic, None))
