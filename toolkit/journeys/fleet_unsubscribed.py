"""Unsubscribed offsets of one cluster or of a whole fleet, and the plans that delete them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from toolkit.errors import NotFound, ToolkitError
from toolkit.journeys.cluster_access import ClusterAccess, find_clusters
from toolkit.journeys.open_next_step import open_or_show
from toolkit.journeys.unsubscribed import UnsubscribedReport
from toolkit.journeys.unsubscribed import unsubscribed as of_cluster
from toolkit.model import Cluster, Problem, Unread
from toolkit.model.names import ExactName
from toolkit.model.plurals import counted
from toolkit.planning.frames.snapshot_frames import problems_frame
from toolkit.report.conclusion import conclude
from toolkit.report.headline import show_headline
from toolkit.report.next_step_list import ShownStep
from toolkit.report.notices import NoticeTone
from toolkit.report.progress_line import progress_line
from toolkit.report.run_command import NotebookCall, run_command

if TYPE_CHECKING:
    from widgets.next_steps import NextSteps

AT_ONCE = 8  # clusters
DELETE = "60_delete_offsets"


@dataclass(frozen=True, eq=False, repr=False)
class FleetUnsubscribed:
    """The reports of the clusters that could be read, and in `problems` all that could not."""

    reports: tuple[UnsubscribedReport, ...]
    problems: pd.DataFrame
    fleet_file: str

    @property
    def rows(self) -> pd.DataFrame:
        """One row for each unsubscribed offset, by cluster, largest lag first."""
        return pd.concat([report.rows for report in self.reports], ignore_index=True)

    @property
    def summary(self) -> str:
        """The finding in one sentence."""
        if len(self.reports) == 1:
            return self.reports[0].summary
        rows, skipped = self.rows, sum(len(report.found.left_out) for report in self.reports)
        groups = len(rows[["cluster", "group"]].drop_duplicates())
        return (
            f"{counted(len(self.reports), 'cluster')}: "
            f"{counted(len(rows), 'unsubscribed offset')} in {counted(groups, 'group')}, "
            f"whose lag of {rows['lag'].sum():,} they will not read; "
            f"{counted(skipped, 'group')} skipped, {counted(len(self.problems), 'read error')}."
        )

    @property
    def steps(self) -> list[ShownStep]:
        """The deletion of what was found, one step for each cluster, largest lag first."""
        found = [report for report in self.reports if len(report.rows)]
        found.sort(key=lambda report: -report.rows["lag"].sum())
        return [self._step(report) for report in found]

    def show_next_steps(self) -> NextSteps | None:
        """Show for each cluster the notebook that deletes what was found there."""
        nothing = ShownStep("Nothing to do", "No live group has unsubscribed offsets.")
        return open_or_show(self.steps or [nothing])

    def _step(self, report: UnsubscribedReport) -> ShownStep:
        groups = sorted(map(ExactName, set(report.rows["group"])))
        where = {"cluster": report.facts.cluster, "fleet_file": self.fleet_file}
        parameters = {"groups": groups, "unsubscribed": True}
        return ShownStep(
            f"Delete the unsubscribed offsets on {report.facts.cluster}",
            "If their groups do not read these topics again. The offsets are saved first, and the "
            "groups stay live; to put the offsets back, a group must have no members.",
            DELETE,
            {name: value for name, value in where.items() if value} | parameters,
            run_command(NotebookCall(DELETE, parameters), where),
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
        """Return the finding and the offsets of each cluster as text."""
        return "\n".join([self.summary, *map(repr, self.reports)])

    def _ipython_display_(self) -> None:
        """Show read errors, and what was found on each cluster."""
        from toolkit.report.tables import show_problems  # noqa: PLC0415 - only notebooks come here

        show_problems(self.problems)
        for report in self.reports:
            report.show_found()


def unsubscribed(
    clusters: str | Sequence[str] = (),
    groups: Sequence[str] = (),
    *,
    fleet_file: Path | str | None = None,
) -> FleetUnsubscribed:
    """
    Find the unsubscribed offsets of clusters, by name or HOST:PORT, or of the whole fleet.

    `groups` are names and shell patterns; none means all. A cluster that cannot be read is a row in
    `problems`. Raises NotFound if no cluster has such a group, UsageError, and ClusterUnreachable
    if no cluster could be read.
    """
    path = Path(fleet_file) if fleet_file else None
    names = [name for name in ([clusters] if isinstance(clusters, str) else clusters) if name]
    chosen = find_clusters(names, path)

    def read(cluster: Cluster) -> UnsubscribedReport | ToolkitError:
        try:
            return of_cluster(ClusterAccess(cluster, fleet_file=path), groups)
        except ToolkitError as exc:
            return exc

    with (
        progress_line(f"reading {counted(len(chosen), 'cluster')}"),
        ThreadPoolExecutor(AT_ONCE) as readers,
    ):
        found = dict(zip((c.name for c in chosen), readers.map(read, chosen), strict=True))
    reports = tuple(one for one in found.values() if isinstance(one, UnsubscribedReport))
    failed = {name: one for name, one in found.items() if isinstance(one, ToolkitError)}
    # That a group is not on every cluster is no error.
    unread = {name: exc for name, exc in failed.items() if not isinstance(exc, NotFound)}
    if not reports:
        raise next(iter((unread or failed).values()))
    frames = [problems_frame(r.facts.read_errors, cluster=r.facts.cluster) for r in reports]
    frames += [
        problems_frame([Problem(Unread.CLUSTER, str(exc))], cluster=name)
        for name, exc in unread.items()
    ]
    problems = pd.concat([frame for frame in frames if len(frame)] or frames[:1])
    return FleetUnsubscribed(reports, problems, str(fleet_file or ""))
