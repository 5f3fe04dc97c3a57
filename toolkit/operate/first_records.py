"""A look at what a plan skips, before it is said how many records that is."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from toolkit.errors import ToolkitError
from toolkit.model import Cluster, Snapshot
from toolkit.plan import Plan
from toolkit.planning.changes.skipped_ranges import skipped_ranges


def with_first_records(plan: Plan, facts: Snapshot, cluster: Cluster) -> Snapshot:
    """
    Return facts with the first record of each short range that a plan skips.

    What cannot be read stays unknown: all its offsets then count as records.
    """
    wanted = list(skipped_ranges(plan, facts))
    if not wanted:
        return facts
    # Loads librdkafka, which most plans need not do.
    from toolkit.kafka_io.logs.record_times import read_first_committed  # noqa: PLC0415

    with suppress(ToolkitError):
        return replace(facts, first_records=read_first_committed(cluster, wanted))
    return facts
