"""Watch the commits of a group, and wait until it has committed what it had read."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.logs.log_offsets import read_log_offsets
from toolkit.kafka_io.offsets_topic.commit_follower import CommitFollower, NewCommit
from toolkit.model import TopicPartition

LOOK_EVERY_S = 0.2
# How long no commit must arrive. Applications that commit each record or batch may do so after they
# lost the partition; clients that commit at longer intervals do it when they revoke.
STILL_AT_LEAST_S, STILL_AT_MOST_S = 1.0, 3.0
STILL_WITHIN_S = 30.0  # a consumer may keep committing to partitions that it lost


class GroupCommits:
    """
    The commits of one group from now on.

    Every commit is read from the offsets topic, if that is permitted; else committed offsets are
    compared, which may miss some.
    """

    def __init__(self, connection: Connection, group_id: str) -> None:
        """Start with the next commit; raises BrokerRefused if no commit can be read."""
        self.connection = connection
        self.group_id = group_id
        self.committed = self.read_committed()
        self._until: int | Mapping[TopicPartition, int]
        self._follower: CommitFollower | None = None
        with suppress(BrokerRefused):
            self._follower = CommitFollower(connection, group_id)

    @property
    def has_every_commit(self) -> bool:
        """Whether no commit can be missed."""
        return self._follower is not None

    def read_committed(self) -> dict[TopicPartition, int]:
        """Return the committed offsets; raises BrokerRefused."""
        commits, problems = read_commits(self.connection, [self.group_id])
        if problems:
            raise BrokerRefused(problems[0].why)
        return {TopicPartition(one.topic, one.partition): one.offset for one in commits}

    def mark(self) -> None:
        """Let the next `read` end here; raises BrokerRefused."""
        self._until = self._follower.end() if self._follower else self.read_committed()

    def read(self) -> list[NewCommit]:
        """Return the commits before the mark, in order."""
        found: list[NewCommit] = []
        if isinstance(self._until, Mapping):
            found = list(self._changed(self._until))
        elif self._follower:
            try:
                found = list(self._follower.read_to(self._until))
            except BrokerRefused:  # marking needs fewer ACLs
                self._follower = None
        for commit in found:
            if commit.offset is None:
                self.committed.pop(commit.partition, None)
            else:
                self.committed[commit.partition] = commit.offset
        return found

    def _changed(self, now: Mapping[TopicPartition, int]) -> Iterator[NewCommit]:
        for place in sorted(now.keys() | self.committed.keys()):
            if now.get(place) != self.committed.get(place):
                yield NewCommit(place, now.get(place))


def wait_until_still(
    commits: GroupCommits,
    held: Collection[TopicPartition],
    *,
    stopped: Callable[[], str] = str,
) -> None:
    """
    Wait until consumers have committed the records of held partitions that they had read.

    `commits` starts before the partitions were held. A consumer may commit such a record after it
    lost the partition, over an offset that was written meanwhile. So no commit must arrive for
    twice the interval of the earlier ones, between `STILL_AT_LEAST_S` and `STILL_AT_MOST_S`.
    Returns at once if everything is committed up to the log end, or when `stopped`. Raises
    BrokerRefused.
    """
    commits.mark()
    seen = [one for one in commits.read() if one.partition in held]
    logs, _ = read_log_offsets(commits.connection, sorted(held))
    ends = {place: log.log_end for place, log in logs.items() if log.log_end is not None}
    # A partition whose log end cannot be read is waited for.
    if all(place in ends and commits.committed.get(place) == ends[place] for place in held):
        return
    still_s = STILL_AT_MOST_S
    if commits.has_every_commit:
        still_s = min(max(STILL_AT_LEAST_S, 2 * apart_s(seen)), STILL_AT_MOST_S)
    since = began = time.monotonic()
    while time.monotonic() < began + STILL_WITHIN_S and not stopped():
        commits.mark()
        now = time.monotonic()
        if any(one.partition in held for one in commits.read()):
            since = now
        elif now >= since + still_s:
            return
        time.sleep(LOOK_EVERY_S)


def apart_s(commits: Iterable[NewCommit]) -> float:
    """Return the longest time between two commits of one partition; 0 without two."""
    times: dict[TopicPartition, list[int]] = defaultdict(list)
    for commit in commits:
        times[commit.partition].append(commit.at_ms)
    gaps = (later - earlier for one in times.values() for earlier, later in pairwise(one))
    return max(gaps, default=0) / 1000
