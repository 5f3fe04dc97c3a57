"""Which groups a call is about: names are names here, never patterns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from toolkit.model import Snapshot
from toolkit.model.names import ExactName

if TYPE_CHECKING:
    from toolkit.journeys.change.group_choice import GroupChoice


def named(groups: Iterable[str]) -> tuple[str, ...]:
    """Return names to read by: for the tool, `pay*` is a name."""
    return tuple(map(ExactName, groups))


def exactly(snapshot: Snapshot, names: Sequence[str]) -> list[str]:
    """Return the names that no group has."""
    known = {group.group_id for group in snapshot.groups}
    return [name for name in dict.fromkeys(names) if name not in known]


def chosen_by(given: dict[str, Any]) -> GroupChoice:
    """Return the groups of a change: those named, or with --all-groups all that are idle."""
    from toolkit.journeys.change.group_choice import GroupChoice

    return GroupChoice(tuple(given["groups"]), exact=True, all_idle=given["all_groups"])
