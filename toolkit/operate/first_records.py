"""Read the first records that a plan skips, and the first unread records of a group."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from toolkit.errors import ToolkitError
from toolkit.model import Cluster, Snapshot, TopicPartition
from toolkit.model.records import FirstRecord
from toolkit.plan import Plan
from toolkit.planning.changes.skipped_ranges import skipped_ranges


def with_first_records(plan: Plan, facts: Snapshot, cluster: Cluster) -> Snapshot:
    """
    Return facts with the first record of each short range that a plan skips.

    A range that cannot be read stays unknown: all its offsets then count as records.
    """
    ranges = list(skipped_ranges(plan, facts))
    if not ranges:
        return facts
    # Loads Arrow, which most plans need not do.
    from toolkit.kafka_io.logs.record_times import read_first_records  # noqa: PLC0415

    with suppress(ToolkitError):
        found = read_first_records(cluster, ranges, committed=True)
        offsets = {position: first.offset for position, first in found.items()}
        return replace(facts, first_records=offsets)
    return facts


def first_unread(cluster: Cluster, facts: Snapshot) -> dict[TopicPartition, FirstRecord]:
    """
    Return the first unread record of each partition with lag, of the snapshot of one group.

    Aborted records do not count; while a transaction is open, all records count, because it is not
    decided which are committed. A partition that could not be read is missing. Raises
    ClusterUnreachable and BrokerRefused.
    """
    behind = [
        (log.last_stable == log.log_end, (place, commit.offset))
        for commit in facts.commits
        if (log := facts.logs.get(place := TopicPartition(commit.topic, commit.partition)))
        and log.log_end is not None
        and commit.offset < log.log_end
    ]
    found: dict[TopicPartition, FirstRecord] = {}
    for is_settled in (True, False):
        positions = [position for settled, position in behind if settled is is_settled]
        if positions:
            from toolkit.kafka_io.logs.record_times import read_first_records  # noqa: PLC0415

            first = read_first_records(cluster, positions, committed=is_settled)
            found |= {place: record for (place, _), record in first.items()}
    return found
