"""Which groups are meant: one, several by name or pattern, or all that are idle."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from toolkit.errors import BrokerRefused, NotFound, UsageError
from toolkit.model import Group, Snapshot, select_groups
from toolkit.model.names import ExactName, named, shown_name
from toolkit.plan import Finding, Plan
from toolkit.planning.selection.group_selection import may_lack_groups
from toolkit.report.notices import nothing_selected


def one_group(groups: str | Sequence[str], what: str) -> str:
    """
    Return the name of the only group of some, which may be given alone, and in quotes.

    `what` can be of one group only, such as "a pause". Raises UsageError for none and for several.
    """
    names = [groups] if isinstance(groups, str) else [*groups]
    if not any(name or isinstance(name, ExactName) for name in names):
        hint = "select one above, or set the parameter groups"
        raise nothing_selected("no group selected", hint=hint)
    if len(names) > 1:
        listed = ", ".join(map(shown_name, names))
        raise UsageError(
            f"{what} is of one group, and groups has {len(names)}: {listed}",
            hint="set groups to one of them",
        )
    return named(names[0])


@dataclass(frozen=True, slots=True)
class GroupChoice:
    """
    Which groups a change is about.

    `names` are names and shell patterns. `all_idle` means every consumer group without members
    instead; live ones are skipped.
    """

    names: tuple[str, ...] = ()  # by which the groups are read; none means all
    all_idle: bool = False

    @classmethod
    def of(cls, groups: Sequence[str] | GroupChoice) -> GroupChoice:
        """Return a choice by names and patterns, or the choice itself; UsageError for nothing."""
        choice = groups if isinstance(groups, GroupChoice) else cls(tuple(groups))
        if not choice.names and not choice.all_idle:
            hint = "select groups above, or set the parameter groups"
            raise nothing_selected("no group is named", hint=hint)
        return choice

    def narrow(self, facts: Snapshot, *, only: Collection[str] | None = None) -> ChosenGroups:
        """
        Return the facts about the groups that are meant, and their names.

        `only` narrows all idle groups down further. Raises NotFound if no idle group is left, and
        BrokerRefused if that is not known because not all groups could be listed.
        """
        if not self.all_idle:
            # The whole cluster may have been read, to know how old its groups are.
            chosen, _ = select_groups(facts.groups, self.names)
            return ChosenGroups(replace(facts, groups=tuple(chosen)), self.names)
        meant = [
            group
            for group in facts.groups
            if group.is_of_consumers and (only is None or group.group_id in only)
        ]
        idle = tuple(group for group in meant if not group.is_live)
        lacking = may_lack_groups(facts)
        if not idle:
            if lacking:
                raise BrokerRefused(f"no idle group was found: {lacking[0].why}")
            raise NotFound("no idle group has what is meant", hint="name the groups")
        live = tuple(group for group in meant if group.is_live)
        names = tuple(group.group_id for group in idle)
        return ChosenGroups(replace(facts, groups=idle), names, live, lacking)


@dataclass(frozen=True, slots=True)
class ChosenGroups:
    """
    Facts about the groups that a change is about, their names, and live ones it skips.

    `lacking` is the finding that there may be more groups.
    """

    facts: Snapshot
    names: tuple[str, ...]
    skipped: tuple[Group, ...] = ()
    lacking: tuple[Finding, ...] = ()

    def with_lacking(self, plan: Plan) -> Plan:
        """Return a plan for these groups with what is lacking."""
        return replace(plan, findings=(*plan.findings, *self.lacking))
