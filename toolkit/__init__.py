"""
offsetbook: walk Kafka consumer groups from a question to a verified answer.

The public names; each is loaded at its first use, so that this loads no Spark or Kafka client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.errors import ToolkitError, UsageError
    from toolkit.journeys.audit import audit
    from toolkit.journeys.change.apply_once import Applying
    from toolkit.journeys.change.change_facts import read_facts, read_facts_of, read_times_of
    from toolkit.journeys.change.change_outcome import (
        apply_decided,
        conclude_change,
        leave_plan,
        run_command,
        show_decision,
        show_outcome,
        show_undo,
    )
    from toolkit.journeys.change.decision import Consent
    from toolkit.journeys.copy import CopyWish, plan_group_copy
    from toolkit.journeys.delete_offsets import record_unsubscribed
    from toolkit.journeys.holds import (
        HoldRequest,
        MoveWish,
        plan_hold,
        plan_live_move,
        show_paused,
        show_resume,
    )
    from toolkit.journeys.pause import (
        list_paused_partitions,
        pause_partitions,
        resume_partitions,
    )
    from toolkit.journeys.rescue import plan_expiry_rescue
    from toolkit.journeys.troubleshoot import (
        examine_group,
        groups_to_choose,
        look_at_group,
        show_next_steps,
        show_records,
    )
    from toolkit.journeys.undo import plan_run_undo
    from toolkit.kafka_io.read_plan_facts import read_plan_facts
    from toolkit.kafka_io.read_snapshot import read_snapshot
    from toolkit.model import Cluster, Commit, Group, GroupState, GroupType, Member, Snapshot
    from toolkit.model.times import parse_duration
    from toolkit.operate.apply import apply_plan, check_plan
    from toolkit.plan import Change, Finding, Outcome, Plan
    from toolkit.plan.approvals import Approval
    from toolkit.planning.changes.delete_groups import plan_delete_groups
    from toolkit.planning.changes.delete_offsets import (
        plan_delete_offsets,
        plan_delete_unsubscribed,
    )
    from toolkit.planning.changes.modes import parse_target
    from toolkit.planning.changes.pause import plan_pause, plan_resume
    from toolkit.planning.changes.reset import plan_reset
    from toolkit.planning.expiry.expiry_forecast import expiring, expiry_by_group
    from toolkit.planning.frames.outcome_frame import outcome_frame
    from toolkit.planning.frames.review_frame import findings_frame, review_frame
    from toolkit.planning.frames.review_frame import summary as plan_summary
    from toolkit.planning.frames.snapshot_frames import groups_frame, offsets_frame, problems_frame
    from toolkit.planning.guardrails.registry import blocking
    from toolkit.planning.holds.hold_context import HoldTerms
    from toolkit.planning.holds.paused_frame import paused_frame
    from toolkit.planning.lag.lag import lag_by_group, with_lag
    from toolkit.planning.lag.status_rules import StatusRules
    from toolkit.planning.unsubscribed.unsubscribed_offsets import find_unsubscribed
    from toolkit.report.audit_frames import runs_frame
    from toolkit.report.conclusion import conclude
    from toolkit.report.expiry_chart import show_expiry_timeline
    from toolkit.report.fleet_charts import (
        show_lag_heat_map,
        show_lag_history,
        show_status_chart,
        show_time_lag_chart,
    )
    from toolkit.report.lag_charts import show_lag_chart, show_leftover_chart
    from toolkit.report.plan_chart import show_plan_chart
    from toolkit.report.tables import show_problems, show_table
    from toolkit.runner.run_notebook import run_notebook
    from toolkit.sandbox.require_sandbox import require_sandbox
    from toolkit.spark.fleet_lag import FleetOptions, fleet_lag
    from toolkit.spark.history.fleet_history import read_fleet_history
    from toolkit.spark.spark_session import start_session
    from toolkit.storage.audit import read as read_audit
    from toolkit.storage.fleet_file import choose_clusters, load_fleet
    from toolkit.storage.plan_files import read_plan, write_plan
    from toolkit.storage.sightings.empty_groups import empty_since as read_sightings
    from toolkit.storage.sightings.empty_groups import record as record_sightings
    from toolkit.storage.state_folder import state_dir
    from toolkit.storage.undo_records import read_undo_record

# Where the names are at home; after a colon, what one is called there.
_AT_HOME = {
    "errors": "ToolkitError UsageError",
    "journeys.audit": "audit",
    "journeys.change.apply_once": "Applying",
    "journeys.change.change_facts": "read_facts read_facts_of read_times_of",
    "journeys.change.change_outcome": (
        "apply_decided conclude_change leave_plan run_command show_decision show_outcome show_undo"
    ),
    "journeys.change.decision": "Consent",
    "journeys.copy": "CopyWish plan_group_copy",
    "journeys.delete_offsets": "record_unsubscribed",
    "journeys.holds": "HoldRequest MoveWish plan_hold plan_live_move show_paused show_resume",
    "journeys.pause": "list_paused_partitions pause_partitions resume_partitions",
    "journeys.rescue": "plan_expiry_rescue",
    "journeys.troubleshoot": (
        "examine_group groups_to_choose look_at_group show_next_steps show_records"
    ),
    "journeys.undo": "plan_run_undo",
    "kafka_io.read_plan_facts": "read_plan_facts",
    "kafka_io.read_snapshot": "read_snapshot",
    "model": "Cluster Commit Group GroupState GroupType Member Snapshot",
    "operate.apply": "apply_plan check_plan",
    "plan.approvals": "Approval",
    "plan": "Change Finding Outcome Plan",
    "planning.changes.delete_groups": "plan_delete_groups",
    "planning.changes.delete_offsets": "plan_delete_offsets plan_delete_unsubscribed",
    "planning.changes.modes": "parse_target",
    "planning.changes.pause": "plan_pause plan_resume",
    "planning.changes.reset": "plan_reset",
    "planning.expiry.expiry_forecast": "expiring expiry_by_group",
    "planning.frames.outcome_frame": "outcome_frame",
    "planning.frames.review_frame": "findings_frame plan_summary:summary review_frame",
    "planning.frames.snapshot_frames": "groups_frame offsets_frame problems_frame",
    "planning.guardrails.registry": "blocking",
    "planning.holds.hold_context": "HoldTerms",
    "planning.holds.paused_frame": "paused_frame",
    "planning.lag.lag": "lag_by_group with_lag",
    "planning.lag.status_rules": "StatusRules",
    "model.times": "parse_duration",
    "planning.unsubscribed.unsubscribed_offsets": "find_unsubscribed",
    "report.audit_frames": "runs_frame",
    "report.expiry_chart": "show_expiry_timeline",
    "report.fleet_charts": (
        "show_lag_heat_map show_lag_history show_status_chart show_time_lag_chart"
    ),
    "report.lag_charts": "show_lag_chart show_leftover_chart",
    "report.plan_chart": "show_plan_chart",
    "report.tables": "show_problems show_table",
    "report.conclusion": "conclude",
    "runner.run_notebook": "run_notebook",
    "sandbox.require_sandbox": "require_sandbox",
    "spark.fleet_lag": "FleetOptions fleet_lag",
    "spark.history.fleet_history": "read_fleet_history",
    "spark.spark_session": "start_session",
    "storage.audit": "read_audit:read",
    "storage.fleet_file": "choose_clusters load_fleet",
    "storage.plan_files": "read_plan write_plan",
    "storage.sightings.empty_groups": "read_sightings:empty_since record_sightings:record",
    "storage.state_folder": "state_dir",
    "storage.undo_records": "read_undo_record",
}
_HOME = {
    name: (module, called or name)
    for module, names in _AT_HOME.items()
    for name, _, called in (words.partition(":") for words in names.split())
}

__all__ = [
    "Applying",
    "Approval",
    "Change",
    "Cluster",
    "Commit",
    "Consent",
    "CopyWish",
    "Finding",
    "FleetOptions",
    "Group",
    "GroupState",
    "GroupType",
    "HoldRequest",
    "HoldTerms",
    "Member",
    "MoveWish",
    "Outcome",
    "Plan",
    "Snapshot",
    "StatusRules",
    "ToolkitError",
    "UsageError",
    "apply_decided",
    "apply_plan",
    "audit",
    "blocking",
    "check_plan",
    "choose_clusters",
    "conclude",
    "conclude_change",
    "examine_group",
    "expiring",
    "expiry_by_group",
    "find_unsubscribed",
    "findings_frame",
    "fleet_lag",
    "groups_frame",
    "groups_to_choose",
    "lag_by_group",
    "leave_plan",
    "list_paused_partitions",
    "load_fleet",
    "look_at_group",
    "offsets_frame",
    "outcome_frame",
    "parse_duration",
    "parse_target",
    "pause_partitions",
    "paused_frame",
    "plan_delete_groups",
    "plan_delete_offsets",
    "plan_delete_unsubscribed",
    "plan_expiry_rescue",
    "plan_group_copy",
    "plan_hold",
    "plan_live_move",
    "plan_pause",
    "plan_reset",
    "plan_resume",
    "plan_run_undo",
    "plan_summary",
    "problems_frame",
    "read_audit",
    "read_facts",
    "read_facts_of",
    "read_fleet_history",
    "read_plan",
    "read_plan_facts",
    "read_sightings",
    "read_snapshot",
    "read_times_of",
    "read_undo_record",
    "record_sightings",
    "record_unsubscribed",
    "require_sandbox",
    "resume_partitions",
    "review_frame",
    "run_command",
    "run_notebook",
    "runs_frame",
    "show_decision",
    "show_expiry_timeline",
    "show_lag_chart",
    "show_lag_heat_map",
    "show_lag_history",
    "show_leftover_chart",
    "show_next_steps",
    "show_outcome",
    "show_paused",
    "show_plan_chart",
    "show_problems",
    "show_records",
    "show_resume",
    "show_status_chart",
    "show_table",
    "show_time_lag_chart",
    "show_undo",
    "start_session",
    "state_dir",
    "with_lag",
    "write_plan",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, called = _HOME[name]
    return getattr(import_module(f"{__name__}.{module}"), called)
