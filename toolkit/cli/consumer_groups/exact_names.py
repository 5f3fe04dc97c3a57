"""Which groups a call is about: names are names here, never patterns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from glob import escape
from typing import TYPE_CHECKING, Any

from toolkit.model import Snapshot

if TYPE_CHECKING:
    from toolkit.journeys.change.group_choice import GroupChoice


def named(groups: Iterable[str]) -> tuple[str, ...]:
    """Return names to read by: for the tool, `pay*` is a name. Others may yet match: see `only`."""
    return tuple(escape(name) for name in groups)


def only(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """Return the facts about groups of exactly these names, so that no other can be meant."""
    groups = tuple(group for group in snapshot.groups if group.group_id in names)
    return replace(snapshot, groups=groups)


def exactly(snapshot: Snapshot, names: Sequence[str]) -> list[str]:
    """Return the names that no group has."""
    known = {group.group_id for group in snapshot.groups}
    return [name for name in dict.fromkeys(names) if name not in known]


def chosen_by(given: dict[str, Any]) -> GroupChoice:
    """Return the groups of a change: those named, or with --all-groups all that are idle."""
    from toolkit.journeys.change.group_choice import GroupChoice

    return GroupChoice(tuple(given["groups"]), exact=True, all_idle=given["all_groups"])
