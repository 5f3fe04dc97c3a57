"""
The commits of a cluster as of one instant, just before its log ends are read.

The first stage takes seconds, or minutes. What groups committed meanwhile would be counted as their
lag, and a group created meanwhile would be missing. So what each offsets partition has been given
since is read here, which is little, together with what counts behind an open transaction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.listing import find_hidden, list_groups
from toolkit.kafka_io.offsets_topic.latest_records import LATEST, merge_latest
from toolkit.kafka_io.offsets_topic.latest_tables import decode_commits, decode_groups
from toolkit.kafka_io.offsets_topic.partitions import offsets_partitions, partition_of
from toolkit.kafka_io.offsets_topic.reader import read_offsets_log, with_unstable_tail
from toolkit.kafka_io.offsets_topic.unstable_tail import UnstableTail
from toolkit.kafka_io.read_snapshot import read_listed
from toolkit.model import Cluster, Commit, Group, LogOffsets, Policy
from toolkit.model.names import shown_name
from toolkit.model.plurals import counted
from toolkit.spark.arrow import Row, as_columns, unpack
from toolkit.spark.read_tasks import why_failed
from toolkit.spark.schemas import COMMITS, GROUPS, TIME, WHOLE

FROM_LOG, FROM_ADMIN = "offsets topic", "admin"
PAST_STABLE = "offsets topic, past the last stable offset"


class CommitsRead(NamedTuple):
    """All commits and groups of some offsets partitions of a cluster, of one instant."""

    commits: pa.Table  # schemas.COMMITS
    groups: pa.Table  # schemas.GROUPS
    problems: list[str]


def read_newest(cluster: Cluster, blocks: Sequence[Row]) -> CommitsRead:
    """
    Bring blocks, `schemas.READ_BLOCKS` of one cluster, up to now.

    Where a partition may not be read, or too much is behind an open transaction, commits come
    through Admin instead: older values would look like lag, and new groups would be missing. What
    Admin does not report either is as the first stage left it, and a problem says so. Groups that
    the cluster's policy ignores are left out.
    """
    read_at = datetime.now(UTC)
    logs = [*_read_logs(cluster, blocks, read_at)]
    problems: list[str] = []
    tables = [(COMMITS.empty_table(), GROUPS.empty_table())]
    unread = [log for log in logs if log.unread]
    if unread:
        try:
            with connected(cluster) as connection:
                tables.append(_by_admin(connection, unread, read_at, problems))
            logs = [log for log in logs if not log.unread]
        except ToolkitError as exc:
            problems += [f"cannot read {what}: {why}" for what, why in _whys(unread)]
            problems.append(f"committed offsets: {exc}")
    for log in logs:
        found, malformed = _decoded(log)
        tables.append(found)
        problems += _not_parsed(log.number, malformed)
    commits, groups = (pa.concat_tables(each) for each in zip(*tables, strict=True))
    policy = cluster.policy
    return CommitsRead(
        _without_ignored(commits, policy), _without_ignored(groups, policy), problems
    )


class _LogNow(NamedTuple):
    """The current content of a partition of the offsets topic; `WHOLE` is all of them."""

    number: int
    partitions: int | None  # how many the topic has
    latest: pa.Table  # LATEST
    read_at: datetime | None  # up to when that is known
    tail: UnstableTail | None = None
    unread: str = ""  # why newer commits could not be read


def _read_logs(cluster: Cluster, blocks: Sequence[Row], read_at: datetime) -> Iterator[_LogNow]:
    """Yield what the partitions of blocks hold now, as far as it can be read."""
    ends: Mapping[int, LogOffsets] = {}
    unread = ""
    try:
        with connected(cluster) as connection:
            partitions, ends, _ = offsets_partitions(connection)
    except ToolkitError as exc:
        unread = str(exc)
    for block in blocks:
        number, read_to = block["offsets_partition"], block["read_to"] or {}
        latest = unpack(block["latest"], LATEST)
        log = _LogNow(number, block["partitions"], latest, read_to.get("read_at"))
        why = block["by_admin"] or unread
        if why:
            yield log._replace(unread=why)
        elif number in ends:
            log = _up_to(ends[number], cluster, log, read_to.get("next_offset"))
            yield log if log.unread else log._replace(read_at=read_at)
        elif number == WHOLE:  # the topic was created since
            log = log._replace(partitions=partitions, read_at=read_at)
            fresh = (log._replace(number=one) for one in ends)
            yield from (_up_to(ends[one.number], cluster, one, None) for one in fresh)
        else:
            yield log


def _up_to(end: LogOffsets, cluster: Cluster, log: _LogNow, start: int | None) -> _LogNow:
    """Add what a partition was given since it was read up to `start`."""
    try:
        found = read_offsets_log(cluster, log.number, end, start=start)
        tail = None
        if found.unstable_tail:
            found, tail = with_unstable_tail(cluster, log.number, end, found)
    except Exception as exc:  # noqa: BLE001 - Admin may have what this partition does not give
        return log._replace(unread=why_failed(exc))
    latest = merge_latest(log.latest, found.latest) if found.latest.num_rows else log.latest
    return log._replace(latest=latest, tail=tail)


def _decoded(log: _LogNow) -> tuple[tuple[pa.Table, pa.Table], Counter[str]]:
    """Return the commits and groups of a partition, and how many records are malformed by why."""
    commits, malformed = decode_commits(log.latest)
    count = commits.num_rows
    # Before the last stable offset all is settled.
    pending, source = pa.repeat(False, count), pa.repeat(FROM_LOG, count)
    if log.tail:
        keys = commits.select(["group", "topic", "partition"]).to_pydict().values()
        of_commits = [*zip(*keys, strict=True)]
        pending = pa.array([key in log.tail.pending for key in of_commits], pa.bool_())
        past_stable = [PAST_STABLE if key in log.tail.commits else FROM_LOG for key in of_commits]
        source = pa.array(past_stable, pa.string())
    read_at = pa.repeat(pa.scalar(log.read_at, TIME), count)
    for name, column in (("pending", pending), ("source", source), ("read_at", read_at)):
        commits = commits.append_column(name, column)
    groups, malformed_too = decode_groups(log.latest)
    tables = as_columns(commits, COMMITS), as_columns(groups, GROUPS)
    return tables, malformed + malformed_too


def _not_parsed(number: int, malformed: Counter[str]) -> Iterator[str]:
    """Say of how many keys of an offsets partition the newest record cannot be parsed, and why."""
    for why, count in malformed.items():
        where = f"partition {number} of the offsets topic"
        yield f"{counted(count, 'record')} of {where} could not be parsed: {why}"


def _by_admin(
    connection: Connection,
    unread: Collection[_LogNow],
    read_at: datetime,
    problems: list[str],
) -> tuple[pa.Table, pa.Table]:
    """Ask for the commits and groups of partitions; add to the problems what these lack."""
    cluster, holds = connection.cluster, _holder(unread)
    listed, unlisted = list_groups(connection)
    hidden = find_hidden(connection)
    groups = [
        group
        for group in listed
        if holds(group.group_id) and not cluster.policy.ignores(group.group_id)
    ]
    found = read_listed(connection, groups)
    problems += [
        f"{what}: read through the Admin API, without commit times: {why}"
        for what, why in _whys(unread)
    ]
    for problem in (*unlisted, *hidden, *found.problems):
        name = problem.group_id
        subject = "" if name is None else f" of group {shown_name(name)}"
        problems.append(f"{problem.what}{subject}: {problem.why}")
    return _commits_by_admin(found.commits, read_at), _groups_by_admin(found.described)


def _holder(logs: Collection[_LogNow]) -> Callable[[str], bool]:
    """Return what says whether a group is in one of some partitions."""
    numbers = {log.number for log in logs}
    partitions = {log.partitions for log in logs if log.partitions}
    if WHOLE in numbers or not partitions:
        return lambda _: True
    return lambda group_id: partition_of(group_id, max(partitions)) in numbers


def _whys(unread: Iterable[_LogNow]) -> Iterator[tuple[str, str]]:
    """Yield what of a cluster could not be read, with the reason, each reason once."""
    by_why: dict[str, list[int]] = defaultdict(list)
    for log in unread:
        by_why[log.unread].append(log.number)
    for why, numbers in by_why.items():
        if WHOLE in numbers:
            yield "the cluster", why
        elif len(numbers) == 1:
            yield f"partition {numbers[0]} of the offsets topic", why
        else:
            yield f"{counted(len(numbers), 'partition')} of the offsets topic", why


def _without_ignored(table: pa.Table, policy: Policy) -> pa.Table:
    """Return rows without those of groups that a policy ignores."""
    if not policy.ignored_groups:
        return table
    known = {name: not policy.ignores(name) for name in table["group"].unique().to_pylist()}
    return table.filter(pa.array([known[name] for name in table["group"].to_pylist()], pa.bool_()))


def _commits_by_admin(commits: Iterable[Commit], read_at: datetime) -> pa.Table:
    rows = [
        {
            "group": commit.group_id,
            "topic": commit.topic,
            "partition": commit.partition,
            "committed": commit.offset,
            "leader_epoch": commit.leader_epoch,
            "metadata": commit.metadata,
            "pending": commit.pending,
            "source": FROM_ADMIN,
            "read_at": read_at,
        }
        for commit in commits
    ]
    return pa.Table.from_pylist(rows, schema=COMMITS)


def _groups_by_admin(groups: Iterable[Group]) -> pa.Table:
    rows = [
        {
            "group": group.group_id,
            "type": str(group.type),
            "protocol_type": group.protocol_type,
            "state": str(group.state),
            "members": len(group.members) if group.described else None,
            "epoch": group.epoch,
            "subscribed": sorted(group.subscribed_topics),
            "unreadable": group.unreadable_subscription,
            "is_held": any(member.is_holder for member in group.members),
        }
        for group in groups
    ]
    return pa.Table.from_pylist(rows, schema=GROUPS)
