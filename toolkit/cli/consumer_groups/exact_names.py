"""Which groups a call is about: names are names here, never patterns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from glob import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from toolkit.cli.consumer_groups.list import is_consumer_group
from toolkit.errors import NotFound
from toolkit.model import Snapshot

if TYPE_CHECKING:
    from toolkit.model import Group


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


class ToolSelection(NamedTuple):
    """The groups that a change is about, and those that it has to pass over."""

    ids: tuple[str, ...]
    passed_over: tuple[Group, ...] = ()


def choose(
    snapshot: Snapshot, given: dict[str, Any], *, meant: Collection[str] | None = None
) -> ToolSelection:
    """
    Return the groups named, or with --all-groups the idle ones, of `meant` where that is given.

    Live ones are passed over. Raises NotFound where no idle one is left.
    """
    if not given["all_groups"]:
        return ToolSelection(tuple(dict.fromkeys(given["groups"])))
    groups = [
        group
        for group in snapshot.groups
        if is_consumer_group(group) and (meant is None or group.group_id in meant)
    ]
    idle = tuple(group.group_id for group in groups if not group.is_live)
    if not idle:
        raise NotFound("no group is idle and has what is meant", hint="name groups with --group")
    return ToolSelection(idle, tuple(group for group in groups if group.is_live))
