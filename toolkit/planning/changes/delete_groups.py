"""
Plan the deletion of groups (KIP-229), by name or by time since last use.

How long a group has been empty is never estimated: see `toolkit.planning.selection.last_use`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from toolkit.model import Group, GroupType, Snapshot
from toolkit.model.groups import Sighting
from toolkit.model.names import matches, named, shown_name
from toolkit.model.times import format_duration
from toolkit.plan import Action, Change, Intent, Plan, Position
from toolkit.planning.selection.findings import block, note
from toolkit.planning.selection.group_selection import UNKNOWN_TYPE, choose_groups, why_live
from toolkit.planning.selection.last_use import LastUse, last_use_of, seen_in
from toolkit.planning.selection.plan_parts import Part, list_names, plan_of
from toolkit.planning.selection.snapshot_index import SnapshotIndex


def plan_delete_groups(
    snapshot: Snapshot,
    *,
    groups: Sequence[str],
    empty_for: timedelta | None = None,
    sightings: Mapping[str, Sighting] | None = None,
    protected: Sequence[str] = (),
) -> Plan:
    """
    Plan to delete groups and all their offsets, by name or shell pattern.

    With `empty_for`, groups used more recently, or with an unknown last use, are skipped with a
    note; `sightings` are by group, up to this snapshot. A live group, and one of those that are
    `protected` (names and patterns of the fleet file), is skipped with a note if it only matches a
    pattern; one that is named blocks. Raises UsageError without a name.
    """
    facts, seen = SnapshotIndex(snapshot), seen_in(sightings, snapshot)
    exact = {*groups, *map(named, groups)}

    def parts() -> Iterator[Part]:
        chosen, findings = choose_groups(facts, groups)
        yield from findings
        for group in chosen:
            why = "" if group.group_id in exact else why_not_deleted(group, protected)
            if why:
                yield note("left-out", f"only matches a pattern: {why}", group.group_id)
                continue
            commits = facts.commits_of(group.group_id).values()
            unused = last_use_of(group, commits, seen.get(group.group_id))
            if empty_for is None:
                yield from _deleted(facts, group, _age_text(unused, snapshot.taken_at))
            elif group.is_live:
                yield from _deleted(facts, group, "")
            else:
                yield from _if_old_enough(facts, group, unused, empty_for)

    request = f"delete groups {list_names(groups)}"
    if empty_for is not None:
        request += f", empty for {format_duration(empty_for)}"
    return plan_of(snapshot, parts(), intent=Intent.DELETE_GROUPS, request=request)


def why_not_deleted(group: Group, protected: Sequence[str]) -> str:
    """Return why a group may not be deleted, by its state and the fleet file; "" if it may."""
    if group.is_live:
        return why_live(group, Action.DELETE_GROUP)
    entry = next((entry for entry in protected if matches(group.group_id, entry)), None)
    return "" if entry is None else f"protected by the fleet file ({shown_name(entry)})"


def _if_old_enough(
    facts: SnapshotIndex, group: Group, unused: LastUse | None, empty_for: timedelta
) -> Iterator[Part]:
    age = _age_text(unused, facts.snapshot.taken_at)
    if unused is None:
        why = (
            "unknown when the group became empty: no record in __consumer_offsets and no earlier "
            "observation"
        )
        yield note("age-unknown", why, group.group_id)
    elif facts.snapshot.taken_at - unused.since < empty_for:
        yield note("too-young", f"{age}; required: {format_duration(empty_for)}", group.group_id)
    else:
        yield note("empty-for", age, group.group_id)
        yield from _deleted(facts, group, age)


def _deleted(facts: SnapshotIndex, group: Group, why: str) -> Iterator[Part]:
    name, committed = group.group_id, facts.commits_of(group.group_id)
    unreadable = tuple(facts.unreadable(name))
    yield from unreadable
    if group.is_live:
        yield block("group-live", why_live(group, Action.DELETE_GROUP), name)
        return
    if group.type is GroupType.UNKNOWN:
        yield block("unreadable", UNKNOWN_TYPE, name)
    if not unreadable:
        changes = [Change(p, Position.of(commit), None, why) for p, commit in committed.items()]
        yield facts.step(name, Action.DELETE_GROUP, changes)


def _age_text(unused: LastUse | None, now: datetime) -> str:
    if unused is None:
        return ""
    age = format_duration(max(now - unused.since, timedelta(0)))
    return f"Empty for {age}: {unused.source} of {unused.since:%Y-%m-%d}"
