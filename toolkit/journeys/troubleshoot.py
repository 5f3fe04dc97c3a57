"""Diagnose one group: its members, lag, stuck partitions, and the records they are stuck on."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from toolkit.errors import PrerequisiteMissing
from toolkit.journeys.change.group_choice import one_group
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.journeys.open_next_step import open_or_show
from toolkit.journeys.peek import PeekPlace, PeekReport, read_around
from toolkit.kafka_io.read_snapshot import read_one_group
from toolkit.model import Cluster, Group, Snapshot, TopicPartition
from toolkit.model.names import shown_name
from toolkit.model.records import FirstRecord
from toolkit.model.times import parse_duration
from toolkit.operate.first_records import first_unread
from toolkit.planning.diagnosis.next_steps import next_steps
from toolkit.planning.diagnosis.progress_diagnosis import diagnose_partitions
from toolkit.planning.diagnosis.progress_rules import Verdict
from toolkit.planning.frames.snapshot_frames import (
    groups_with_lag,
    members_frame,
    offsets_frame,
    problems_frame,
)
from toolkit.planning.lag.lag import with_lag
from toolkit.planning.selection.partition_selection import scopes_of
from toolkit.report.conclusion import conclude
from toolkit.report.frame_text import frame_text
from toolkit.report.headline import show_headline
from toolkit.report.next_step_list import ShownStep, shown_step
from toolkit.report.notices import NoticeTone
from toolkit.report.paused_report import find_paused, show_paused
from toolkit.report.progress_line import progress_line
from toolkit.report.run_command import NotebookCall, shell_word
from toolkit.report.safe_names import visible_lines
from toolkit.report.tables import show_problems, show_table

if TYPE_CHECKING:
    from widgets.next_steps import NextSteps
    from widgets.record_saver import RecordSaver

COLUMNS = ["topic", "partition", "verdict", "why", "lag", "committed_delta", "committed", "owner"]
MAX_TOPICS_IN_SUMMARY = 3  # topics in a sentence
VERDICTS_WITH_RECORDS = (
    Verdict.STUCK,
    Verdict.POSSIBLY_STUCK,
    Verdict.OUT_OF_RANGE,
    Verdict.TRANSACTION,
)
VERDICTS_IN_SUMMARY = (*VERDICTS_WITH_RECORDS, Verdict.PAUSED, Verdict.UNSUBSCRIBED)


@dataclass(frozen=True, eq=False, repr=False)
class FirstSample:
    """
    The first sample of one group.

    `partitions` has the columns of `with_lag`, `members` one row for each member, see
    `members_frame`.
    """

    facts: Snapshot
    group: Group
    partitions: pd.DataFrame
    members: pd.DataFrame
    began_s: float  # of a clock that only goes forward

    @property
    def group_row(self) -> pd.DataFrame:
        """The group in one row: a `groups_frame` with the lag columns of `lag_by_group`."""
        return groups_with_lag(self.facts)

    def __repr__(self) -> str:
        """Return the group and its members as text."""
        return visible_lines("\n".join(frame_text(f) for f in (self.group_row, self.members)))

    def _ipython_display_(self) -> None:
        """Show the group and its members."""
        columns = ["group", "type", "state", "members", "lag", "assignor", "coordinator"]
        show_table(self.group_row[columns], caption_text="Group")
        show_table(
            self.members[
                [
                    "member",
                    "host",
                    "partitions",
                    "assigned_partitions",
                    "paused_partitions",
                    "subscribed",
                ]
            ],
            caption_text="Members",
            empty_text="No members, or the members are unknown.",
        )


@dataclass(frozen=True, eq=False, repr=False)
class GroupDiagnosis:
    """
    Two samples of one group.

    `facts` is the second one, `partitions` what `diagnose_partitions` returns for it, and `members`
    one row for each member, see `members_frame`.
    """

    access: ClusterAccess
    facts: Snapshot
    group: Group
    partitions: pd.DataFrame
    members: pd.DataFrame

    @property
    def stuck(self) -> list[str]:
        """The partitions that are stuck, as scopes such as `topic:0-2`."""
        return self._scopes(Verdict.STUCK)

    @property
    def summary(self) -> str:
        """The finding in one sentence."""
        verdicts = [
            word for verdict in VERDICTS_IN_SUMMARY if (word := self._verdict_text(verdict))
        ]
        lag = self.partitions["lag"].sum(min_count=1)  # null where no partition has any
        waits = "lag unknown" if pd.isna(lag) else f"lag {lag:,}"
        if self.partitions.empty:
            waits = "no committed offsets"
        cluster, name, state = self.facts.cluster, self.group.group_id, self.group.state
        return f"{cluster}: group {shown_name(name)} is {state}; {'; '.join([*verdicts, waits])}"

    def show_records(
        self, topics: Sequence[str] = (), *, before: int = 2, after: int = 3
    ) -> RecordSaver | None:
        """
        Show the records around the committed offsets of some partitions; commits nothing.

        `topics` are scopes such as `topic:0-5`; without any, the first partitions that make no
        progress. With `after` 0 no records are shown. Returns what saves them, if there are some.
        """
        if not after:
            show_table(pd.DataFrame(), empty_text="Records are not shown (after = 0).")
            return None
        places = (
            PeekPlace(
                TopicPartition(row["topic"], int(row["partition"])),
                int(row["committed"]),
                by_default=row["verdict"] in VERDICTS_WITH_RECORDS,
            )
            for row in self.partitions.dropna(subset=["committed"]).to_dict("records")
        )
        group = self.group.group_id
        try:
            found = read_around(self.access, group, places, topics, before=before, after=after)
        except PrerequisiteMissing as exc:
            show_table(pd.DataFrame(), empty_text=f"Records are not shown: {exc}")
            return None
        found._ipython_display_()
        return _saver(found) if found.around.records else None

    @property
    def steps(self) -> list[ShownStep]:
        """What to do next, most urgent first."""
        steps = next_steps(self.partitions, self.group, cluster=self.access.cluster.name)
        return [
            shown_step(
                step.title,
                step.why,
                NotebookCall(step.notebook, step.parameters),
                self.access.where if step.notebook else {},
            )
            for step in steps
        ]

    def show_next_steps(self) -> NextSteps | None:
        """Show what to do next, most urgent first; see `open_or_show`."""
        return open_or_show(self.steps)

    def conclude(self) -> None:
        """End a notebook with the finding, the partitions without progress and the next step."""
        conclude(self.summary, findings=len(self.stuck), problems=len(self.facts.read_errors))
        worst = self.partitions[self.partitions["verdict"].isin(VERDICTS_IN_SUMMARY)]
        tone = NoticeTone.WARN if len(worst) else NoticeTone.GOOD
        show_headline(
            worst[["topic", "partition", "verdict", "why", "lag"]],
            title="Partitions without progress",
            tone=NoticeTone.BAD if self.stuck else tone,
            steps=self.steps[:1],
        )

    def __repr__(self) -> str:
        """Return the finding and the partitions as text."""
        return visible_lines(f"{self.summary}\n{frame_text(self.partitions[COLUMNS], max_rows=20)}")

    def _ipython_display_(self) -> None:
        """Show read errors, the partitions, and which of them are paused."""
        show_problems(problems_frame(self.facts.problems, cluster=self.facts.cluster))
        show_table(
            self.partitions[COLUMNS],
            caption_text=f"Partitions (stuck: {', '.join(self.stuck) or 'none'})",
            empty_text="No committed offsets and no assigned partitions.",
        )
        show_paused(find_paused(self.facts, self.access.state))

    def _verdict_text(self, verdict: Verdict) -> str:
        scopes = self._scopes(verdict)
        shown = ", ".join(scopes[:MAX_TOPICS_IN_SUMMARY])
        more = (
            f" and {len(scopes) - MAX_TOPICS_IN_SUMMARY} more"
            if len(scopes) > MAX_TOPICS_IN_SUMMARY
            else ""
        )
        return f"{verdict}: {shown}{more}" if scopes else ""

    def _scopes(self, verdict: Verdict) -> list[str]:
        rows = self.partitions[self.partitions["verdict"] == str(verdict)]
        pairs = zip(rows["topic"], rows["partition"], strict=True)
        return [str(scope) for scope in scopes_of(TopicPartition(t, int(p)) for t, p in pairs)]


def sample(access: ClusterAccess, group: str | Sequence[str]) -> FirstSample:
    """
    Take the first sample of a group.

    Raises UsageError if not one group is named, NotFound if there is none of that name.
    """
    group = one_group(group, "a diagnosis")
    began_s = time.monotonic()
    facts, found = read_one_group(access.cluster, group, commit_times=True)
    return FirstSample(facts, found, with_lag(offsets_frame(facts)), members_frame(found), began_s)


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
        first_unread=_first_unread(access.cluster, second),
        stuck_after_s=stuck_after_s,
    )
    return GroupDiagnosis(access, second, found, partitions, members_frame(found))


def _first_unread(cluster: Cluster, facts: Snapshot) -> dict[TopicPartition, FirstRecord]:
    try:
        return first_unread(cluster, facts)
    except PrerequisiteMissing:  # in `facts.problems`: the commit times were not read either
        return {}


def _saver(found: PeekReport) -> RecordSaver:
    """Return what saves the records that are shown, and the command that does."""
    from widgets.record_saver import RecordSaver  # noqa: PLC0415 - only notebooks come here

    name = f"records-{re.sub(r'[^A-Za-z0-9.-]+', '_', found.group)[:60]}.jsonl"
    topics = [f"--topic {shell_word(f'{p.topic}:{p.partition}')}" for p in found.positions]
    words = [
        f"offsetbook peek --cluster {shell_word(found.cluster)}",
        f"--group {shell_word(shown_name(found.group))}",
        *topics,
        f"--before {found.before} --after {found.after} --save {name}",
    ]
    return RecordSaver(found.save, name=name, command=" ".join(words))
