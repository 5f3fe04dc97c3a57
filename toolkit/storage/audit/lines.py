"""Audit entries as the fields of a JSON line, and back; nothing else is ever in the log."""

from __future__ import annotations

import json
from typing import NamedTuple

from toolkit.plan import Action, ChangeStatus, Intent
from toolkit.storage.audit.entry import AuditChange, AuditEntry, AuditStep, Event, RunInfo
from toolkit.storage.formats.json_codec import JsonFields, utc_text
from toolkit.storage.plan_files import position_content, read_partition, read_position

ENTRY_FIELDS = frozenset(
    {
        *("seq", "at", "run", "event", "who", "host", "cluster", "cluster_id", "intent", "request"),
        *("reason", "fingerprint", "overrides", "allows", "interrupted", "notes", "steps", "prev"),
    }
)
STEP_FIELDS = frozenset({"group", "action", "status", "why", "changes"})
CHANGE_FIELDS = frozenset({"topic", "partition", "before", "after", "status", "why", "found"})


HEAD_FIELDS = ("run", "event", "cluster_id", "fingerprint", "interrupted")


class RunHead(NamedTuple):
    """What the start of a line tells, without its steps, which may be many."""

    run_id: str
    event: str
    cluster_id: str
    fingerprint: str
    interrupted: str


def read_head_of(line: bytes) -> RunHead | None:
    """Return what a line begins with; None where it is torn. Whether it holds is not checked."""
    # Quotes inside of texts are escaped, so this is the first of the steps and nothing else.
    start, found, _ = line.partition(b',"steps":')
    try:
        content = json.loads(start + b"}") if found else {}
        return RunHead(*(content[name] for name in HEAD_FIELDS))
    except (ValueError, KeyError, TypeError):
        return None


def entry_content(entry: AuditEntry) -> dict[str, object]:
    """Return the fields of an entry, without its place in the chain."""
    run = entry.run
    return {
        "at": utc_text(entry.at),
        "run": run.run_id,
        "event": entry.event,
        "who": run.who,
        "host": run.host,
        "cluster": entry.cluster,
        "cluster_id": entry.cluster_id,
        "intent": entry.intent,
        "request": entry.request,
        "reason": run.reason,
        "fingerprint": entry.fingerprint,
        "overrides": run.overrides,
        "allows": entry.allows,
        "interrupted": entry.interrupted,
        "notes": [],  # earlier versions read no line without it
        "steps": [_step_content(step) for step in entry.steps],
    }


def read_entry(content: dict[str, object], place: str) -> AuditEntry:
    """Return the entry that a line holds; raises UsageError that names the place."""
    fields = JsonFields.of(content, place, ENTRY_FIELDS)
    return AuditEntry(
        event=fields.choice("event", Event),
        at=fields.time("at"),
        run=RunInfo(
            fields.text("run"),
            fields.text("who"),
            fields.text("host"),
            fields.text("reason"),
            fields.texts("overrides"),
        ),
        cluster=fields.text("cluster"),
        cluster_id=fields.text("cluster_id"),
        intent=fields.choice("intent", Intent),
        request=fields.text("request"),
        fingerprint=fields.text("fingerprint"),
        steps=tuple(map(_step, fields.many("steps", STEP_FIELDS))),
        allows=fields.texts("allows"),
        interrupted=fields.text("interrupted"),
        seq=fields.count("seq"),
    )


def _step_content(step: AuditStep) -> dict[str, object]:
    return {
        "group": step.group_id,
        "action": step.action,
        "status": step.status,
        "why": step.why,
        "changes": [
            {
                "topic": change.partition.topic,
                "partition": change.partition.partition,
                "before": position_content(change.before),
                "after": position_content(change.after),
                "status": change.status,
                "why": change.why,
                "found": position_content(change.found),
            }
            for change in step.changes
        ],
    }


def _step(fields: JsonFields) -> AuditStep:
    return AuditStep(
        fields.text("group"),
        fields.choice("action", Action),
        tuple(map(_change, fields.many("changes", CHANGE_FIELDS))),
        _status(fields),
        fields.text("why"),
    )


def _change(fields: JsonFields) -> AuditChange:
    return AuditChange(
        read_partition(fields),
        read_position(fields, "before"),
        read_position(fields, "after"),
        fields.text("why"),
        _status(fields),
        read_position(fields, "found"),
    )


def _status(fields: JsonFields) -> ChangeStatus | None:
    return fields.optional("status", lambda name: fields.choice(name, ChangeStatus))
