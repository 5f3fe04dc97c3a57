"""
The audit log: who changed what, when, why, and what became of it.

`audit.jsonl` in the state folder is only ever added to. Before a run changes anything it appends an
intent, after it an outcome; each line carries the hash of the one before it, and `audit.head` tells
where the log ends, so that `verify` finds a line that was changed, removed, moved or repeated. It
does not protect against somebody who rewrites the whole log and its head: keep a copy elsewhere.
"""

from toolkit.storage.audit.entry import (
    AuditChange,
    AuditEntry,
    AuditStep,
    Event,
    RunInfo,
    found_entry,
    intent_entry,
    outcome_entry,
)
from toolkit.storage.audit.log import append, last_runs, read, unfinished
from toolkit.storage.audit.verification import is_harmless, verify

__all__ = [
    "AuditChange",
    "AuditEntry",
    "AuditStep",
    "Event",
    "RunInfo",
    "append",
    "found_entry",
    "intent_entry",
    "is_harmless",
    "last_runs",
    "outcome_entry",
    "read",
    "unfinished",
    "verify",
]
