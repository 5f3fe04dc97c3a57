"""Diagnose one group: its members, lag, stuck partitions, and the records they are stuck on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from toolkit.journeys.change.group_choice import one_group
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.journeys.open_next_step import open_or_show, saver_of
from toolkit.journeys.peek import read_around
from toolkit.kafka_io.read_snapshot import read_one_group
from toolkit.model.names import shown_name
from toolkit.model.times import parse_duration
from toolkit.operate.first_records import first_unread
from toolkit.planning.diagnosis.progress_diagnosis import diagnose_partitions
from toolkit.planning.frames.snapshot_frames import members_frame, offsets_frame
from toolkit.report.group_diagnosis import FirstSample, GroupDiagnosis, GroupSurroundings
from toolkit.report.progress_line import progress_line


def sample(access: ClusterAccess, group: str | Sequence[str]) -> FirstSample:
    """
    Take the first sample of a group.

    Raises UsageError if not one group is named, NotFound if there is none of that name.
    """
    group = one_group(group, "a diagnosis")
    began_s = time.monotonic()
    facts, found = read_one_group(access.cluster, group, commit_times=True)
    return FirstSample(facts, found, offsets_frame(facts), members_frame(found), began_s)


def troubleshoot(
    access: ClusterAccess,
    group: str | Sequence[str],
    *,
    sample_interval: str = "10s",
    stuck_after: str = "60s",
    first: FirstSample | None = None,
) -> GroupDiagnosis:
    """
    Take two samples of a group, `sample_interval` apart, and diagnose its partitions.

    Changes nothing. `first` is the first sample, if there was one. A lagging partition without
    progress for `stuck_after` is stuck. Raises what `sample` raises.
    """
    apart_s = parse_duration(sample_interval).total_seconds()
    stuck_after_s = parse_duration(stuck_after).total_seconds()
    first = first or sample(access, group)
    group = first.group.group_id
    waited_for = f"second sample of {shown_name(group)}, {sample_interval} after the first"
    with progress_line(waited_for):
        time.sleep(max(0.0, apart_s - (time.monotonic() - first.began_s)))
    second, found = read_one_group(access.cluster, group, commit_times=True)
    partitions = diagnose_partitions(
        first.facts,
        second,
        group_id=group,
        first_unread=first_unread(access.cluster, second),
        stuck_after_s=stuck_after_s,
    )
    surroundings = GroupSurroundings(
        access.where, access.state, partial(read_around, access, group), saver_of, open_or_show
    )
    facts = second.with_problems_of(first.facts)
    return GroupDiagnosis(facts, found, partitions, members_frame(found), surroundings)
