"""
Rules of a standing approval: which groups, and how long they must have been left alone.

Nobody reviews a plan that is applied under one, so what it says holds always: no override passes
it, and a missing fact blocks the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from fnmatch import fnmatchcase

from toolkit.model.names import named, shown_name
from toolkit.model.plurals import counted
from toolkit.model.sightings import Sighting
from toolkit.planning.guardrails.check_context import CheckContext, FactsMissing, Objection
from toolkit.planning.guardrails.policy_rules import MAX_PLAN_AGE
from toolkit.planning.selection.last_use import last_use_of

DAY = timedelta(days=1)
# A series is evidence of what was so until it was last seen: the run itself has to have looked.
SEEN_WITHIN = MAX_PLAN_AGE


def group_not_allowed(case: CheckContext) -> Iterator[Objection]:
    """A standing approval for some groups is none for others."""
    allowed = case.limits.groups if case.limits else ()
    names = {*allowed, *map(named, allowed)}
    # The others are names of groups.
    patterns = set(allowed) - case.groups.keys() - case.facts.listed
    for name in case.plan.group_ids if allowed else ():
        if name not in names and not any(fnmatchcase(name, pattern) for pattern in patterns):
            entries = ", ".join(map(shown_name, allowed))
            told = f"not covered by the standing approval, which allows {entries}"
            yield Objection(told, name)


def empty_too_briefly(case: CheckContext) -> Iterator[Objection]:
    """A group is left alone until nobody has used it for as long as the approval says."""
    days = case.limits.empty_for_days if case.limits else None
    if days is None:
        return
    unknown = []
    for name in case.plan.group_ids:
        commits = list(case.committed(name).values())
        group = case.groups.get(name)
        seen = _confirmed_sighting(case, case.seen.empty.get(name))
        unused = last_use_of(group, commits, seen) if group else None
        if unused is None:
            unknown.append(f"when {shown_name(name)} was last used")
        elif case.now - unused.since < days * DAY:
            told = f"{(case.now - unused.since) / DAY:.1f} days by {unused.source}"
            yield Objection(
                f"unused for only {told}; the limit empty_for_days requires {days}", name
            )
    FactsMissing.where(unknown)


def unsubscribed_too_briefly(case: CheckContext) -> Iterator[Objection]:
    """Offsets are left alone until they were seen left behind as often as the approval says."""
    days = case.limits.unsubscribed_for_days if case.limits else None
    runs = case.limits.unsubscribed_in_runs if case.limits else None
    if days is None and runs is None:
        return
    unknown = []
    topics = ((step.group_id, change.partition.topic) for step, change in case.plan.changes)
    for group_id, topic in dict.fromkeys(topics):
        sighting = _confirmed_sighting(case, case.seen.unsubscribed.get((group_id, topic)))
        if sighting is None:
            unknown.append(f"since when {shown_name(group_id)} does not subscribe to {topic}")
            continue
        age = case.now - sighting.since
        if days is not None and age < days * DAY:
            why = f"seen unsubscribed for {age / DAY:.1f} days; unsubscribed_for_days is {days}"
            yield Objection(why, group_id, topic)
        if runs is not None and sighting.seen < runs:
            why = f"unsubscribed in {counted(sighting.seen, 'run')}; the limit is {runs}"
            yield Objection(why, group_id, topic)
    FactsMissing.where(unknown)


def _confirmed_sighting(case: CheckContext, sighting: Sighting | None) -> Sighting | None:
    """Return a sighting if it was seen again for this plan; an older one says nothing of now."""
    return sighting if sighting and case.now - sighting.last <= SEEN_WITHIN else None
