"""Save committed offsets to a file, and put them back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolkit.journeys.change.change_facts import read_topics
from toolkit.journeys.change.group_choice import GroupChoice
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.model import Snapshot, select_groups
from toolkit.model.names import ExactName
from toolkit.plan.saved_offsets import SavedOffsets
from toolkit.planning.changes.restore import plan_restore
from toolkit.storage.offsets_files import read_offsets, saved_offsets


def export(access: ClusterAccess, groups: Sequence[str]) -> tuple[SavedOffsets, Snapshot]:
    """
    Return the committed offsets of groups in any state, and the facts with what was not read.

    `groups` are names and shell patterns. Raises NotFound for one that no group has or matches, and
    BrokerRefused if that is not known because not all groups could be listed.
    """
    choice = GroupChoice.of(groups)
    facts = read_topics(access, choice.names)
    chosen, missing = select_groups(facts.groups, choice.names)
    if missing:
        raise facts.no_such_group(missing[0], so="; nothing was exported")
    return saved_offsets(facts, {group.group_id for group in chosen}), facts


def restore(
    access: ClusterAccess,
    saved: SavedOffsets | Path,
    *,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    into: str | None = None,
) -> PlannedChange:
    """
    Plan to restore saved offsets; missing groups are created.

    `groups` (names and shell patterns) and `topics` (scopes) select saved offsets. `into`
    restores a single group under another name. Raises UsageError and ClusterUnreachable.
    """
    found = saved if isinstance(saved, SavedOffsets) else read_offsets(saved)
    names = {commit.group_id for commit in found.commits} | set(() if into is None else (into,))
    facts = read_topics(
        access, [*map(ExactName, sorted(names))], topics={commit.topic for commit in found.commits}
    )
    plan = plan_restore(facts, found, groups=groups, topics=topics, into=into)
    return PlannedChange(access=access, plan=plan, facts=facts)
