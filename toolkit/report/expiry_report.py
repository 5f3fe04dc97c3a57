"""Which committed offsets of a fleet expire within a time, and the notebooks that rescue them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

from toolkit.model.names import ExactName, shown_name
from toolkit.model.plurals import counted
from toolkit.planning.expiry.expiry_forecast import ExpiryForecast, expiry_by_group
from toolkit.report.cell_text import report_text
from toolkit.report.conclusion import conclude
from toolkit.report.fleet_charts import show_expiry_timeline
from toolkit.report.fleet_report import FleetReport
from toolkit.report.next_step_list import ShownStep, shown_step
from toolkit.report.run_command import NotebookCall
from toolkit.report.tables import show_table

if TYPE_CHECKING:
    import pandas as pd

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
            f"{len(self.found.rows)} offsets of {len(self.groups)} groups expire within "
            f"{self.within}; {len(self.found.at_risk)} more are at risk if their group stops; "
            f"{len(self.unknown)} without a forecast; "
            f"{len(self.fleet.frames.problems)} read errors.{later}"
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
