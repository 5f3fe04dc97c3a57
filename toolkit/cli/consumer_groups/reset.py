"""`--reset-offsets`: move the committed offsets of idle groups."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from toolkit.cli.change_command import Planned
from toolkit.cli.consumer_groups.connection_flags import asked_of, cluster_of
from toolkit.cli.consumer_groups.exact_names import choose, named, only
from toolkit.cli.consumer_groups.flags import TARGETS
from toolkit.cli.consumer_groups.new_offsets import NewOffsets
from toolkit.cli.consumer_groups.tool_change_flow import Carrying, carry
from toolkit.cli.facts import reading
from toolkit.errors import UsageError
from toolkit.journeys.change.change_facts import read_facts
from toolkit.plan import Plan, Severity
from toolkit.planning.changes.from_offsets import FromOffsets, from_offsets
from toolkit.planning.changes.modes import WITHOUT_VALUE, parse_target
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.targets import Target
from toolkit.planning.selection.scope import TopicScope, parse_topics

if TYPE_CHECKING:
    from toolkit.model import Snapshot


def run(given: dict[str, Any]) -> int:
    """Reset offsets, or show where they would go; the exit code."""
    scopes = parse_topics(given["topics"])
    target = _target(given)
    cluster = cluster_of(given)
    with reading(asked_of(given), cluster) as progress:
        facts = read_facts(
            cluster,
            groups=named(given["groups"]),
            topics=given["topics"],
            target=target,
            on_progress=progress,
        )
    chosen = choose(facts, given, meant=_meant(facts, scopes, target, given))
    facts = only(facts, chosen.ids)
    plan = plan_reset(
        facts,
        target,
        groups=chosen.ids,
        topics=given["topics"],
        new_topics=given["new_topics"],
    )
    if given["all_groups"]:
        plan = _without_strangers(plan)
    offsets = NewOffsets(plan, facts, target, scopes, frozenset(chosen.ids))
    write = offsets.write_table
    if given["export"]:
        write = offsets.write_rows if _is_of_one_group(given) else offsets.write_group_rows
    return carry(Carrying(Planned(plan, cluster, facts), write, chosen.passed_over), given)


def _target(given: dict[str, Any]) -> Target:
    (name,) = (name for name in TARGETS if given[name] is not None and given[name] is not False)
    if name == "from_file":
        return _from_file(given)
    mode = name.replace("_", "-")
    text = "" if mode in WITHOUT_VALUE else str(given[name])
    return parse_target(mode, text, now=datetime.now(UTC), past_end=given["past_end"])


def _from_file(given: dict[str, Any]) -> FromOffsets:
    from toolkit.storage.offsets_files import read_offsets

    path = given["from_file"]
    saved = read_offsets(path, group=given["groups"][0] if _is_of_one_group(given) else None)
    if not saved.names_groups:
        raise UsageError(
            f"offsets file {path} does not say which group each line is for",
            hint="write group,topic,partition,offset, or name one group",
        )
    return from_offsets(saved.rows, source=f"from-file {path}", cluster_id=saved.cluster_id)


def _is_of_one_group(given: dict[str, Any]) -> bool:
    """Whether a CSV is of one group, and has three columns."""
    return len(set(given["groups"])) == 1


def _meant(
    facts: Snapshot, scopes: Sequence[TopicScope], target: Target, given: dict[str, Any]
) -> Collection[str] | None:
    """Return the groups that --all-groups means: in the file, or with a commit on a topic."""
    if isinstance(target, FromOffsets):
        return {name for name in target.rows if name is not None}
    if not scopes or given["new_topics"]:
        return None
    topics = {scope.topic for scope in scopes}
    return {commit.group_id for commit in facts.commits if commit.topic in topics}


def _without_strangers(plan: Plan) -> Plan:
    """Let a topic that some of all groups never used be no reason to stop; they are left alone."""
    findings = (
        replace(found, severity=Severity.NOTE) if found.rule == "topic-never-used" else found
        for found in plan.findings
    )
    return replace(plan, findings=tuple(findings))
