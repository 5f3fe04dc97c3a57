"""
Plan files: plans as readable JSON with a checksum.

    {
      "format": "offsetbook plan",
      "version": 2,
      "fingerprint": "5c1f-...",       what an approval names
      "checksum": "sha256:9e...",        over everything else in the file
      "intent": "reset", "request": "reset payments to-earliest", ...
      "steps": [
        {
          "group": "payments", "action": "commit", ...
          "changes": [
            {"topic": "orders", "partition": 0, "before": {...}, "after": {...}, "why": ""},

An edited file is rejected: the reviewed plan must be the applied one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.model import GroupState, GroupType, TopicPartition
from toolkit.model.garbage_collection import no_garbage_collection
from toolkit.model.names import named
from toolkit.plan import Action, Change, Finding, Intent, Plan, Position, Severity, Step
from toolkit.storage.formats.atomic_files import write_whole
from toolkit.storage.formats.json_codec import (
    JsonFields,
    read_document,
    readable_parts,
    utc_text,
)

FORMAT = "offsetbook plan"
VERSION = 2  # 1 had a fingerprint of 64 bits, without the request
TERMS = "terms"  # only plans for live groups have them

PLAN_FIELDS = frozenset(
    {
        *("format", "version", "fingerprint", "checksum"),
        *("intent", "request", "cluster", "cluster_id", "made_at", "allows", "topic_ids"),
        *("findings", "steps"),
    }
)
STEP_FIELDS = frozenset({"group", "action", "type", "state", "last_commit_at", "needs", "changes"})
CHANGE_FIELDS = frozenset({"topic", "partition", "before", "after", "why"})
POSITION_FIELDS = frozenset(Position._fields)
FINDING_FIELDS = frozenset({"rule", "severity", "why", "group", "topic", "partition"})
TOPIC_ID_FIELDS = frozenset({"topic", "id"})
TERM_FIELDS = frozenset({"name", "value"})
END_OF_PARTITIONS = 2**31


@no_garbage_collection()
def plan_text(plan: Plan) -> str:
    return "".join(plan_parts(plan))


def plan_parts(plan: Plan) -> Iterator[str]:
    """Yield the content of a plan file; the same plan gives the same text."""
    head = {"format": FORMAT, "version": VERSION, "fingerprint": plan.fingerprint}
    content = {**head, **_content(plan), "steps": []}
    checksum = {"checksum": _plan_checksum(content, plan)}
    steps = {"steps": map(_step_content, plan.steps)}
    return readable_parts({**head, **checksum, **content, **steps})


def topic_ids_content(topic_ids: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"topic": topic, "id": topic_id} for topic, topic_id in sorted(topic_ids.items())]


def compact(document: Mapping[str, object], *, sort: bool = False) -> str:
    return json.dumps(document, sort_keys=sort, separators=(",", ":"))


def filled(text: str, name: str, items: Iterable[str]) -> Iterator[str]:
    """Yield JSON in which an empty list gets items; it is of the only object with that name."""
    # Quotes inside of texts are escaped, so it is the name of a field.
    start, _, end = text.partition(f'"{name}":[]')
    yield f'{start}"{name}":['
    comma = ""
    for item in items:
        yield f"{comma}{item}"
        comma = ","
    yield f"]{end}"


def _plan_checksum(content: Mapping[str, object], plan: Plan) -> str:
    """Return the checksum of `content` with the steps of a plan, as `_document_checksum` does."""
    digest = hashlib.sha256()
    steps = (compact(_step_content(step), sort=True) for step in plan.steps)
    for part in filled(compact(content, sort=True), "steps", steps):
        digest.update(part.encode())
    return f"sha256:{digest.hexdigest()}"


def _content(plan: Plan) -> dict[str, object]:
    return {
        "intent": plan.intent,
        "request": plan.request,
        "cluster": plan.cluster,
        "cluster_id": plan.cluster_id,
        "made_at": utc_text(plan.made_at),
        "allows": sorted(plan.allows),
        "topic_ids": topic_ids_content(plan.topic_ids),
        **({TERMS: _terms_content(plan.terms)} if plan.terms else {}),
        "findings": [_finding_content(finding) for finding in plan.findings],
    }


def _terms_content(terms: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in sorted(terms.items())]


def _finding_content(finding: Finding) -> dict[str, object]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "why": finding.why,
        "group": finding.group_id,
        "topic": finding.topic,
        "partition": finding.partition,
    }


def _step_content(step: Step) -> dict[str, object]:
    return {
        "group": step.group_id,
        "action": step.action,
        "type": step.type,
        "state": step.state,
        "last_commit_at": step.last_commit_at and utc_text(step.last_commit_at),
        "needs": step.needs_text,
        "changes": [_change_content(change) for change in step.changes],
    }


def _change_content(change: Change) -> dict[str, object]:
    return {
        **change.partition._asdict(),
        "before": position_content(change.before),
        "after": position_content(change.after),
        "why": change.why,
    }


def position_content(position: Position | None) -> dict[str, object] | None:
    return None if position is None else position._asdict()


def write_plan(path: Path, plan: Plan, *, private: bool = False) -> None:
    """
    Write a plan file, whole and on the disk before this returns.

    The same plan gives the same bytes. Raises StateFileError where the file cannot be written.
    """
    write_whole(path, plan_parts(plan), private=private)


@no_garbage_collection()
def read_plan(path: Path) -> Plan:
    """
    Read a plan file.

    Raises UsageError that names the file and the place of what is wrong, also where the file is
    not as it was written.
    """
    document = read_document(path, "plan file")
    _check_format(document, path)
    terms = {TERMS} & document.keys() if isinstance(document, dict) else set()
    fields = JsonFields.of(document, f"plan file {path}: plan", PLAN_FIELDS | terms)
    plan = _plan(fields)
    if (fields.text("fingerprint"), fields.text("checksum")) != (
        plan.fingerprint,
        _document_checksum(fields.values),
    ):
        raise UsageError(
            f"plan file {path} was edited: it does not match its fingerprint or checksum",
            hint="make a new plan instead of changing one",
        )
    return plan


def read_position(parent: JsonFields, name: str) -> Position | None:
    """Return the position in a field; raises UsageError."""
    if parent.values[name] is None:
        return None
    fields = parent.one(name, POSITION_FIELDS)
    epoch = fields.optional("leader_epoch", fields.count)
    return Position(fields.count("offset"), epoch, fields.text("metadata"))


def read_partition(fields: JsonFields) -> TopicPartition:
    """Return the partition that an object names; raises UsageError."""
    return TopicPartition(fields.text("topic"), fields.count("partition", END_OF_PARTITIONS))


def read_topic_ids(parent: JsonFields) -> dict[str, str]:
    """Return the ids of topics in the field `topic_ids`, by name; raises UsageError."""
    topic_ids: dict[str, str] = {}
    for row in parent.many("topic_ids", TOPIC_ID_FIELDS):
        topic = row.text("topic")
        if topic in topic_ids:
            raise UsageError(f"{row.place}: duplicate topic {topic!r}", hint="remove one")
        topic_ids[topic] = row.text("id")
    return topic_ids


def _check_format(document: object, path: Path) -> None:
    known = document if isinstance(document, dict) else {}
    if known.get("format") != FORMAT:
        raise UsageError(
            f"{path} is not a plan file", hint="create one with 'offsetbook plan ... --out FILE'"
        )
    if known.get("version") != VERSION:
        raise UsageError(
            f"plan file {path} has version {known.get('version')}; this offsetbook reads version "
            f"{VERSION}",
            hint="use the offsetbook version that wrote it, or create a new plan",
        )


def _document_checksum(document: dict[str, object]) -> str:
    # Over the content, not the layout: a tool that only reformats it does no harm.
    content = {name: value for name, value in document.items() if name != "checksum"}
    return f"sha256:{hashlib.sha256(compact(content, sort=True).encode()).hexdigest()}"


def _plan(fields: JsonFields) -> Plan:
    return Plan(
        intent=fields.choice("intent", Intent),
        request=fields.text("request"),
        cluster=fields.text("cluster"),
        cluster_id=fields.text("cluster_id"),
        made_at=fields.time("made_at"),
        steps=tuple(map(_step, fields.many("steps", STEP_FIELDS))),
        findings=tuple(map(_finding, fields.many("findings", FINDING_FIELDS))),
        allows=frozenset(fields.texts("allows")),
        topic_ids=read_topic_ids(fields),
        terms={
            row.text("name"): row.text("value")
            for row in (fields.many(TERMS, TERM_FIELDS) if TERMS in fields.values else ())
        },
    )


def _finding(fields: JsonFields) -> Finding:
    return Finding(
        rule=fields.text("rule"),
        severity=fields.choice("severity", Severity),
        why=fields.text("why"),
        group_id=fields.optional("group", fields.text),
        topic=fields.optional("topic", fields.text),
        partition=fields.optional("partition", fields.count),
    )


def _step(fields: JsonFields) -> Step:
    return Step(
        group_id=fields.text("group"),
        action=fields.choice("action", Action),
        changes=tuple(map(_change, fields.many("changes", CHANGE_FIELDS))),
        type=fields.choice("type", GroupType),
        state=fields.optional("state", lambda name: fields.choice(name, GroupState)),
        last_commit_at=fields.optional("last_commit_at", fields.time),
        needs=named(needs) if (needs := fields.text("needs")) else None,
    )


def _change(fields: JsonFields) -> Change:
    return Change(
        partition=read_partition(fields),
        before=read_position(fields, "before"),
        after=read_position(fields, "after"),
        why=fields.text("why"),
    )
