"""
How every group of every cluster is doing, from one reading of a fleet, and what expires when.

With the notebooks that rescue the committed offsets which expire within a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

from toolkit.errors import ToolkitError
from toolkit.model.names import ExactName, shown_name
from toolkit.model.plurals import counted
from toolkit.planning.expiry.expiry_forecast import ExpiryForecast, expiry_by_group
from toolkit.planning.lag.group_summary import FleetFrames, worst_first
from toolkit.planning.lag.lag import lag_in_words
from toolkit.planning.lag.status_rules import ERR, WARN
from toolkit.report.cell_text import report_text
from toolkit.report.conclusion import conclude
from toolkit.report.display import is_headless
from toolkit.report.fleet_charts import (
    show_expiry_timeline,
    show_lag_heat_map,
    show_lag_history,
    show_status_chart,
    show_time_lag_chart,
)
from toolkit.report.headline import show_headline
from toolkit.report.lag_report import show_lag_chart
from toolkit.report.next_step_list import OpenSteps, ShownStep, show_steps, shown_step
from toolkit.report.notices import NoticeTone, show_error
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

    `read_history` reads the lag of groups in this and earlier stored runs, as `show_lag_history`
    takes it; `fleet_file` is as it was given.
    """

    clusters: tuple[str, ...]
    taken_at: datetime
    frames: FleetFrames
    read_history: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    fleet_file: str = ""
    open_steps: OpenSteps = show_steps

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
        groups = self.frames.groups
        unknown = int(groups["unknown_lag_partitions"].sum())
        most_lost = int(groups["lost"].sum())
        lost = f"{'at most ' if most_lost else ''}{counted(most_lost, 'lost record')}"
        return (
            f"{counted(len(self.clusters), 'cluster')}, {counted(len(groups), 'group')} with "
            "commits, "
            f"lag {lag_in_words(groups['lag'], unknown)}, "
            f"{lost}{f' ({unknown:,} unknown)' if unknown else ''}; "
            f"{counted(len(self.unhealthy), 'unhealthy or unknown group')}, "
            f"{counted(len(self.out_of_range), 'out-of-range offset')}, "
            f"{len(self.frames.leftovers):,} unused offsets or groups, "
            f"{counted(len(self.frames.problems), 'read error')}."
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
        if self.read_history:
            behind = self.frames.groups.dropna(subset=["lag"])
            worst = behind.nlargest(HISTORY_LINES, "lag")[NAMES]
            try:
                show_lag_history(self.read_history(worst), worst)
            except ToolkitError as exc:  # the rest of the report is there
                show_error(exc)
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


PLACE = ["cluster", "group", "topic", "partition"]
NOTEBOOK = "30_expiry_forecast"


@dataclass(frozen=True, eq=False, repr=False)
class ExpiryReport:
    """A forecast from one reading of a fleet: `found` has what expires `within` a time."""

    fleet: FleetReport
    found: ExpiryForecast
    within: str

    @property
    def groups(self) -> pd.DataFrame:
        """The groups that lose offsets, the first one first; see `expiry_by_group`."""
        return expiry_by_group(self.found.rows)

    @property
    def unknown(self) -> pd.DataFrame:
        partitions = self.fleet.frames.partitions
        return partitions[partitions["expiry_confidence"] == "none"]

    @property
    def summary(self) -> str:
        """The finding in one sentence, and when the next offset expires if none does soon."""
        later = f" {self.next_expiry}" if self.next_expiry else ""
        return (
            f"{counted(len(self.found.rows), 'offset')} of {counted(len(self.groups), 'group')} "
            f"expire{'s' * (len(self.found.rows) == 1)} within {self.within}; "
            f"{len(self.found.at_risk):,} more at risk if their group stops; "
            f"{len(self.unknown):,} without a forecast; "
            f"{counted(len(self.fleet.frames.problems), 'read error')}.{later}"
        )

    @property
    def next_expiry(self) -> str:
        """When the first offset expires, in one sentence, if that is not `within` the time."""
        if len(self.found.rows) or self._later is None:
            return ""
        at, row = self._later["expires_at"], self._later
        return (
            f"The next one expires at {at:%Y-%m-%d %H:%M} UTC: {row['topic']} partition "
            f"{row['partition']} of group {shown_name(row['group'])} on {row['cluster']}."
        )

    @property
    def steps(self) -> list[ShownStep]:
        """The rescue of what expires, one step for each cluster; or a longer look ahead."""
        if len(self.found.rows):
            return [self._rescue(str(name)) for name in self.found.rows["cluster"].unique()]
        if self._later is None:
            return [ShownStep("Nothing to do", "No committed offset is known to expire.")]
        days = ceil((self._later["expires_at"] - self.fleet.taken_at) / timedelta(days=1))
        parameters = {"clusters": [self._later["cluster"]], "within": f"{days}d"}
        return [self._step("Look further ahead", self.next_expiry, parameters)]

    def _rescue(self, cluster: str) -> ShownStep:
        rows = self.found.rows[self.found.rows["cluster"] == cluster]
        # By name: a forecast that is made again later finds other groups, above all where `within`
        # is about as long as brokers keep offsets.
        groups = sorted(map(ExactName, rows["group"].unique()))
        why = (
            "If the groups will be used again. No offset changes; a dry run shows the plan first. "
            "It is about these groups, as they are then."
        )
        parameters = {
            "clusters": [cluster],
            "within": self.within,
            "rescue": True,
            "groups": groups,
        }
        return self._step(f"Rescue {counted(len(groups), 'group')} on {cluster}", why, parameters)

    def _step(self, title: str, why: str, parameters: Mapping[str, object]) -> ShownStep:
        where = {"fleet_file": self.fleet.fleet_file}
        return shown_step(title, why, NotebookCall(NOTEBOOK, parameters), where)

    @cached_property
    def _later(self) -> pd.Series[Any] | None:
        """The offset that expires first of those that do not expire soon; None if none is known."""
        partitions = self.fleet.frames.partitions
        later = partitions.drop(index=self.found.rows.index).dropna(subset="expires_at")
        return None if later.empty else later.sort_values(["expires_at", *PLACE]).iloc[0]

    def conclude(self) -> object:
        """End a notebook with the finding, and the notebook that takes the next step."""
        found, problems = self.found, self.fleet.frames.problems
        findings = len(found.rows) + len(found.at_risk)
        conclude(self.summary, findings=findings, problems=len(problems))
        return self.fleet.open_steps(self.steps)

    def show_problems(self) -> None:
        self.fleet.show_problems()

    def show_timeline(self, *, top_n: int = 30) -> None:
        show_expiry_timeline(self.found, now=self.fleet.taken_at, top_n=top_n)

    def show_expiring(self) -> None:
        nothing = f"No committed offset expires within {self.within}. {self.next_expiry}".strip()
        columns = ["cluster", "group", "type", "state", "expiring", "first_at", "last_at", "why"]
        show_table(
            self.groups[[*columns, "confidence"]],
            caption_text=f"Groups with offsets that expire within {self.within}",
            empty_text=nothing,
        )
        names = {"expiry_why": "why", "expiry_confidence": "confidence"}
        offset_columns = ["expires_at", "expires_by", "committed", "lag", "why", "confidence"]
        show_table(
            self.found.rows.rename(columns=names)[[*PLACE, *offset_columns]],
            caption_text=f"Offsets that expire within {self.within}",
            empty_text=nothing,
        )

    def show_at_risk(self) -> None:
        """Show the offsets that do not expire only because their group has members."""
        columns = ["committed_at", "expires_if_stopped_at", "expires_immediately_if_stopped"]
        show_table(
            self.found.at_risk[[*PLACE, *columns]],
            caption_text=f"Offsets that expire within {self.within} if their group stops now",
            empty_text="No offsets at risk.",
        )

    def show_unknown(self) -> None:
        """Show the offsets without a forecast, each with what is not known of it."""
        show_table(
            self.unknown[[*PLACE, "type", "state", "expiry_why"]],
            caption_text="Offsets without a forecast",
            empty_text="Every committed offset has a forecast.",
        )

    def __repr__(self) -> str:
        return report_text(self.summary, self.groups)

    def _ipython_display_(self) -> None:
        self.show_problems()
        self.show_timeline()
        self.show_expiring()
        self.show_at_risk()
        self.show_unknown()
