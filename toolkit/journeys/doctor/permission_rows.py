"""Turn the operations that brokers report into what this user can do with offsetbook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from toolkit.journeys.doctor.check_row import CheckRow, ok, unknown, warn
from toolkit.kafka_io.cluster.permissions import MOST_ASKED, AclOperation, Operations, Permissions
from toolkit.model import Cluster
from toolkit.model.plurals import counted

SEE_ACLS = "docs/acls.md lists the ACLs of each role"
READ, DELETE = AclOperation.READ, AclOperation.DELETE
ALTER_CONFIGS = AclOperation.ALTER_CONFIGS
NOT_REPORTED = "the broker does not report it"


class Need(NamedTuple):
    """Something to do, the operations that it needs, and whether it changes the cluster."""

    doing: str
    group: AclOperation
    topic: AclOperation | None


CHANGES = (
    Need("commit offsets", READ, READ),
    Need("delete offsets", DELETE, READ),
    Need("delete groups", DELETE, None),
    Need("alter group configs", ALTER_CONFIGS, None),
)


def permission_rows(
    cluster: Cluster, permissions: Permissions, *, reports_group_configs: bool
) -> Iterator[CheckRow]:
    """
    Yield a row for each thing to do that needs a permission.

    Where the cluster is `read_only` in the fleet file, changes need none. Brokers before 4.0 do not
    report the operation that changes group configs.
    """
    yield _row(cluster.name, "describe groups", _of_all(permissions.cluster, "groups", "Cluster"))
    yield _row(cluster.name, "describe topics", _of_all(permissions.any_topic, "topics", "Topic:*"))
    yield _row(cluster.name, "read offsets topic", _of_offsets_topic(permissions))
    for need in CHANGES:
        is_reported = reports_group_configs or need.group is not ALTER_CONFIGS
        found = _of_change(permissions, need) if is_reported else (None, NOT_REPORTED)
        if found[0] is False and cluster.policy.read_only:
            yield ok(cluster.name, _name(need.doing), f"{found[1]}; the cluster is read_only")
        else:
            yield _row(cluster.name, need.doing, found)
    why = "brokers do not report permissions on transactional ids, which 'offsetbook move' needs"
    yield unknown(cluster.name, _name("move offsets"), why, SEE_ACLS)


Found = tuple[bool | None, str]  # whether it is allowed, and what was found


def _row(cluster: str, doing: str, found: Found) -> CheckRow:
    is_allowed, finding = found
    if is_allowed is None:
        return unknown(cluster, _name(doing), finding)
    if is_allowed:
        return ok(cluster, _name(doing), finding)
    return warn(cluster, _name(doing), finding, SEE_ACLS)


def _name(doing: str) -> str:
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


def _of_change(permissions: Permissions, need: Need) -> Found:
    if not permissions.has_offsets_topic:
        return None, "no group has ever committed on this cluster"
    asked = [_Asked(permissions.groups, permissions.any_group, need.group, "group")]
    if need.topic:
        asked.append(_Asked(permissions.topics, permissions.any_topic, need.topic, "topic"))
    found = [_count(one) for one in asked]
    if None in [is_allowed for is_allowed, _ in found]:
        return None, NOT_REPORTED
    return all(is_allowed for is_allowed, _ in found), ", ".join(words for _, words in found)


class _Asked(NamedTuple):
    names: Mapping[str, Operations]
    any_name: Operations
    operation: AclOperation
    noun: str


def _count(asked: _Asked) -> Found:
    """Return whether an operation is allowed on each name, or on any where there is none."""
    names = asked.names or {"": asked.any_name}
    if None in names.values():
        return None, NOT_REPORTED
    operation = asked.operation.name.title().replace("_", "")
    count = sum(asked.operation in (found or ()) for found in names.values())
    is_allowed = count == len(names)
    if not asked.names:
        return is_allowed, f"{operation} on {'any' if is_allowed else 'no'} {asked.noun}"
    limit = "the first " if len(names) == MOST_ASKED else ""
    words = f"{operation} on {count:,} of {limit}{counted(len(names), asked.noun)}"
    return is_allowed, words
