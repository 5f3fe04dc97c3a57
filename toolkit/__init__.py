"""
offsetbook: walk Kafka consumer groups from a question to a verified answer.

The public names; each is loaded at its first use, so that this loads no Spark or Kafka client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.errors import ToolkitError, UsageError
    from toolkit.kafka_io.plan_facts import read_plan_facts
    from toolkit.kafka_io.snapshot import read_snapshot
    from toolkit.model import Cluster, Commit, Group, GroupState, GroupType, Member, Snapshot
    from toolkit.operate import Approval, apply_plan, check_plan
    from toolkit.operate.pause import (
        list_paused_partitions,
        pause_partitions,
        resume_partitions,
    )
    from toolkit.plan import Change, Finding, Outcome, Plan
    from toolkit.planning.delete_groups import plan_delete_groups
    from toolkit.planning.delete_offsets import plan_delete_offsets, plan_delete_unsubscribed
    from toolkit.planning.expiring import expiring, expiry_by_group
    from toolkit.planning.frames import groups_frame, offsets_frame, problems_frame
    from toolkit.planning.guardrails import blocking
    from toolkit.planning.hold_case import HoldTerms
    from toolkit.planning.lag import lag_by_group, with_lag
    from toolkit.planning.modes import parse_target
    from toolkit.planning.outcomes import outcome_frame
    from toolkit.planning.pause import plan_pause, plan_resume
    from toolkit.planning.paused import paused_frame
    from toolkit.planning.preview import findings_frame, review_frame
    from toolkit.planning.preview import summary as plan_summary
    from toolkit.planning.reset import plan_reset
    from toolkit.planning.status_rules import StatusRules
    from toolkit.planning.times import parse_duration
    from toolkit.planning.undo import Moved, plan_undo
    from toolkit.planning.unsubscribed import find_unsubscribed
    from toolkit.report.audit import changes_frame, runs_frame
    from toolkit.report.charts import show_lag_chart, show_leftover_chart
    from toolkit.report.expiry_chart import show_expiry_timeline
    from toolkit.report.fleet_charts import (
        show_lag_heat_map,
        show_lag_history,
        show_status_chart,
        show_time_lag_chart,
    )
    from toolkit.report.plan_chart import show_plan_chart
    from toolkit.report.tables import show_problems, show_table
    from toolkit.runbook import conclude, run_notebook
    from toolkit.runbook.changes import (
        apply_decided,
        conclude_change,
        leave_plan,
        run_command,
        show_decision,
        show_outcome,
        show_undo,
    )
    from toolkit.runbook.decision import Consent
    from toolkit.runbook.holds import (
        HoldRequest,
        MoveWish,
        plan_hold,
        plan_live_move,
        show_paused,
        show_resume,
    )
    from toolkit.runbook.look import read_facts_of, read_reset_facts, read_times_of
    from toolkit.runbook.rescue import plan_expiry_rescue
    from toolkit.runbook.review import Applying
    from toolkit.runbook.trouble import examine_group, show_next_steps, show_records
    from toolkit.sandbox.only import require_sandbox
    from toolkit.spark.fleet_history import read_fleet_history
    from toolkit.spark.fleet_lag import FleetOptions, fleet_lag
    from toolkit.spark.session import start_session
    from toolkit.storage.audit import read as read_audit
    from toolkit.storage.audit import unfinished as unfinished_audit
    from toolkit.storage.audit import verify as verify_audit
    from toolkit.storage.fleet_file import choose_clusters, load_fleet
    from toolkit.storage.plan_files import read_plan, write_plan
    from toolkit.storage.runs import read_undo_record
    from toolkit.storage.sightings import empty_since as read_sightings
    from toolkit.storage.sightings import record as record_sightings
    from toolkit.storage.state_dir import state_dir

# name: where it is; after a colon, what it is called there.
_HOME = {
    "Applying": "runbook.review",
    "Approval": "operate",
    "Change": "plan",
    "Cluster": "model",
    "Commit": "model",
    "Consent": "runbook.decision",
    "Finding": "plan",
    "FleetOptions": "spark.fleet_lag",
    "Group": "model",
    "GroupState": "model",
    "GroupType": "model",
    "HoldRequest": "runbook.holds",
    "HoldTerms": "planning.hold_case",
    "Member": "model",
    "MoveWish": "runbook.holds",
    "Moved": "planning.undo",
    "Outcome": "plan",
    "Plan": "plan",
    "Snapshot": "model",
    "StatusRules": "planning.status_rules",
    "ToolkitError": "errors",
    "UsageError": "errors",
    "apply_decided": "runbook.changes",
    "apply_plan": "operate",
    "blocking": "planning.guardrails",
    "changes_frame": "report.audit",
    "check_plan": "operate",
    "choose_clusters": "storage.fleet_file",
    "conclude": "runbook",
    "conclude_change": "runbook.changes",
    "examine_group": "runbook.trouble",
    "expiring": "planning.expiring",
    "expiry_by_group": "planning.expiring",
    "find_unsubscribed": "planning.unsubscribed",
    "findings_frame": "planning.preview",
    "fleet_lag": "spark.fleet_lag",
    "groups_frame": "planning.frames",
    "lag_by_group": "planning.lag",
    "leave_plan": "runbook.changes",
    "list_paused_partitions": "operate.pause",
    "load_fleet": "storage.fleet_file",
    "offsets_frame": "planning.frames",
    "outcome_frame": "planning.outcomes",
    "parse_duration": "planning.times",
    "parse_target": "planning.modes",
    "pause_partitions": "operate.pause",
    "paused_frame": "planning.paused",
    "plan_delete_groups": "planning.delete_groups",
    "plan_delete_offsets": "planning.delete_offsets",
    "plan_delete_unsubscribed": "planning.delete_offsets",
    "plan_expiry_rescue": "runbook.rescue",
    "plan_hold": "runbook.holds",
    "plan_live_move": "runbook.holds",
    "plan_pause": "planning.pause",
    "plan_reset": "planning.reset",
    "plan_resume": "planning.pause",
    "plan_summary": "planning.preview:summary",
    "plan_undo": "planning.undo",
    "problems_frame": "planning.frames",
    "read_audit": "storage.audit:read",
    "read_facts_of": "runbook.look",
    "read_fleet_history": "spark.fleet_history",
    "read_plan": "storage.plan_files",
    "read_plan_facts": "kafka_io.plan_facts",
    "read_reset_facts": "runbook.look",
    "read_sightings": "storage.sightings:empty_since",
    "read_snapshot": "kafka_io.snapshot",
    "read_times_of": "runbook.look",
    "read_undo_record": "storage.runs",
    "record_sightings": "storage.sightings:record",
    "require_sandbox": "sandbox.only",
    "resume_partitions": "operate.pause",
    "review_frame": "planning.preview",
    "run_command": "runbook.changes",
    "run_notebook": "runbook",
    "runs_frame": "report.audit",
    "show_decision": "runbook.changes",
    "show_expiry_timeline": "report.expiry_chart",
    "show_lag_chart": "report.charts",
    "show_lag_heat_map": "report.fleet_charts",
    "show_lag_history": "report.fleet_charts",
    "show_leftover_chart": "report.charts",
    "show_next_steps": "runbook.trouble",
    "show_outcome": "runbook.changes",
    "show_paused": "runbook.holds",
    "show_plan_chart": "report.plan_chart",
    "show_problems": "report.tables",
    "show_records": "runbook.trouble",
    "show_resume": "runbook.holds",
    "show_status_chart": "report.fleet_charts",
    "show_table": "report.tables",
    "show_time_lag_chart": "report.fleet_charts",
    "show_undo": "runbook.changes",
    "start_session": "spark.session",
    "state_dir": "storage.state_dir",
    "unfinished_audit": "storage.audit:unfinished",
    "verify_audit": "storage.audit:verify",
    "with_lag": "planning.lag",
    "write_plan": "storage.plan_files",
}

__all__ = [
    "Applying",
    "Approval",
    "Change",
    "Cluster",
    "Commit",
    "Consent",
    "Finding",
    "FleetOptions",
    "Group",
    "GroupState",
    "GroupType",
    "HoldRequest",
    "HoldTerms",
    "Member",
    "MoveWish",
    "Moved",
    "Outcome",
    "Plan",
    "Snapshot",
    "StatusRules",
    "ToolkitError",
    "UsageError",
    "apply_decided",
    "apply_plan",
    "blocking",
    "changes_frame",
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
    "lag_by_group",
    "leave_plan",
    "list_paused_partitions",
    "load_fleet",
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
    "plan_hold",
    "plan_live_move",
    "plan_pause",
    "plan_reset",
    "plan_resume",
    "plan_summary",
    "plan_undo",
    "problems_frame",
    "read_audit",
    "read_facts_of",
    "read_fleet_history",
    "read_plan",
    "read_plan_facts",
    "read_reset_facts",
    "read_sightings",
    "read_snapshot",
    "read_times_of",
    "read_undo_record",
    "record_sightings",
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
    "unfinished_audit",
    "verify_audit",
    "with_lag",
    "write_plan",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, called = _HOME[name].partition(":")
    return getattr(import_module(f"{__name__}.{module}"), called or name)
