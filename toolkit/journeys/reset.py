"""Move the committed offsets of idle groups, or of partitions that are paused."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.journeys.change.change_facts import read_facts, read_topics
from toolkit.journeys.change.checked_plan import CheckedPlan
from toolkit.journeys.change.group_choice import GroupChoice
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.model import Snapshot, TopicPartition
from toolkit.model.names import ExactName, named, shown_name
from toolkit.planning.changes.reset import may_have_committed, plan_reset, skip_unused_topics
from toolkit.planning.changes.targets import (
    BY_TIME,
    FromOffsets,
    PastEnd,
    Target,
    from_group,
    from_offsets,
    parse_target,
)
from toolkit.planning.changes.topic_recreated import OffsetsOrigin
from toolkit.planning.selection.partition_selection import parse_topics
from toolkit.report.run_command import NotebookCall
from toolkit.storage.offsets_files import read_offsets

FROM_FILE, FROM_GROUP = "from-file", "from-group"


@dataclass(frozen=True, slots=True)
class FromGroup:
    """To the committed offsets of another group, which is read when the change is planned."""

    group: str


@dataclass(frozen=True, slots=True)
class RequestedTarget:
    """The target of a reset, and the mode and value that requested it."""

    target: Target | FromGroup
    mode: str
    value: str = ""
    past_end: str = PastEnd.KEEP

    @property
    def names_groups(self) -> bool:
        """Whether it says which group each offset is for; a file of three columns does not."""
        return not (isinstance(self.target, FromOffsets) and None in self.target.rows)


def target(mode: str, value: str = "", *, past_end: str = PastEnd.KEEP) -> RequestedTarget:
    """
    Return where offsets go: `target("to-offset", "20")`, `target("by-duration", "P1D")`.

    Modes: to-earliest, to-latest, to-current, clear-metadata, to-offset, shift-by, to-datetime,
    by-duration, and from-file and from-group with a path or a group as value. `past_end` is what
    becomes of a partition without a record that young: keep, latest or fail. Raises UsageError,
    also for a `past_end` without a time.
    """
    if past_end != PastEnd.KEEP and mode not in BY_TIME:
        times = " and ".join(BY_TIME)
        raise UsageError(f"past_end {past_end} is for {times}, not for {mode}", hint="leave it out")
    if mode == FROM_GROUP:
        return RequestedTarget(FromGroup(named(value)), mode, value)
    if mode == FROM_FILE:
        saved = read_offsets(Path(value))
        origin = OffsetsOrigin(saved.cluster_id, saved.topic_ids)
        rows = from_offsets(saved.rows, source=f"{mode} {value}", origin=origin)
        return RequestedTarget(rows, mode, value)
    found = parse_target(mode, value, now=datetime.now(UTC), past_end=past_end)
    return RequestedTarget(found, mode, value, past_end)


def reset(
    access: ClusterAccess,
    groups: Sequence[str] | GroupChoice,
    *,
    to: RequestedTarget | Target,
    topics: Sequence[str] = (),
    new_topics: bool = False,
) -> PlannedChange:
    """
    Plan to move the committed offsets of idle groups, or of partitions that are paused.

    `groups` are names and shell patterns, `topics` scopes (`TOPIC` or `TOPIC:0,1`), none means all
    that is committed. `new_topics` also commits topics that a group never committed. Raises
    UsageError, NotFound and ClusterUnreachable.
    """
    choice = GroupChoice.of(groups)
    parse_topics(topics)  # before anything is read
    where = resolve_target(access, to)
    facts = read_facts(access, choice.names, topics=topics, target=where)
    chosen = choice.narrow(facts, only=_meant(facts, topics, where, new_topics=new_topics))
    plan = plan_reset(
        chosen.facts, where, groups=chosen.names, topics=topics, new_topics=new_topics
    )
    return PlannedChange(
        access=access,
        plan=chosen.with_lacking(skip_unused_topics(plan) if choice.all_idle else plan),
        facts=chosen.facts,
        skipped=chosen.skipped,
        call=reset_call(choice.names, to, topics, new_topics=new_topics),
    )


def committed_in_scope(
    change: CheckedPlan, to: RequestedTarget, topics: Sequence[str]
) -> dict[tuple[str, TopicPartition], int]:
    """Return the committed offsets in the scope of a reset, also those that stay."""
    scopes, where = parse_topics(topics), to.target
    groups = {group.group_id for group in change.facts.groups}
    found = {}
    for commit in change.facts.commits:
        partition = TopicPartition(commit.topic, commit.partition)
        rows = None if isinstance(where, FromGroup) else where.named(commit.group_id)
        if (
            commit.group_id in groups
            and (not scopes or any(partition in scope for scope in scopes))
            and (rows is None or partition in rows)
        ):
            found[commit.group_id, partition] = commit.offset
    return found


def resolve_target(access: ClusterAccess, to: RequestedTarget | Target) -> Target:
    """
    Return a target that can be planned with; the offsets of another group are read for it.

    Raises UsageError for a text, such as a Python caller may write, and NotFound.
    """
    where = to.target if isinstance(to, RequestedTarget) else to
    if isinstance(where, str):
        raise UsageError(
            f"{to!r} is not a target",
            hint="make one with ob.target(MODE, VALUE), such as ob.target('shift-by', '-10')",
        )
    if not isinstance(where, FromGroup):
        return where
    facts = read_topics(access, [ExactName(where.group)])
    return from_group(facts, where.group, source=f"{FROM_GROUP} {shown_name(where.group)}")


def reset_call(
    groups: Sequence[str],
    to: RequestedTarget | Target,
    topics: Sequence[str],
    *,
    new_topics: bool = False,
    **live: str,
) -> NotebookCall:
    """Return the notebook call for the same reset or, with the terms of `live`, move."""
    if not isinstance(to, RequestedTarget):
        return NotebookCall()
    past_end = "" if to.past_end == PastEnd.KEEP else to.past_end
    parameters = {
        "groups": groups,
        "topics": topics,
        "mode": to.mode,
        "value": to.value,
        "past_end": past_end,
        "new_topics": new_topics or "",
        **live,
    }
    return NotebookCall("50_reset_offsets", parameters, takes_plan_file=not live)


def _meant(
    facts: Snapshot, topics: Sequence[str], where: Target, *, new_topics: bool
) -> Collection[str] | None:
    """Return which of all groups are meant: those in a file, or that committed to a topic."""
    if isinstance(where, FromOffsets):
        return {name for name in where.rows if name is not None}
    if not topics or new_topics:
        return None
    return may_have_committed(facts, {scope.topic for scope in parse_topics(topics)})
