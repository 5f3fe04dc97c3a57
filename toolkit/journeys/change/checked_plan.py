"""A plan on the facts of now, and what the guard rails find about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from toolkit.errors import ToolkitError
from toolkit.journeys.change.approval_parameters import ApprovalParameters
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.model import Cluster, Group, Problem, Snapshot, TopicPartition, Unread
from toolkit.operate.first_records import with_first_records
from toolkit.plan import Finding, Plan
from toolkit.planning.changes.move import PlannedMove
from toolkit.planning.frames.plan_frames import review_columns, review_frame, summary
from toolkit.planning.frames.snapshot_frames import problems_of_clusters
from toolkit.planning.guardrails.check_context import CheckContext
from toolkit.planning.guardrails.registry import check
from toolkit.report.plan_inputs import PlanInputs
from toolkit.report.run_command import NotebookCall

if TYPE_CHECKING:
    import pandas as pd

# The parameters that no plan depends on.
APPROVAL = frozenset(one.name for one in fields(ApprovalParameters))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CheckedPlan:
    """
    A plan on the facts of now, checked against the guard rails, and not applied yet.

    `facts` are of the cluster that is changed, `source` of the one that is copied from. `live` is
    how offsets of a live group are moved. `skipped` are live groups that a change of all groups
    leaves out. `call` is the notebook that asks for the same.
    """

    access: ClusterAccess
    plan: Plan
    facts: Snapshot
    source: Snapshot | None = None
    live: PlannedMove | None = None
    skipped: tuple[Group, ...] = ()
    call: NotebookCall = field(default_factory=NotebookCall)
    inputs: PlanInputs = field(init=False)

    def __post_init__(self) -> None:
        """Note the inputs of this plan."""
        inputs = PlanInputs(self.access.notebook_parameters, without=APPROVAL)
        object.__setattr__(self, "inputs", inputs)  # it is frozen

    @property
    def is_whole(self) -> bool:
        """Whether nothing that is meant was skipped, or may be lacking as it could not be read."""
        return not self.skipped and all(one.rule != "incomplete" for one in self.plan.findings)

    @property
    def fingerprint(self) -> str:
        """What an approval of exactly this plan names."""
        return self.plan.fingerprint

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster that is changed, with the policy that the fleet file has for it."""
        return self.access.under_policy(self.facts.cluster_id)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What planning and the guard rails found, blocking findings first."""
        with self.access.connections.in_use():
            facts = with_first_records(self.plan, self.facts, self.cluster)
        case = CheckContext(self.plan, facts, self.cluster.policy, now=datetime.now(UTC))
        return check(case)

    @property
    def read(self) -> tuple[Snapshot, ...]:
        """Every snapshot that was read: of the source of a copy, and of what is changed."""
        return tuple(snapshot for snapshot in (self.source, self.facts) if snapshot)

    @property
    def problems(self) -> pd.DataFrame:
        """What could not be read, one row each; see `problems_frame`."""
        untimed = [Problem(Unread.RECORD_TIMES, self.why_untimed)] if self.why_untimed else []
        found = [(facts.cluster, facts.problems) for facts in self.read]
        return problems_of_clusters([*found, (self.facts.cluster, untimed)])

    @property
    def summary(self) -> str:
        """How many partitions of how many groups move which way, in one sentence."""
        return summary(self.plan)

    @property
    def changes(self) -> pd.DataFrame:
        """Every change as `review_frame` has it, without the times of records."""
        return review_frame(self.plan)

    @property
    def main_columns(self) -> list[str]:
        """The columns of `review` that people look at for this kind of change."""
        return list(review_columns(self.plan.intent))

    @cached_property
    def review(self) -> pd.DataFrame:
        """Every change with the times of the first 500 records there; see `review_frame`."""
        return review_frame(self.plan, self._times[0])

    @property
    def why_untimed(self) -> str:
        """Why it is not known when the records were written; "" if it is known."""
        return self._times[1]

    @cached_property
    def _times(self) -> tuple[Mapping[tuple[TopicPartition, int], datetime], str]:
        """When the records at these offsets were written; and why that could not be read."""
        # Loads what finds times in logs, which a change can be made without.
        from toolkit.kafka_io.logs.record_times import read_first_records  # noqa: PLC0415

        positions = [
            (change.partition, position.offset)
            for _, change in self.plan.changes
            for position in (change.before, change.after)
            if position
            and (log := self.facts.logs.get(change.partition))
            and log.holds(position.offset)
        ]
        try:
            with self.access.connections.in_use():
                found = read_first_records(self.cluster, positions) if positions else {}
                return {place: first.at for place, first in found.items() if first.at}, ""
        except ToolkitError as exc:
            return {}, str(exc)
