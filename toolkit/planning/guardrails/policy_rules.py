"""
Rules about who may change what, and how much at once: by the fleet file, or a standing approval.

A plan that is applied under a standing approval is not reviewed, so the limits of the approval
always apply: they cannot be overridden, and a missing fact blocks the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from toolkit.model.groups import Sighting, all_meant
from toolkit.model.names import matches, shown_name
from toolkit.model.plurals import counted
from toolkit.plan.approvals import lacks_reason
from toolkit.planning.guardrails.check_context import AIMED, CheckContext, FactsMissing, Objection
from toolkit.planning.guardrails.rule import BY_HAND, NEVER, Rule
from toolkit.planning.selection.last_use import last_use_of

MAX_PLAN_AGE = timedelta(hours=1)
CLOCKS_DIFFER_BY = timedelta(minutes=5)  # between the hosts that plan and apply
DAY = timedelta(days=1)
# A series is evidence of what was so until it was last seen: the run itself has to have looked.
SEEN_WITHIN = MAX_PLAN_AGE


@Rule("The fleet file does not call the cluster read-only.", override=NEVER, lasting=True)
def read_only(case: CheckContext) -> Iterator[Objection]:
    if case.policy.read_only:
        yield Objection(f"cluster {case.plan.cluster} is marked read_only in the fleet file")


@Rule("The fleet file does not protect the group.", override=NEVER, lasting=True)
def protected_group(case: CheckContext) -> Iterator[Objection]:
    for name in case.plan.group_ids:
        for pattern in case.policy.protected_groups:
            if matches(name, pattern):
                entry = f"protected_groups: {shown_name(pattern)}"
                yield Objection(f"protected by the fleet file ({entry})", name)
                break


@Rule("The approval gives a reason, or the fleet file makes it optional.", override=NEVER)
def reason_required(case: CheckContext) -> Iterator[Objection]:
    if case.applying and lacks_reason(case.reason, case.policy):
        yield Objection("no reason given")


@Rule("The plan is younger than an hour.")
def stale_plan(case: CheckContext) -> Iterator[Objection]:
    age = case.now - case.plan.made_at
    if not case.applying or case.finishing:
        return
    if age < -CLOCKS_DIFFER_BY:
        raise FactsMissing(f"how old the plan is: it is of {case.plan.made_at:%Y-%m-%d %H:%M} UTC")
    if age > MAX_PLAN_AGE:
        yield Objection(f"the plan was made {age / timedelta(hours=1):.1f} hours ago")


@Rule("The plan changes no more groups than max_groups.", override=BY_HAND)
def too_many_groups(case: CheckContext) -> Iterator[Objection]:
    yield from _over("groups", len(case.plan.group_ids), case.policy.max_groups)


@Rule("The plan changes no more committed offsets than max_partitions.", override=BY_HAND)
def too_many_partitions(case: CheckContext) -> Iterator[Objection]:
    count = sum(len(step.changes) for step in case.plan.steps)
    yield from _over("partitions", count, case.policy.max_partitions)


@Rule(
    "The plan skips and repeats no more records than max_records_skipped and max_records_repeated.",
    override=BY_HAND,
    intents=AIMED,
)
def too_many_records(case: CheckContext) -> Iterator[Objection]:
    moves, policy = case.moves, case.policy
    yield from _over("records_skipped", moves.skipped.total(), policy.max_records_skipped)
    yield from _over("records_repeated", moves.repeated, policy.max_records_repeated)
    FactsMissing.where(moves.unknown)


@Rule("The standing approval is for this group.", override=NEVER, only_standing=True)
def group_not_allowed(case: CheckContext) -> Iterator[Objection]:
    allowed = case.limits.groups if case.limits else ()
    known = {*case.plan.group_ids, *case.groups, *case.facts.listed}
    covered, _ = all_meant(allowed, known)
    for name in case.plan.group_ids if allowed else ():
        if name not in covered:
            entries = ", ".join(map(shown_name, allowed))
            why = f"not covered by the standing approval, which allows {entries}"
            yield Objection(why, name)


@Rule(
    "The plan skips as many records as min_records_skipped asks for.",
    override=NEVER,
    intents=AIMED,
    only_standing=True,
)
def too_few_records(case: CheckContext) -> Iterator[Objection]:
    least = case.limits.min_records_skipped if case.limits else 0
    # The plans that pause and resume for a move of offsets change none.
    if not least or not case.plan.steps or case.plan.intent not in AIMED:
        return
    skipped = case.moves.skipped.total()
    if skipped < least:
        yield Objection(f"{counted(skipped, 'record')} skipped; min_records_skipped is {least:,}")
    FactsMissing.where(case.moves.uncounted)


@Rule(
    "Nobody has used the group for as long as the standing approval says.",
    override=NEVER,
    only_standing=True,
)
def empty_too_briefly(case: CheckContext) -> Iterator[Objection]:
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
            age = f"{(case.now - unused.since) / DAY:.1f} days by {unused.source}"
            yield Objection(
                f"unused for only {age}; the limit empty_for_days requires {days}", name
            )
    FactsMissing.where(unknown)


@Rule(
    "The topic was seen unsubscribed for as long, and in as many runs, as the standing "
    "approval says.",
    override=NEVER,
    only_standing=True,
)
def unsubscribed_too_briefly(case: CheckContext) -> Iterator[Objection]:
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
    """
    Return a sighting if it was seen again for this plan; an older one says nothing of now.

    One of the future hides what was read since.
    """
    if sighting and -CLOCKS_DIFFER_BY <= case.now - sighting.last <= SEEN_WITHIN:
        return sighting
    return None


def _over(what: str, count: int, most: int) -> Iterator[Objection]:
    """Object where a count is over its limit, whose name in the fleet file is `max_` and `what`."""
    if count > most:
        words = what.replace("_", " ")
        yield Objection(f"{count:,} {words}; max_{what} is {most:,}")
