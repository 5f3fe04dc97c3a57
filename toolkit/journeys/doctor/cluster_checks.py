"""
Check a cluster: do its brokers answer, which release, what may this user do, what is paused.

For a bug report, no row has a value of a setting: an error of a client may contain a path, an
address or a broker's message about a login. Each value is replaced by the name of its setting.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from toolkit.errors import BrokerRefused, ToolkitError, UsageError
from toolkit.journeys.doctor.check_row import CheckRow, CheckStatus, error, ok, unknown, warn
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.cluster_facts import (
    MAX_NAMES,
    AclOperation,
    BrokerVersion,
    Operations,
    Permissions,
    read_broker_versions,
    read_clock_difference,
    read_permissions,
)
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, secrets
from toolkit.model.cluster import CHOICES, SECRET_SETTINGS
from toolkit.model.names import shown_name
from toolkit.model.plurals import counted
from toolkit.model.server_addresses import read_servers
from toolkit.model.side_by_side import side_by_side

OLDEST_TESTED = 20  # metadata.version of 3.8, the last before 3.9
REPORTS_GROUP_CONFIGS = 22  # metadata.version from which brokers report them: 4.0
LISTS_PAUSED = (
    "'offsetbook paused-partitions' shows who paused them until when; 'offsetbook resume' ends it"
)
SEE_ACLS = "docs/acls.md lists the ACLs of each role"
READ, DELETE = AclOperation.READ, AclOperation.DELETE
ALTER_CONFIGS = AclOperation.ALTER_CONFIGS
NOT_REPORTED = "the broker does not report it"

DescribeError = Callable[[ToolkitError], tuple[str, str]]  # an error as finding and hint
Masks = Mapping[str, str]  # what is not shown, and what is shown instead
Found = tuple[bool | None, str]  # whether it is allowed, and what was found


class _Need(NamedTuple):
    """Something to do, and the operations on the group and on the topic that it needs."""

    doing: str
    group: AclOperation
    topic: AclOperation | None


CHANGES = (
    _Need("commit offsets", READ, READ),
    _Need("delete offsets", DELETE, READ),
    _Need("delete groups", DELETE, None),
    _Need("alter group configs", ALTER_CONFIGS, None),
)


def check_clusters(clusters: Sequence[Cluster], *, mask: bool) -> list[CheckRow]:
    """
    Check clusters side by side, each within its timeout for each request.

    With `mask`, no row has a value of a setting. A cluster that does not answer is a row.
    """
    return [*chain(*side_by_side(partial(check_cluster, mask=mask), clusters))]


def check_cluster(cluster: Cluster, *, mask: bool = False) -> list[CheckRow]:
    """Return the rows of one cluster; without a connection only that row, with the reason."""
    masks = _masks_of(cluster) if mask else {}

    def describe_error(exc: ToolkitError) -> tuple[str, str]:
        return _masked(exc.problem, masks), _masked(exc.hint, masks)

    try:
        with Connection(cluster) as connection:
            return [*_rows(cluster, connection, describe_error)]
    except ToolkitError as exc:
        return [error(cluster.name, "connection", *describe_error(exc))]


def permission_rows(
    cluster: Cluster, permissions: Permissions, *, reports_group_configs: bool
) -> Iterator[CheckRow]:
    """
    Yield a row for each thing to do that needs a permission.

    Where the cluster is `read_only` in the fleet file, changes need none. Brokers before 4.0 do not
    report the operation that changes group configs.
    """
    yield _permission_row(
        cluster.name, "describe groups", _of_all(permissions.cluster, "groups", "Cluster")
    )
    yield _permission_row(
        cluster.name, "describe topics", _of_all(permissions.any_topic, "topics", "Topic:*")
    )
    yield _permission_row(cluster.name, "read offsets topic", _of_offsets_topic(permissions))
    for need in CHANGES:
        is_reported = reports_group_configs or need.group is not ALTER_CONFIGS
        found = _of_change(permissions, need) if is_reported else (None, NOT_REPORTED)
        if found[0] is False and cluster.policy.read_only:
            yield ok(cluster.name, _permission(need.doing), f"{found[1]}; the cluster is read_only")
        else:
            yield _permission_row(cluster.name, need.doing, found)
    why = "brokers do not report permissions on transactional ids, which 'offsetbook move' needs"
    yield unknown(cluster.name, _permission("move offsets"), why, SEE_ACLS)


def _rows(
    cluster: Cluster, connection: Connection, describe_error: DescribeError
) -> Iterator[CheckRow]:
    versions = read_broker_versions(connection)
    yield _connection_row(cluster, connection, versions, describe_error)
    yield _version_row(cluster, versions)
    known = [one.supported for one in versions if one.supported is not None]
    try:
        permissions = read_permissions(connection)
    except ToolkitError as exc:
        yield unknown(cluster.name, "permissions", *describe_error(exc))
    else:
        reports = bool(known) and min(known) >= REPORTS_GROUP_CONFIGS
        yield from permission_rows(cluster, permissions, reports_group_configs=reports)
    yield _clock_row(cluster, connection, describe_error)
    yield _paused_row(cluster, describe_error)


def _connection_row(
    cluster: Cluster,
    connection: Connection,
    versions: Sequence[BrokerVersion],
    describe_error: DescribeError,
) -> CheckRow:
    silent = {one.node_id: one.error for one in versions if one.error}
    all_of = f"cluster id {connection.cluster_id}, {counted(len(versions), 'broker')}"
    if not silent:
        return ok(cluster.name, "connection", f"{all_of}, each answers")
    why, hint = describe_error(next(iter(silent.values())))
    ids = ", ".join(map(str, silent))
    finding = f"{all_of}; no answer from {ids}: {why}"
    hint = hint or "clients connect to the addresses in advertised.listeners"
    return error(cluster.name, "connection", finding, hint)


def _version_row(cluster: Cluster, versions: Sequence[BrokerVersion]) -> CheckRow:
    check = "broker version"
    answered = [one for one in versions if not one.error]
    by_release: dict[str, list[str]] = {}
    for one in answered:
        by_release.setdefault(one.release, []).append(str(one.node_id))
    if "" in by_release or not answered:
        why = "not known: a broker does not report the metadata.version of a known release"
        return unknown(cluster.name, check, why)
    supported = sorted({one.supported or 0 for one in answered})
    levels = f"metadata.version {answered[0].in_use or 'unknown'} in use"
    if len(by_release) > 1:
        each = "; ".join(f"{release} on {', '.join(ids)}" for release, ids in by_release.items())
        hint = "finish the upgrade of the brokers"
        return warn(cluster.name, check, f"brokers differ: {each} ({levels})", hint)
    (release,) = by_release
    finding = f"Apache Kafka {release} ({levels}, {supported[-1]} supported)"
    if supported[0] <= OLDEST_TESTED:
        return warn(cluster.name, check, finding, "offsetbook is tested with 3.9 and newer")
    return ok(cluster.name, check, finding)


def _clock_row(cluster: Cluster, connection: Connection, describe_error: DescribeError) -> CheckRow:
    check = "clock"
    try:
        clock = read_clock_difference(connection)
    except ToolkitError as exc:
        why, _ = describe_error(exc)
        return unknown(cluster.name, check, f"only a KRaft controller reports its time: {why}")
    ahead_s, error_s = clock.ahead.total_seconds(), clock.error.total_seconds()
    finding = (
        f"controller {clock.controller_id} is {ahead_s:+.3f} s from this machine "
        f"(± {error_s:.3f} s); other brokers do not report their time"
    )
    if clock.is_large:
        hint = "synchronise the clocks: ages, time lag and expiry are wrong by that much"
        return warn(cluster.name, check, finding, hint)
    return ok(cluster.name, check, finding)


def _paused_row(cluster: Cluster, describe_error: DescribeError) -> CheckRow:
    """Return the paused partitions of all operators, also without a keeper or past their end."""
    check = "paused partitions"
    try:
        facts = read_snapshot(cluster, offsets=False)
    except ToolkitError as exc:
        return unknown(cluster.name, check, *describe_error(exc))
    held = {group.group_id: group.paused for group in facts.groups if group.paused}
    unread = ""
    if facts.problems:
        why, _ = describe_error(BrokerRefused(facts.problems[0].why))  # without values of settings
        unread = f"not known of all groups: {why}"
    if not held:
        return unknown(cluster.name, check, unread) if unread else ok(cluster.name, check, "none")
    groups = ", ".join(map(shown_name, sorted(held)))
    finding = f"{counted(sum(map(len, held.values())), 'partition')} of {groups}"
    finding = "; ".join(filter(None, [finding, unread]))
    notes = [member.hold_note for paused in held.values() for member in paused.values()]
    if any(note and note.until and note.until < facts.taken_at for note in notes):
        return warn(cluster.name, check, f"{finding}, some past the end of the pause", LISTS_PAUSED)
    return CheckRow(cluster.name, check, CheckStatus.OK, finding, LISTS_PAUSED)


def _masks_of(cluster: Cluster) -> Masks:
    """Return what not to show of a cluster: values of settings, secrets, and parts of them."""
    found = {}
    values = {"bootstrap.servers": cluster.bootstrap_servers, **cluster.settings}
    for name, value in values.items():
        if name not in CHOICES:
            found.update(dict.fromkeys(_parts(name, value), f"<{name}>"))
    return found


def _masked(text: str, masks: Masks) -> str:
    """Return a text with values replaced, the longest first, also where they are quoted."""
    values = sorted((value for value in masks if value), key=len, reverse=True)
    if not values:
        return text
    # A short value such as "me" is replaced as a word, not inside of words.
    pattern = "|".join(rf"(?<!\w){re.escape(value)}(?!\w)" for value in values)
    return re.sub(pattern, lambda match: masks[match.group()], text)


def _parts(name: str, value: str) -> Iterator[str]:
    yield value
    if name == "bootstrap.servers":
        for text in value.split(","):
            yield text.strip()
            with suppress(UsageError):
                yield from (
                    part for server in read_servers(text) for part in (str(server), server.host)
                )
    elif name in SECRET_SETTINGS:
        with suppress(LookupError):
            yield secrets.resolved(value)
    elif name.endswith(".location"):
        yield Path(value).name
    elif name.endswith(".url"):
        with suppress(ValueError):
            yield urlsplit(value).netloc
            yield urlsplit(value).hostname or ""
    elif name.endswith(".command"):
        with suppress(ValueError):
            yield from shlex.split(value)


def _permission_row(cluster: str, doing: str, found: Found) -> CheckRow:
    is_allowed, finding = found
    if is_allowed is None:
        return unknown(cluster, _permission(doing), finding)
    if is_allowed:
        return ok(cluster, _permission(doing), finding)
    return warn(cluster, _permission(doing), finding, SEE_ACLS)


def _permission(doing: str) -> str:
    return f"permission: {doing}"


def _of_all(operations: Operations, noun: str, resource: str) -> Found:
    if operations is None:
        return None, NOT_REPORTED
    if AclOperation.DESCRIBE in operations:
        return True, f"all {noun} (Describe on {resource})"
    return False, f"not of all {noun}: Describe on {resource} is missing"


def _of_offsets_topic(permissions: Permissions) -> Found:
    if permissions.offsets_topic is None:
        return None, NOT_REPORTED
    if READ in permissions.offsets_topic:
        return True, "allowed (Read on __consumer_offsets)"
    return False, "Read on __consumer_offsets is missing: no commit times"


def _of_change(permissions: Permissions, need: _Need) -> Found:
    if not permissions.has_offsets_topic:
        return None, "no group has ever committed on this cluster"
    found = [_count(permissions.groups, permissions.any_group, need.group, "group")]
    if need.topic:
        found.append(_count(permissions.topics, permissions.any_topic, need.topic, "topic"))
    if None in [is_allowed for is_allowed, _ in found]:
        return None, NOT_REPORTED
    return all(is_allowed for is_allowed, _ in found), ", ".join(words for _, words in found)


def _count(
    names: Mapping[str, Operations], any_name: Operations, operation: AclOperation, noun: str
) -> Found:
    """Return whether an operation is allowed on each name or, without names, on any."""
    allowed = [*names.values()] or [any_name]
    if None in allowed:
        return None, NOT_REPORTED
    count = sum(operation in (found or ()) for found in allowed)
    is_allowed = count == len(allowed)
    word = operation.name.title().replace("_", "")
    if not names:
        return is_allowed, f"{word} on {'any' if is_allowed else 'no'} {noun}"
    limit = "the first " if len(names) == MAX_NAMES else ""
    return is_allowed, f"{word} on {count:,} of {limit}{counted(len(names), noun)}"
