"""
The audit log: who changed what, when, why, and with what result.

`audit.jsonl` in the state directory is append-only; earlier months are in files such as
`audit-2026-10.jsonl`. Each run appends an intent before its first change, and an outcome
afterwards. Lines form a hash chain over all files, and `audit.head` has the end of the log, so
`verify` detects changed, removed, reordered or duplicated lines. It cannot detect a rewrite of the
whole log and its head: keep a copy elsewhere.
"""

from toolkit.storage.audit.chain import TornLine, verify
from toolkit.storage.audit.entry import (
    AuditChange,
    AuditEntry,
    AuditStep,
    EntrySummary,
    Event,
    RunInfo,
    StepCounts,
    found_entry,
    intent_entry,
    outcome_entry,
)
from toolkit.storage.audit.log import append
from toolkit.storage.audit.runs import (
    changed_since,
    has_log,
    is_removed,
    last_runs,
    newest_run,
    read,
    read_summaries,
    unfinished,
)

__all__ = [
    "AuditChange",
    "AuditEntry",
    "AuditStep",
    "EntrySummary",
    "Event",
    "RunInfo",
    "StepCounts",
    "TornLine",
    "append",
    "changed_since",
    "found_entry",
    "has_log",
    "intent_entry",
    "is_removed",
    "last_runs",
    "newest_run",
    "outcome_entry",
    "read",
    "read_summaries",
    "unfinished",
    "verify",
]
