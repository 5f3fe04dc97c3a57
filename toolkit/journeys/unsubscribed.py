"""Committed offsets of topics that a live group no longer subscribes to."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model.names import EVERY_NAME
from toolkit.planning.unsubscribed.unsubscribed_offsets import find_unsubscribed, uncheckable_reason
from toolkit.report.unsubscribed_report import UnsubscribedReport


def unsubscribed(access: ClusterAccess, groups: Sequence[str] = ()) -> UnsubscribedReport:
    """
    Find the unsubscribed offsets of all live groups, or of groups by name and shell pattern.

    Reads the whole cluster in either case, to find the other groups that subscribe to each topic.
    Times of commits are read only of groups whose subscription is known. A name that no group has
    is a problem in the report. Raises NotFound if no group has any of the names, BrokerRefused if
    not all groups could be listed for that, and ClusterUnreachable.
    """
    facts = read_snapshot(
        access.cluster,
        groups=(EVERY_NAME, *groups) if groups else (),
        commit_times=lambda group: not uncheckable_reason(group),
        on_progress=access.on_progress,
    )
    return UnsubscribedReport(facts, find_unsubscribed(facts, groups=groups))
