"""
Select groups by name or pattern, and explain why a group cannot be changed now.

Offsets of a group with members are only changed while the partitions are paused: otherwise a
consumer would overwrite the change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from toolkit.errors import BrokerRefused, UsageError
from toolkit.model import (
    Group,
    GroupState,
    GroupType,
    Snapshot,
    TopicPartition,
    is_pattern,
    select_groups,
)
from toolkit.model.names import shown_name
from toolkit.plan import Action, Finding, Severity
from toolkit.planning.selection.findings import block, note, unread
from toolkit.planning.selection.member_names import members_of
from toolkit.planning.selection.partition_selection import scopes_of
from toolkit.planning.selection.snapshot_index import SnapshotIndex

NO_OFFSETS = "a share group has no committed offsets (KIP-932)"
NOT_A_PATTERN = "taken for the name of this group alone, and not for a pattern"
UNKNOWN_TYPE = "group type is not supported by this version"


def choose_groups(index: SnapshotIndex, names: Sequence[str]) -> tuple[list[Group], list[Finding]]:
    """
    Return the groups that match one of the names, in order, and findings about the names.

    A name that no group has is a shell pattern, see `select_groups`; one that could also be read as
    a pattern is noted. If not all groups could be listed, a missing group may still exist, and a
    pattern may match more groups: both are findings. Raises UsageError without a name.
    """
    if not names:
        raise UsageError("no group given", hint="name groups or patterns; '*' means all")
    chosen, missing = select_groups(index.snapshot.groups, names)
    dead = [group.group_id for group in chosen if group.state is GroupState.DEAD]
    lost = dict.fromkeys((*missing, *sorted(dead)))
    findings = [no_such_group(name, index.snapshot) for name in lost]
    exact = {group.group_id for group in chosen}
    findings += [
        note("name-is-a-pattern", NOT_A_PATTERN, name)
        for name in dict.fromkeys(names)
        if name in exact and is_pattern(name)
    ]
    patterns = set(names) - exact
    if patterns - set(missing):
        findings += may_lack_groups(index.snapshot)
    alive = (group for group in chosen if group.state is not GroupState.DEAD)
    return sorted(alive, key=lambda group: group.group_id), findings


def may_lack_groups(snapshot: Snapshot) -> tuple[Finding, ...]:
    """Return the finding that more groups may be meant than were listed, if so."""
    if not (unlisted := snapshot.listing_problem):
        return ()
    why = f"the group list is incomplete, so more groups may be meant: {unlisted}"
    return (Finding("incomplete", Severity.NOTE, why),)


def commit_action(group: Group | None, changed: Collection[TopicPartition]) -> Action:
    """Return how offsets are committed: in a transaction where a live group does not read them."""
    is_live = group and group.is_live
    return Action.MOVE if group and is_live and is_unread(group, changed) else Action.COMMIT


def is_unread(group: Group, changed: Collection[TopicPartition]) -> bool:
    """
    Return whether no member reads any of the changed partitions.

    Each is paused, or, as far as a Stable group shows, of a topic that nobody subscribes to.
    """
    return bool(changed) and not any(_may_read(group, place) for place in changed)


def _may_read(group: Group, place: TopicPartition) -> bool:
    if place in group.paused:
        return False
    is_known = group.state is GroupState.STABLE and group.is_of_consumers
    return (
        not is_known
        or bool(group.unreadable_subscription)
        or place.topic in group.subscribed_topics
    )


def why_live(group: Group, action: Action, changed: Collection[TopicPartition] = ()) -> str:
    """Return that a group is live, and the alternatives."""
    why = f"group is {group.state}; members: {members_of(group)}"
    if action not in {Action.COMMIT, Action.MOVE}:
        return why
    free = scopes_of(partition for partition in changed if _may_read(group, partition))
    if free and group.paused:
        why += f"; {' '.join(map(str, free))} is not paused"
    return f"{why}. Pause these partitions, or use 'offsetbook move' (live in a notebook)"


def why_not_idle(
    index: SnapshotIndex, group: Group, changed: Collection[TopicPartition] = ()
) -> Iterator[Finding]:
    """
    Yield why a group may not be changed from outside: live, share, or not fully known.

    A live group may be changed where no member reads the `changed` partitions.
    """
    name = group.group_id
    problems = index.problems_of(name)
    yield from map(unread, problems)
    if group.type is GroupType.SHARE:
        yield block("share-group", NO_OFFSETS, name)
        return
    if group.type is GroupType.UNKNOWN and not problems:
        yield block("unreadable", UNKNOWN_TYPE, name)
    if group.is_live and not is_unread(group, changed):
        yield block("group-live", why_live(group, Action.COMMIT, changed), name)


def refuse_unread_commits(snapshot: Snapshot, group_id: str) -> None:
    """Raise BrokerRefused if a group may have committed offsets that could not be read."""
    if why := snapshot.unread_commits(group_id):
        name = shown_name(group_id)
        raise BrokerRefused(f"committed offsets of group {name} could not be read: {why}")


def is_plannable(index: SnapshotIndex, group: Group) -> bool:
    """Return whether the committed offsets of a group are known, so that changes can be shown."""
    problems = index.problems_of(group.group_id)
    hides = any(problem.hides_commits for problem in problems)
    return group.type is not GroupType.SHARE and not hides


def no_such_group(name: str, snapshot: Snapshot) -> Finding:
    """Return the finding that no group matches a name, or that this is unknown."""
    unlisted = snapshot.listing_problem
    why = snapshot.why_missing(name)
    if unlisted:
        why = f"not found, but the group list is incomplete: {unlisted}"
        return block("unreadable", why, name)
    return block("no-such-group", why, name)
