"""How every group of every cluster is doing, from one reading of a fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from toolkit.model.names import ExactName, shown_name
from toolkit.model.plurals import counted
from toolkit.planning.frames.fleet_frames import FleetFrames
from toolkit.planning.lag.group_summary import worst_first
from toolkit.planning.lag.status_rules import ERR, WARN
from toolkit.report.cell_text import report_text
from toolkit.report.conclusion import conclude
from toolkit.report.display import is_headless
from toolkit.report.fleet_charts import (
    show_lag_heat_map,
    show_lag_history,
    show_status_chart,
    show_time_lag_chart,
)
from toolkit.report.headline import show_headline
from toolkit.report.lag_report import show_lag_chart
from toolkit.report.next_step_list import OpenSteps, ShownStep, show_steps, shown_step
from toolkit.report.notices import NoticeTone
from toolkit.report.run_command import NotebookCall
from toolkit.report.safe_names import visible
from toolkit.report.tables import show_problems, show_table

if TYPE_CHECKING:
    import pandas as pd

NAMES = ["cluster", "group"]
MOST_BUTTONS = 5
HISTORY_LINES = 8  # more cannot be distinguished


@dataclass(frozen=True, eq=False, repr=False)
class FleetReport:
    """
    One reading of a fleet: `frames` as pandas, taken at one instant.

    `read_history` reads the `frames.groups` of this and earlier stored runs, if there are some;
    `fleet_file` is as it was given.
    """

    clusters: tuple[str, ...]
    taken_at: datetime
    frames: FleetFrames
    read_history: Callable[[], pd.DataFrame] | None = None
    fleet_file: str = ""
    open_steps: OpenSteps = show_steps

    @cached_property
    def history(self) -> pd.DataFrame | None:
        """The rows of `frames.groups` of this and earlier stored runs; None without a history."""
        return self.read_history() if self.read_history else None

    @property
    def unhealthy(self) -> pd.DataFrame:
        """The groups that are ERR or WARN, or have an unknown status, worst first."""
        groups = self.frames.groups
        is_bad = groups["status"].isin([ERR, WARN]) | groups["status"].isna()
        return worst_first(groups[is_bad])

    @property
    def out_of_range(self) -> pd.DataFrame:
        """The committed offsets before the log start or past the log end."""
        partitions = self.frames.partitions
        return partitions[partitions["position"].isin(["lost records", "beyond log end"])]

    @property
    def summary(self) -> str:
        groups, leftovers = self.frames.groups, self.frames.leftovers
        return (
            f"{len(self.clusters)} clusters, {len(groups)} groups with commits, "
            f"lag {groups['lag'].sum():,}, at most {counted(groups['lost'].sum(), 'lost record')}; "
            f"{len(self.unhealthy)} unhealthy or unknown groups, "
            f"{len(self.out_of_range)} out-of-range offsets, {len(leftovers)} unused offsets or "
            f"groups, {len(self.frames.problems)} read errors."
        )

    def show_problems(self) -> None:
        show_problems(self.frames.problems)

    def conclude(self) -> object:
        """
        End a notebook with the finding, the worst groups and the next step.

        The offsets and groups that need a look are counted. In JupyterLab, buttons open the
        diagnosis of the worst groups.
        """
        found = len(self.unhealthy) + len(self.out_of_range)
        conclude(self.summary, findings=found, problems=len(self.frames.problems))
        self._show_worst()
        worst = self.unhealthy[NAMES].head(MOST_BUTTONS)
        if is_headless() or worst.empty:
            return None
        return self.open_steps([self._diagnose(*names) for names in worst.itertuples(index=False)])

    def _show_worst(self) -> None:
        worst = self.unhealthy
        tone = NoticeTone.BAD if (worst["status"] == ERR).any() else NoticeTone.WARN
        show_headline(
            worst[[*NAMES, "worst_status", "status_why", "lag", "time_lag_s"]],
            title="Worst groups",
            tone=tone if len(worst) or len(self.out_of_range) else NoticeTone.GOOD,
            steps=[self._diagnose(*worst.iloc[0][NAMES])] if len(worst) else (),
        )

    def _diagnose(self, cluster: str, group: str) -> ShownStep:
        return shown_step(
            f"Next: diagnose group {shown_name(group)}, then the others in this order",
            "It shows the stuck partitions, their records and what to do. It only reads.",
            NotebookCall("90_troubleshoot_group", {"groups": [ExactName(group)]}),
            {"cluster": cluster, "fleet_file": self.fleet_file},
            button=f"Diagnose {visible(shown_name(group))} on {visible(cluster)}",
        )

    def show_health(self) -> None:
        show_status_chart(self.frames.groups)
        columns = ["status", "worst_status", "status_why", "member_state", "trend", "lag"]
        show_table(
            self.unhealthy[[*NAMES, *columns, "time_lag_s", "worst_topic", "worst_partition"]],
            caption_text="Unhealthy or unknown groups",
            empty_text="No unhealthy groups.",
        )

    def show_lag(self, *, top_n: int = 20) -> None:
        """Show the groups and topics with the most lag, in offsets and in time, and its history."""
        show_lag_chart(self.frames.groups, top_n=top_n)
        show_lag_heat_map(self.frames.partitions, top_n=top_n)
        show_time_lag_chart(self.frames.partitions)
        if self.history is not None:
            show_lag_history(self.history, top_n=HISTORY_LINES)
        columns = ["type", "state", "status", "trend", "lag", "time_lag_s", "lost"]
        show_table(
            self.frames.groups[
                [*NAMES, *columns, "partitions", "unknown_lag_partitions", "next_expiry_at"]
            ],
            caption_text="Lag by group",
            empty_text="No group has committed offsets.",
        )

    def show_out_of_range(self) -> None:
        columns = ["topic", "partition", "committed", "log_start", "log_end", "lost", "position"]
        show_table(
            self.out_of_range[[*NAMES, *columns]],
            caption_text="Out-of-range offsets",
            empty_text="All committed offsets are in range.",
        )

    def show_leftovers(self) -> None:
        frame = self.frames.leftovers
        show_table(
            frame,
            caption_text="Unused offsets and groups",
            empty_text="No unused offsets or groups.",
        )

    def show_activity(self) -> None:
        show_table(
            self.frames.activity,
            caption_text="Commit activity by group",
            empty_text="No recent commit activity.",
        )

    def __repr__(self) -> str:
        return report_text(self.summary, self.frames.groups)

    def _ipython_display_(self) -> None:
        self.show_problems()
        self.show_health()
        self.show_lag()
