"""The facts about one cluster, and its read errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from toolkit.errors import BrokerRefused, NotFound
from toolkit.model.groups import Group
from toolkit.model.names import did_you_mean, shown_name
from toolkit.model.offsets import Commit, LogOffsets, TimedOffset, TopicPartition

NOT_MATCHED = "no group matches this name"
FEW_MISSING = 5  # names for which suggestions are worth their cost
# `Problem.why` of a log that is not there; unless it was requested by name, that is no error.
NO_TOPIC = "the topic does not exist"
NO_PARTITION = "the partition does not exist"
MISSING_LOG = frozenset({NO_TOPIC, NO_PARTITION})


class Unread(StrEnum):
    """What could not be read."""

    CLUSTER = "cluster"
    GROUPS = "groups"  # groups may exist that were not listed
    GROUP = "group"  # no group has a name that was requested
    MEMBERS = "members"
    HELD_PARTITIONS = "held partitions"
    PERMISSIONS = "permissions"
    COMMITS = "committed offsets"  # of a group
    COMMIT = "committed offset"  # of a partition
    HIDDEN_COMMITS = "offsets of hidden topics"  # ACLs may hide some
    COMMIT_TIMES = "commit times"  # `__consumer_offsets` was not read
    GROUP_CLOCKS = "group clocks"
    LAG = "lag"
    TOPIC = "topic"
    LOG_OFFSETS = "log offsets"
    LEADER_EPOCHS = "leader epochs"
    OFFSETS_BY_TIME = "offsets by time"
    RECORD_TIMES = "record times"
    RECORDS = "records around the offset"


@dataclass(frozen=True, slots=True)
class Problem:
    """A read error: what could not be read and why, in place of the missing rows."""

    what: Unread
    why: str
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None

    @property
    def hides_groups(self) -> bool:
        """Whether groups may exist that were not listed."""
        return self.what is Unread.GROUPS

    @property
    def hides_commits(self) -> bool:
        """Whether a group may have committed offsets that could not be read."""
        return self.what in {Unread.COMMITS, Unread.COMMIT}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    The facts about one cluster at about one instant.

    Commits are read before log ends, so a lag made from them may be a little too high on a busy
    partition but is never negative because of the reading order.
    """

    cluster: str  # its name in the fleet file
    cluster_id: str
    taken_at: datetime
    groups: tuple[Group, ...]
    commits: Sequence[Commit]
    logs: Mapping[TopicPartition, LogOffsets]
    problems: tuple[Problem, ...] = ()
    # Offsets at an instant, if requested: None for a partition without a record at or after it.
    at: datetime | None = None
    at_time: Mapping[TopicPartition, TimedOffset | None] = field(default_factory=dict)
    # Topic ids by name, which change if a topic is re-created; only for plans.
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    # The first committed record at or after an offset, if it was read; None: there is none.
    first_records: Mapping[tuple[TopicPartition, int], int | None] = field(default_factory=dict)
    ignored: int = 0  # groups that `ignored_groups` of the fleet file leaves out
    listed: frozenset[str] = frozenset()  # the names of all groups

    @property
    def read_errors(self) -> tuple[Problem, ...]:
        """The problems, but for names without a group and topics that were deleted meanwhile."""
        return tuple(
            problem
            for problem in self.problems
            if problem.what is not Unread.GROUP and problem.why not in MISSING_LOG
        )

    def why_missing(self, name: str) -> str:
        """Return that no group has a name, with the name that is most like it, if any is."""
        missing = sum(problem.what is Unread.GROUP for problem in self.problems)
        meant = did_you_mean(name, self.listed) if missing <= FEW_MISSING else ""
        return f"{NOT_MATCHED}{meant}"

    def no_such_group(self, name: str, *, so: str = "") -> NotFound | BrokerRefused:
        """
        Return the error that no group has a name or, if not all were listed, that this is unknown.

        `so` names what was not done.
        """
        about = f"group {shown_name(name)} in cluster {self.cluster}"
        if unlisted := self.listing_problem:
            why = f"not found, but the group list is incomplete: {unlisted}"
            return BrokerRefused(f"{about}: {why}{so}")
        hint = "'offsetbook groups list' shows the names"
        return NotFound(f"{about}: {self.why_missing(name)}{so}", hint=hint)

    @property
    def listing_problem(self) -> str:
        """Why a missing group may still exist; "" if all groups could be listed."""
        hiding = (problem for problem in self.problems if problem.hides_groups)
        return next((f"{problem.what}: {problem.why}" for problem in hiding), "")

    def with_problems_of(self, earlier: Snapshot) -> Snapshot:
        """Return the same with what could not be read of its groups in an earlier sample."""
        here = {None, *(group.group_id for group in self.groups)}
        before = (problem for problem in earlier.problems if problem.group_id in here)
        return replace(self, problems=tuple(dict.fromkeys((*before, *self.problems))))

    def commits_of(self, group_id: str) -> dict[TopicPartition, Commit]:
        return {c.topic_partition: c for c in self.commits if c.group_id == group_id}

    def unread_commits(self, group_id: str) -> str:
        """Return why a group may have more committed offsets than were read; "" if not."""
        for problem in self.problems:
            is_hidden = problem.what is Unread.HIDDEN_COMMITS
            if is_hidden or (problem.group_id == group_id and problem.hides_commits):
                return problem.why
        return ""
