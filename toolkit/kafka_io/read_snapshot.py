"""Read the facts about a cluster, or about one group: subscriptions, commits, log offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

from toolkit.errors import NotFound
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.leaders import described_once
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.commits import read_commits, read_first_commits
from toolkit.kafka_io.groups.describe_groups import commits_without, describe_groups, without_ended
from toolkit.kafka_io.groups.earlier_topics import commits_of_earlier_topics
from toolkit.kafka_io.groups.listing import find_hidden, list_groups
from toolkit.kafka_io.logs.log_offsets import existing_topics, read_log_offsets
from toolkit.model import (
    Cluster,
    Commit,
    Group,
    GroupState,
    GroupType,
    Policy,
    Problem,
    Snapshot,
    TopicPartition,
    Unread,
    select_groups,
)
from toolkit.model.commit_columns import columns_of
from toolkit.model.groups import exact_name
from toolkit.model.names import ExactName, named
from toolkit.model.snapshot import NOT_MATCHED


class Progress(NamedTuple):
    """The progress of a read."""

    step: str
    done: int
    total: int


OnProgress = Callable[[Progress], None]
# Where these are unread, commits of hidden topics are as well.
HIDES_COMMITS = frozenset({Unread.COMMIT_TIMES, Unread.GROUP_CLOCKS})
CommitTimes = bool | Callable[[Group], bool]  # whether, or of which groups


@described_once()
def read_snapshot(
    cluster: Cluster,
    *,
    groups: Sequence[str] = (),
    offsets: bool = True,
    commit_times: CommitTimes = False,
    on_progress: OnProgress = lambda _: None,
) -> Snapshot:
    """
    Read a cluster, or some of its groups, without changing anything.

    `groups` holds names and shell patterns (`pay*`), see `select_groups`; without any, all are
    read. Groups that the fleet file ignores are left out where they are not named, and are
    counted. Without `offsets`, only groups and members are read. `commit_times` adds when each
    commit was made and since when a group is Empty, of all groups or of some, from the offsets
    topic where that may be read, and a problem for each first commit that an open transaction is
    about to make. Raises ClusterUnreachable where no broker answers; anything smaller
    that fails becomes a row in `problems`. A group that ends meanwhile is left out; it is a problem
    only where its name was given. Commits are read before log offsets, so
    that a commit made in between cannot look as if it were beyond the log end, and before
    subscriptions, so that a topic which a group has only just begun to read cannot look left over.
    """
    with connected(cluster) as connection:
        found = snapshot_over(
            connection,
            groups=groups,
            offsets=offsets,
            commit_times=commit_times,
            on_progress=on_progress,
        )
        # Not for plans: a reset of such an offset is what mends it.
        earlier = commits_of_earlier_topics(connection, found.commits)
        return replace(found, problems=(*found.problems, *earlier)) if earlier else found


class OneGroup(NamedTuple):
    """One group, and the facts that were read of it."""

    facts: Snapshot
    group: Group


def read_one_group(cluster: Cluster, name: str, *, commit_times: bool = False) -> OneGroup:
    """
    Read the group of exactly this name, which may look like a pattern, as `read_snapshot` does.

    Raises NotFound where there is none, and says so where not every group could be listed.
    """
    facts = read_snapshot(cluster, groups=[ExactName(name)], commit_times=commit_times)
    for group in facts.groups:
        if group.group_id == name:
            return OneGroup(facts, group)
    partial = f"; the group list is incomplete ({facts.listing_problem})"
    raise NotFound(
        f"no group named {name!r} in cluster {cluster.name}: {facts.why_missing(name)}"
        f"{partial if facts.listing_problem else ''}",
        hint="'offsetbook groups list' lists the names",
    )


@described_once()
def snapshot_over(
    connection: Connection,
    *,
    groups: Sequence[str] = (),
    offsets: bool = True,
    commit_times: CommitTimes = False,
    on_progress: OnProgress = lambda _: None,
) -> Snapshot:
    """Do as `read_snapshot` does, over a connection that is open."""
    on_progress(Progress("groups", 0, 1))
    taken_at = datetime.now(UTC)
    found = _read_groups(connection, groups, on_progress, offsets=offsets)
    described, commits = found.described, found.commits
    partitions = _partitions(described, commits) if offsets else set()
    hidden = list(find_hidden(connection, sorted({partition.topic for partition in partitions})))
    if groups and all(exact_name(name, found.listed) is not None for name in groups):
        # All that is meant was seen; a pattern may mean more.
        hidden = [problem for problem in hidden if problem.what is Unread.HIDDEN_COMMITS]
    if not offsets:
        hidden = [problem for problem in hidden if problem.what is not Unread.HIDDEN_COMMITS]
    on_progress(Progress("log offsets", 0, len(partitions)))
    logs, unknown = read_log_offsets(connection, partitions)
    untimed: list[Problem] = []
    if commit_times:
        on_progress(Progress("commit times", 0, 1))
        hides = any(problem.what is Unread.HIDDEN_COMMITS for problem in hidden)
        of_group = commit_times if callable(commit_times) else lambda _: True
        timed = _groups_to_time(described, commits, of_group, hides_commits=hides)
        described, commits, untimed = _with_times(connection, described, commits, timed)
        is_seen = HIDES_COMMITS.isdisjoint(problem.what for problem in untimed)
        if is_seen and _of_consumers(described) <= timed:
            # The offsets topic has shown them, and each that is hidden is a problem of its own.
            hidden = [problem for problem in hidden if problem.what is not Unread.HIDDEN_COMMITS]
    return Snapshot(
        cluster=connection.cluster.name,
        cluster_id=connection.cluster_id,
        taken_at=taken_at,
        groups=tuple(sorted(described, key=lambda group: group.group_id)),
        commits=commits,
        logs=logs,
        problems=(*found.problems, *hidden, *unknown, *untimed),
        ignored=found.ignored,
        listed=found.listed,
    )


class _Groups(NamedTuple):
    """Groups with members and commits, and the problems."""

    described: list[Group]
    commits: Sequence[Commit]
    problems: list[Problem]
    ignored: int
    listed: frozenset[str]


def _read_groups(
    connection: Connection, given: Sequence[str], on_progress: OnProgress, *, offsets: bool
) -> _Groups:
    listed, problems = list_groups(connection)
    chosen, missing = select_groups(listed, given)
    ignored = _ignored(connection.cluster.policy, chosen, given)
    chosen = [group for group in chosen if group.group_id not in ignored]
    found = read_listed(connection, chosen, on_progress, offsets=offsets)
    missing += sorted(found.ended & {*given, *map(named, given)})
    problems += [Problem(Unread.GROUP, NOT_MATCHED, group_id=name) for name in missing]
    return _Groups(
        found.described,
        found.commits,
        [*problems, *found.problems],
        len(ignored),
        frozenset(group.group_id for group in listed) - found.ended,
    )


class ListedGroups(NamedTuple):
    """Members and commits of groups that were listed, the problems, and which groups have ended."""

    described: list[Group]
    commits: Sequence[Commit]
    problems: list[Problem]
    ended: frozenset[str]


def read_listed(
    connection: Connection,
    listed: Sequence[Group],
    on_progress: OnProgress = lambda _: None,
    *,
    offsets: bool = True,
) -> ListedGroups:
    """Read groups that were listed; one that has ended since has no commits and no problem."""
    commits, refused = _commits(connection, listed if offsets else (), on_progress)
    described, undescribed = _describe(connection, listed, on_progress)
    described, ended = without_ended(connection, described)
    if ended:
        commits = commits_without(commits, ended)
        refused = [problem for problem in refused if problem.group_id not in ended]
    return ListedGroups(described, commits, [*refused, *undescribed], frozenset(ended))


def _commits(
    connection: Connection, groups: Sequence[Group], on_progress: OnProgress
) -> tuple[Sequence[Commit], list[Problem]]:
    done = 0

    def on_group() -> None:
        nonlocal done
        done += 1
        on_progress(Progress("committed offsets", done, len(groups)))

    return read_commits(connection, [group.group_id for group in groups], on_group=on_group)


def _describe(
    connection: Connection, groups: Sequence[Group], on_progress: OnProgress
) -> tuple[list[Group], list[Problem]]:
    described: list[Group] = []
    problems: list[Problem] = []
    topics = cache(lambda: existing_topics(connection))
    for row in describe_groups(connection, groups, topics=topics):
        if isinstance(row, Group):
            described.append(row)
            on_progress(Progress("members", len(described), len(groups)))
        else:
            problems.append(row)
    return described, problems


def _ignored(policy: Policy, chosen: Sequence[Group], given: Sequence[str]) -> set[str]:
    """Return which of the chosen groups are left out: those that no name of `given` stands for."""
    named_ones = {*given, *map(named, given)}
    return {
        name
        for name in (group.group_id for group in (chosen if policy.ignored_groups else ()))
        if policy.ignores(name) and name not in named_ones
    }


def _with_times(
    connection: Connection,
    groups: Sequence[Group],
    commits: Sequence[Commit],
    timed: Collection[str],
) -> tuple[list[Group], Sequence[Commit], list[Problem]]:
    """Add the times that the offsets topic has of some groups and commits, and the problems."""
    if not timed:
        return [*groups], commits, []
    # Loads what reads records, which most commands need not do.
    from toolkit.kafka_io.groups.group_times import (  # noqa: PLC0415
        commits_in_doubt,
        read_group_times,
        with_commit_times,
        with_empty_since,
    )

    times, problems = read_group_times(connection, timed)
    problems += read_first_commits(connection, commits_in_doubt(times, commits))
    return with_empty_since(groups, times), with_commit_times(commits, times), problems


def _groups_to_time(
    groups: Sequence[Group],
    commits: Sequence[Commit],
    of_group: Callable[[Group], bool],
    *,
    hides_commits: bool,
) -> set[str]:
    """Return every group with a commit, or whose Empty time is needed, or that may have commits."""
    committed = {block.group_id for block in columns_of(commits).blocks}
    committed |= _of_consumers(groups) if hides_commits else set()
    return {
        group.group_id
        for group in groups
        if (group.state is GroupState.EMPTY or group.group_id in committed) and of_group(group)
    }


def _of_consumers(groups: Sequence[Group]) -> set[str]:
    """Return the groups that commit offsets: all but share groups."""
    return {group.group_id for group in groups if group.type is not GroupType.SHARE}


def _partitions(groups: Sequence[Group], commits: Sequence[Commit]) -> set[TopicPartition]:
    """Every partition with a commit or an owner: an owned one without a commit has a row too."""
    columns = columns_of(commits)
    numbers: dict[str, set[int]] = defaultdict(set)
    for _, topic, places in columns.blocks:
        numbers[topic].update(columns.partitions[places.start : places.stop])
    owned = {partition for g in groups for member in g.members for partition in member.assignment}
    return owned | {TopicPartition(topic, n) for topic, found in numbers.items() for n in found}
