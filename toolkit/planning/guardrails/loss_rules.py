"""Rules about skipped records, repeated records and deleted offsets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from toolkit.model import UNREAD_OFFSETS_TOPIC, GroupType
from toolkit.model.plurals import counted
from toolkit.plan import Action
from toolkit.planning.guardrails.check_context import (
    NEW_OFFSETS,
    CheckContext,
    FactsMissing,
    Objection,
    OffsetMove,
)
from toolkit.planning.guardrails.policy_rules import over


def skips_unread_records(case: CheckContext) -> Iterator[Objection]:
    """Records that a group has not read are not passed over without saying so."""
    skipped: Counter[str] = Counter()
    for jump in case.jumps[0]:
        skipped[jump.group_id] += _skipped(case, jump)
    for group_id, count in skipped.items():
        if count:
            yield Objection(f"{counted(count, 'unread record')} would be skipped", group_id)


def too_many_records(case: CheckContext) -> Iterator[Objection]:
    """No plan skips or repeats more records at once than the fleet file allows."""
    jumps, _ = case.jumps
    skipped = sum(_skipped(case, jump) for jump in jumps)
    repeated = sum(_repeated(jump) for jump in jumps)
    yield from over("records_skipped", skipped, case.policy.max_records_skipped)
    yield from over("records_repeated", repeated, case.policy.max_records_repeated)


def before_log_start(case: CheckContext) -> Iterator[Objection]:
    """Where records that were asked for are gone, or will be outside the log, that is said."""
    for found in case.plan.findings:
        if found.rule == "before-log-start":
            yield Objection(found.why, found.group_id, found.topic, found.partition)
    for jump in case.jumps[0]:
        wanted, start, end = jump.after.offset, jump.start, jump.end
        if not start <= wanted <= end:
            why = f"offset {wanted} is out of range; the log is {start} to {end}"
            yield Objection(why, jump.group_id, *jump.partition)


def last_offsets(case: CheckContext) -> Iterator[Objection]:
    """Block the deletion of a group's last committed offsets unless overridden."""
    held, gone = defaultdict(set), defaultdict(set)
    for group_id, partition in case.commits:
        held[group_id].add(partition)
    for step, change in case.plan.changes:
        if step.action is Action.DELETE_OFFSETS:
            gone[step.group_id].add(change.partition)
    for group_id, partitions in gone.items():
        if held[group_id] and held[group_id] <= partitions:
            yield Objection(
                "these are the group's last committed offsets; afterwards its consumers start "
                "according to auto.offset.reset",
                group_id,
            )


def _skipped(case: CheckContext, jump: OffsetMove) -> int:
    """Count the records between the first that the group has not read and where it would go."""
    first = jump.start
    if jump.before is not None:
        first = max(first, jump.before.offset)
    elif case.plan.intent not in NEW_OFFSETS:
        return 0  # where a copy or a restore fills a group in, nothing is known to be unread
    return max(0, min(jump.after.offset, jump.end) - first)


def _repeated(jump: OffsetMove) -> int:
    """Count the records between where the group would go and the first that it has not read."""
    if jump.before is None:
        return 0
    return max(0, min(jump.before.offset, jump.end) - max(jump.after.offset, jump.start))


def not_undoable(case: CheckContext) -> Iterator[Objection]:
    """Block deletions that undo cannot restore unless overridden."""
    for step in case.plan.steps:
        group = case.groups.get(step.group_id)
        if step.action is Action.DELETE_GROUP and group and group.type is GroupType.SHARE:
            why = "deleting a share group deletes its share state; undo cannot restore it"
            yield Objection(why, step.group_id)


def hidden_offsets(case: CheckContext) -> Iterator[Objection]:
    """
    What nobody has seen is not deleted along with a group.

    A coordinator does not show offsets of topics that we may not describe, and deletes them all the
    same; only the offsets topic tells of them.
    """
    for step in case.plan.steps:
        if step.action is Action.DELETE_GROUP and step.group_id in case.groups:
            for problem in case.facts.problems:
                if problem.what == UNREAD_OFFSETS_TOPIC:
                    raise FactsMissing(f"whether all committed offsets are shown: {problem.why}")
    yield from ()
