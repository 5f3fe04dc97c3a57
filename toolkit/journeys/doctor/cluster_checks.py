"""Check a cluster: do its brokers answer, which release, what may this user do, what is paused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

from toolkit.errors import BrokerRefused, ToolkitError
from toolkit.journeys.doctor.check_row import CheckRow, CheckStatus, error, ok, unknown, warn
from toolkit.journeys.doctor.masking import masked, masks_of
from toolkit.journeys.doctor.permission_rows import permission_rows
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.cluster.broker_versions import BrokerVersion, read_broker_versions
from toolkit.kafka_io.cluster.controller_clock import read_clock_difference
from toolkit.kafka_io.cluster.permissions import read_permissions
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster
from toolkit.model.names import shown_name
from toolkit.model.plurals import counted

CLUSTERS_AT_ONCE = 16
OLDEST_TESTED = 20  # metadata.version of 3.8, the last before 3.9
REPORTS_GROUP_CONFIGS = 22  # metadata.version from which brokers report them: 4.0
# Ages and time lag compare broker time with this machine's.
LARGEST_DIFFERENCE = timedelta(seconds=5)
LISTS_PAUSED = (
    "'offsetbook paused-partitions' shows who paused them until when; 'offsetbook resume' ends it"
)

Told = Callable[[ToolkitError], tuple[str, str]]  # an error as finding and hint


def check_clusters(clusters: Sequence[Cluster], *, mask: bool) -> list[CheckRow]:
    """
    Check clusters side by side, each within its timeout for each request.

    With `mask`, no row has a value of a setting. A cluster that does not answer is a row.
    """
    with ThreadPoolExecutor(max_workers=CLUSTERS_AT_ONCE) as pool:
        found = pool.map(partial(check_cluster, mask=mask), clusters)
        return [row for rows in found for row in rows]


def check_cluster(cluster: Cluster, *, mask: bool = False) -> list[CheckRow]:
    """Return the rows of one cluster; only the connection's, with the reason, if there is none."""
    masks = masks_of(cluster) if mask else {}

    def told(exc: ToolkitError) -> tuple[str, str]:
        return masked(exc.problem, masks), masked(exc.hint, masks)

    try:
        with Connection(cluster) as connection:
            return [*_rows(cluster, connection, told)]
    except ToolkitError as exc:
        return [error(cluster.name, "connection", *told(exc))]


def _rows(cluster: Cluster, connection: Connection, told: Told) -> Iterator[CheckRow]:
    versions = read_broker_versions(connection)
    yield _connection_row(cluster, connection, versions, told)
    yield _version_row(cluster, versions)
    known = [one.supported for one in versions if one.supported is not None]
    try:
        permissions = read_permissions(connection)
    except ToolkitError as exc:
        yield unknown(cluster.name, "permissions", *told(exc))
    else:
        reports = bool(known) and min(known) >= REPORTS_GROUP_CONFIGS
        yield from permission_rows(cluster, permissions, reports_group_configs=reports)
    yield _clock_row(cluster, connection, told)
    yield _paused_row(cluster, told)


def _connection_row(
    cluster: Cluster, connection: Connection, versions: Sequence[BrokerVersion], told: Told
) -> CheckRow:
    silent = [one for one in versions if one.error]
    all_of = f"cluster id {connection.cluster_id}, {counted(len(versions), 'broker')}"
    if not silent:
        return ok(cluster.name, "connection", f"{all_of}, each answers")
    why, hint = told(silent[0].error) if silent[0].error else ("", "")
    ids = ", ".join(str(one.node_id) for one in silent)
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


def _clock_row(cluster: Cluster, connection: Connection, told: Told) -> CheckRow:
    check = "clock"
    try:
        clock = read_clock_difference(connection)
    except ToolkitError as exc:
        why, _ = told(exc)
        return unknown(cluster.name, check, f"only a KRaft controller reports its time: {why}")
    ahead_s, error_s = clock.ahead.total_seconds(), clock.error.total_seconds()
    finding = (
        f"controller {clock.controller_id} is {ahead_s:+.3f} s from this machine "
        f"(± {error_s:.3f} s); other brokers do not report their time"
    )
    if abs(clock.ahead) > LARGEST_DIFFERENCE + clock.error:
        hint = "synchronise the clocks: ages, time lag and expiry are wrong by that much"
        return warn(cluster.name, check, finding, hint)
    return ok(cluster.name, check, finding)


def _paused_row(cluster: Cluster, told: Told) -> CheckRow:
    """Say what is paused, by whoever: also what nobody keeps any more, or is past its end."""
    check = "paused partitions"
    try:
        facts = read_snapshot(cluster, offsets=False)
    except ToolkitError as exc:
        return unknown(cluster.name, check, *told(exc))
    held = {group.group_id: group.paused for group in facts.groups if group.paused}
    unread = ""
    if facts.problems:
        why, _ = told(BrokerRefused(facts.problems[0].why))  # without values of settings
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
