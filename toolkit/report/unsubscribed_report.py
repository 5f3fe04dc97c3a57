"""Unsubscribed offsets of a cluster and of a fleet, and the notebooks that delete them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from toolkit.model import Snapshot
from toolkit.model.names import ExactName
from toolkit.model.plurals import counted
from toolkit.model.rows import concatenated
from toolkit.planning.lag.lag import lag_in_words
from toolkit.planning.unsubscribed.unsubscribed_offsets import Unsubscribed, find_unsubscribed
from toolkit.report.cell_text import report_text
from toolkit.report.conclusion import conclude
from toolkit.report.headline import show_headline
from toolkit.report.lag_report import show_unsubscribed_lag_chart
from toolkit.report.next_step_list import OpenSteps, ShownStep, show_steps, shown_step
from toolkit.report.notices import NoticeTone, show_read_errors
from toolkit.report.run_command import NotebookCall
from toolkit.report.tables import show_problems, show_table

if TYPE_CHECKING:
    import pandas as pd

DELETE = "60_delete_offsets"


@dataclass(frozen=True, eq=False, repr=False)
class UnsubscribedReport:
    """The unsubscribed offsets of live groups in `found`, and the facts they were found in."""

    facts: Snapshot
    found: Unsubscribed

    def of_groups(self, groups: Sequence[str]) -> UnsubscribedReport:
        """Return the report of groups, by name and pattern; raises as `find_unsubscribed` does."""
        if not groups:
            return self
        return UnsubscribedReport(self.facts, find_unsubscribed(self.facts, groups=groups))

    @property
    def rows(self) -> pd.DataFrame:
        """One row for each unsubscribed offset, largest lag first; see `Unsubscribed`."""
        return self.found.rows

    @property
    def summary(self) -> str:
        return _summary(self.facts.cluster, self.found, read_errors=len(self.facts.read_errors))

    def __repr__(self) -> str:
        return report_text(self.summary, self.rows)

    def _ipython_display_(self) -> None:
        show_read_errors(self.facts)
        self.show_found()

    def show_found(self) -> None:
        show_unsubscribed_lag_chart(self.found.by_group)
        show_table(
            self.rows.drop(columns="deletable_now"),
            caption_text="Unsubscribed offsets",
            empty_text="No unsubscribed offsets.",
        )
        show_table(
            self.found.left_out,
            caption_text="Skipped groups",
            empty_text="No group was skipped."
            if self.facts.read_errors
            else "All groups with commits were checked.",
        )


@dataclass(frozen=True, eq=False, repr=False)
class FleetUnsubscribed:
    """The reports of the clusters that could be read, and in `problems` all that could not."""

    reports: tuple[UnsubscribedReport, ...]
    problems: pd.DataFrame
    fleet_file: str
    open_steps: OpenSteps = show_steps

    @cached_property
    def found(self) -> Unsubscribed:
        found = [report.found for report in self.reports]
        return Unsubscribed(
            concatenated([one.offset_rows for one in found]),
            concatenated([one.group_rows for one in found]),
            concatenated([one.skipped for one in found]),
        )

    @property
    def rows(self) -> pd.DataFrame:
        """One row for each unsubscribed offset, by cluster, largest lag first."""
        return self.found.rows

    @property
    def summary(self) -> str:
        read = [report.facts.cluster for report in self.reports]
        where = read[0] if len(read) == 1 else counted(len(read), "cluster")
        return _summary(where, self.found, read_errors=len(self.problems))

    @property
    def steps(self) -> list[ShownStep]:
        """The deletion of the found offsets, one step for each cluster, largest lag first."""
        found = [report for report in self.reports if len(report.rows)]
        found.sort(key=lambda report: -report.rows["lag"].sum())
        return [self._step(report) for report in found]

    def show_next_steps(self) -> object:
        which = "live group that could be read" if len(self.problems) else "live group"
        nothing = ShownStep("Nothing to do", f"No {which} has unsubscribed offsets.")
        return self.open_steps(self.steps or [nothing])

    def _step(self, report: UnsubscribedReport) -> ShownStep:
        groups = sorted(map(ExactName, set(report.rows["group"])))
        return shown_step(
            f"Delete the unsubscribed offsets on {report.facts.cluster}",
            "If their groups do not read these topics again. The offsets are saved first, and the "
            "groups stay live; undo puts them back while no member subscribes to the topic.",
            NotebookCall(DELETE, {"groups": groups, "unsubscribed": True}),
            {"cluster": report.facts.cluster, "fleet_file": self.fleet_file},
        )

    def conclude(self) -> None:
        """End a notebook with the finding, the offsets with the largest lag and the next step."""
        rows = self.rows
        conclude(self.summary, findings=len(rows), problems=len(self.problems))
        largest = rows.sort_values("lag", ascending=False, kind="stable")
        show_headline(
            largest[["cluster", "group", "topic", "partition", "lag", "committed_at"]],
            title="Unsubscribed offsets with the largest lag",
            tone=NoticeTone.WARN if len(rows) else NoticeTone.GOOD,
            steps=self.steps[:1],
        )

    def __repr__(self) -> str:
        return "\n".join([self.summary, *map(repr, self.reports)])

    def _ipython_display_(self) -> None:
        show_problems(self.problems)
        for report in self.reports:
            report.show_found()


def _summary(where: str, found: Unsubscribed, *, read_errors: int) -> str:
    rows, skipped = found.rows, len(found.left_out)
    groups = len(rows[["cluster", "group"]].drop_duplicates())
    return (
        f"{where}: {counted(len(rows), 'unsubscribed offset')} in {counted(groups, 'group')}, "
        f"whose lag of {lag_in_words(rows['lag'])} they will not read; "
        f"{counted(skipped, 'group')} skipped, {counted(read_errors, 'read error')}."
    )
