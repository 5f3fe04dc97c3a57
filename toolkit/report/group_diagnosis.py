"""One group: its members, lag, stuck partitions, and the records they are stuck on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from toolkit.model import Group, Snapshot, TopicPartition
from toolkit.model.names import shown_name
from toolkit.planning.diagnosis.next_steps import next_steps
from toolkit.planning.diagnosis.progress_rules import Verdict
from toolkit.planning.frames.snapshot_frames import groups_with_lag
from toolkit.planning.lag.lag import lag_in_words
from toolkit.planning.selection.partition_selection import scopes_of
from toolkit.planning.selection.peek_places import PeekRequest, peek_places
from toolkit.report.cell_text import frame_text, report_text
from toolkit.report.conclusion import conclude
from toolkit.report.headline import show_headline
from toolkit.report.next_step_list import OpenSteps, ShownStep, shown_step
from toolkit.report.notices import NoticeTone, show_read_errors
from toolkit.report.paused_report import find_paused, show_paused
from toolkit.report.peek_report import PeekReport
from toolkit.report.run_command import NotebookCall
from toolkit.report.safe_names import visible_lines
from toolkit.report.tables import show_empty, show_table

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
        return visible_lines("\n".join(frame_text(f) for f in (self.group_row, self.members)))

    def _ipython_display_(self) -> None:
        show_read_errors(self.facts)
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


class GroupSurroundings(NamedTuple):
    """
    What a diagnosis needs beside its facts, from the session that made it.

    `where` has cluster, fleet_file and state as they were given. `offer_to_save` returns a button.
    """

    where: Mapping[str, object]
    state: Path
    read_records: Callable[[PeekRequest], PeekReport]
    offer_to_save: Callable[[PeekReport], object]
    open_steps: OpenSteps


@dataclass(frozen=True, eq=False, repr=False)
class GroupDiagnosis:
    """
    Two samples of one group.

    `facts` is the second one, `partitions` what `diagnose_partitions` returns for it, and `members`
    one row for each member, see `members_frame`.
    """

    facts: Snapshot
    group: Group
    partitions: pd.DataFrame
    members: pd.DataFrame
    surroundings: GroupSurroundings

    @property
    def stuck(self) -> list[str]:
        """The partitions that are stuck, as scopes such as `topic:0-2`."""
        return self._scopes(Verdict.STUCK)

    @property
    def summary(self) -> str:
        verdicts = [
            word for verdict in VERDICTS_IN_SUMMARY if (word := self._verdict_text(verdict))
        ]
        lags = self.partitions["lag"]
        waits = f"lag {lag_in_words(lags) if lags.notna().any() else 'unknown'}"
        if self.partitions.empty:
            waits = "no committed offsets"
        cluster, name, state = self.facts.cluster, self.group.group_id, self.group.state
        return f"{cluster}: group {shown_name(name)} is {state}; {'; '.join([*verdicts, waits])}"

    def show_records(
        self, topics: Sequence[str] = (), *, before: int = 2, after: int = 3
    ) -> object:
        """
        Show the records around the committed offsets of some partitions; commits nothing.

        `topics` are scopes such as `topic:0-5`; without any, the first partitions that make no
        progress. With `after` 0 no records are shown. Returns what saves them, if there are some.
        """
        if not after:
            show_empty("Records are not shown (after = 0).")
            return None
        has_records = self.partitions["verdict"].isin(VERDICTS_WITH_RECORDS)
        places = peek_places(self.partitions, has_records)
        found = self.surroundings.read_records(PeekRequest(places, topics, before, after))
        found._ipython_display_()
        return self.surroundings.offer_to_save(found) if found.around.records else None

    @property
    def steps(self) -> list[ShownStep]:
        """What to do next, most urgent first."""
        steps = next_steps(self.partitions, self.group, cluster=self.facts.cluster)
        return [
            shown_step(
                step.title,
                step.why,
                NotebookCall(step.notebook, step.parameters),
                self.surroundings.where if step.notebook else {},
            )
            for step in steps
        ]

    def show_next_steps(self) -> object:
        """Show what to do next, most urgent first; where it can be clicked, return the buttons."""
        return self.surroundings.open_steps(self.steps)

    def conclude(self) -> None:
        """End a notebook with the finding, the partitions without progress and the next step."""
        stuck = int((self.partitions["verdict"] == str(Verdict.STUCK)).sum())
        conclude(self.summary, findings=stuck, problems=len(self.facts.read_errors))
        worst = self.partitions[self.partitions["verdict"].isin(VERDICTS_IN_SUMMARY)]
        tone = NoticeTone.WARN if len(worst) else NoticeTone.GOOD
        show_headline(
            worst[["topic", "partition", "verdict", "why", "lag"]],
            title="Partitions without progress",
            tone=NoticeTone.BAD if self.stuck else tone,
            steps=self.steps[:1],
        )

    def __repr__(self) -> str:
        return report_text(self.summary, self.partitions[COLUMNS])

    def _ipython_display_(self) -> None:
        show_read_errors(self.facts)
        show_table(
            self.partitions[COLUMNS],
            caption_text=f"Partitions (stuck: {', '.join(self.stuck) or 'none'})",
            empty_text="No committed offsets and no assigned partitions.",
        )
        show_paused(find_paused(self.facts, self.surroundings.state))

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
