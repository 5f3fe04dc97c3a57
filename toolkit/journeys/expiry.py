"""Which committed offsets expire, and which would if their group stopped (KIP-211)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolkit.journeys.fleet import fleet as read_fleet
from toolkit.model.times import parse_duration
from toolkit.planning.expiry.expiry_forecast import select_expiring
from toolkit.report.fleet_report import ExpiryReport, FleetReport


def expiry(
    fleet: FleetReport | Sequence[str],
    *,
    within: str = "3d",
    fleet_file: Path | str | None = None,
    spark_master: str = "",
) -> ExpiryReport:
    """
    Forecast which committed offsets expire within a time.

    Takes a fleet that was read, or names of clusters, which are read then as by `fleet`. Raises
    UsageError, before anything is read, and what `fleet` raises.
    """
    length_s = parse_duration(within).total_seconds()
    if not isinstance(fleet, FleetReport):
        fleet = read_fleet(fleet, fleet_file=fleet_file, spark_master=spark_master)
    partitions = fleet.frames.partitions
    return ExpiryReport(
        fleet, select_expiring(partitions, now=fleet.taken_at, within_s=length_s), within
    )
