"""
Write plans as JSON, in parts: a plan may have a million changes, and its text ten times its size.

A part is the text of one step. Nothing else in a plan is long.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

from toolkit.model.garbage_collection import no_garbage_collection
from toolkit.plan import Change, Finding, Plan, Position, Step
from toolkit.storage.formats.json_codec import json_table, quoted, readable_parts, utc_text

FORMAT = "offsetbook plan"
VERSION = 2  # 1 had a fingerprint of 64 bits, without the request
TERMS = "terms"  # only plans for live groups have them


@no_garbage_collection()
def plan_text(plan: Plan) -> str:
    """Return the content of a plan file."""
    return "".join(plan_parts(plan))


def plan_parts(plan: Plan) -> Iterator[str]:
    """Yield the content of a plan file; the same plan gives the same text."""
    head = {"format": FORMAT, "version": VERSION, "fingerprint": plan.fingerprint}
    content = {**head, **_content(plan), "steps": []}
    checksum = {"checksum": _checksum(content, plan)}
    steps = {"steps": map(_step_content, plan.steps)}
    return readable_parts({**head, **checksum, **content, **steps})


def topic_ids_content(topic_ids: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the ids of topics as in a file, sorted by name."""
    return [{"topic": topic, "id": topic_id} for topic, topic_id in sorted(topic_ids.items())]


def compact(document: Mapping[str, object], *, sort: bool = False) -> str:
    """Return a document as JSON without spaces."""
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


def _checksum(content: Mapping[str, object], plan: Plan) -> str:
    """Return the checksum of `content` with the steps of a plan; `plan_files` compares it."""
    digest = hashlib.sha256()
    steps = ("".join(_sorted_step(step)) for step in plan.steps)
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
    changes = _readable_changes(step.changes)
    table = json_table(changes, depth=3) if step.changes else []
    return {**_step_head(step), "changes": table}


def _sorted_step(step: Step) -> Iterator[str]:
    head = compact({**_step_head(step), "changes": []}, sort=True)
    return filled(head, "changes", _sorted_changes(step.changes))


def _step_head(step: Step) -> dict[str, object]:
    return {
        "group": step.group_id,
        "action": step.action,
        "type": step.type,
        "state": step.state,
        "last_commit_at": step.last_commit_at and utc_text(step.last_commit_at),
        "needs": step.needs_text,
    }


def _readable_changes(changes: Iterable[Change]) -> Iterator[str]:
    for (topic, number), before, after, why in changes:
        yield (
            f'{{"topic": {quoted(topic)}, "partition": {number}, "before": {_readable(before)}, '
            f'"after": {_readable(after)}, "why": {quoted(why)}}}'
        )


def _readable(position: Position | None) -> str:
    if position is None:
        return "null"
    offset, epoch, metadata = position
    known = "null" if epoch is None else epoch
    return f'{{"offset": {offset}, "leader_epoch": {known}, "metadata": {quoted(metadata)}}}'


def _sorted_changes(changes: Iterable[Change]) -> Iterator[str]:
    """Yield changes without spaces and with fields sorted by name, as the checksum has them."""
    for (topic, number), before, after, why in changes:
        yield (
            f'{{"after":{_sorted(after)},"before":{_sorted(before)},"partition":{number},'
            f'"topic":{quoted(topic)},"why":{quoted(why)}}}'
        )


def _sorted(position: Position | None) -> str:
    if position is None:
        return "null"
    offset, epoch, metadata = position
    known = "null" if epoch is None else epoch
    return f'{{"leader_epoch":{known},"metadata":{quoted(metadata)},"offset":{offset}}}'
