"""How every group of a cluster is, in one word, from two samples a few seconds apart."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from toolkit.errors import ToolkitError
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.logs.log_offsets import read_offsets_at
from toolkit.kafka_io.read_snapshot import Progress, read_snapshot
from toolkit.model import Snapshot
from toolkit.model.rows import Rows
from toolkit.model.times import parse_duration
from toolkit.planning.diagnosis.group_health import (
    doubtful_positions,
    group_health,
    unread_partitions,
    worst_first,
)
from toolkit.report.health_report import HealthReport

SAMPLE_INTERVAL, STUCK_AFTER = "2s", "60s"


@dataclass(frozen=True, eq=False)
class EarlierSample:
    """The first of two samples of a cluster, and its end, of a clock that only goes forward."""

    facts: Snapshot
    ended_s: float


def earlier_sample(access: ClusterAccess, groups: Sequence[str] = ()) -> EarlierSample:
    return EarlierSample(_read(access, groups), time.monotonic())


def health(
    access: ClusterAccess,
    groups: Sequence[str] = (),
    *,
    sample_interval: str = SAMPLE_INTERVAL,
    stuck_after: str = STUCK_AFTER,
    first: EarlierSample | None = None,
) -> HealthReport:
    """
    Take two samples of groups and say how each is; see `group_health`.

    The second begins `sample_interval` after the end of the first. Reads committed offsets, log
    offsets and members, and records at `doubtful_positions`, but not `__consumer_offsets`. `first`
    is the first sample, if there was one. Raises UsageError and ClusterUnreachable; other read
    errors are rows in `facts.problems`.
    """
    interval_s = parse_duration(sample_interval).total_seconds()
    stuck_after_s = parse_duration(stuck_after).total_seconds()
    first = first or earlier_sample(access, groups)
    access.on_progress(Progress("second sample", 0, 1))
    time.sleep(max(0.0, interval_s - (time.monotonic() - first.ended_s)))
    apart_s = time.monotonic() - first.ended_s
    second = _with_offsets_at(access, _read(access, groups), stuck_after_s)
    if positions := doubtful_positions(first.facts, second):
        # Loads Arrow, which is needed only if a partition makes no progress.
        from toolkit.kafka_io.logs.record_times import read_first_records  # noqa: PLC0415

        with suppress(ToolkitError):  # without READ on a topic, all offsets count as records
            found = read_first_records(access.cluster, positions, committed=True)
            offsets = {position: first.offset for position, first in found.items()}
            second = replace(second, first_records=offsets)
    rows = group_health(first.facts, second, stuck_after_s=stuck_after_s, apart_s=apart_s)
    return HealthReport(second.with_problems_of(first.facts), rows)


def all_rows(reports: Sequence[HealthReport]) -> Rows:
    """Return the rows of several clusters as one table, worst first."""
    return worst_first(report.rows.rows for report in reports)


def _read(access: ClusterAccess, groups: Sequence[str]) -> Snapshot:
    return read_snapshot(access.cluster, groups=groups, on_progress=access.on_progress)


def _with_offsets_at(access: ClusterAccess, facts: Snapshot, ago_s: float) -> Snapshot:
    """Add where the logs with unread records stood some time before."""
    at = facts.taken_at - timedelta(seconds=ago_s)
    with connected(access.cluster) as connection:
        at_time, problems = read_offsets_at(connection, dict.fromkeys(unread_partitions(facts), at))
    return replace(facts, at=at, at_time=at_time, problems=(*facts.problems, *problems))
