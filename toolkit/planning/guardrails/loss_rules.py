"""Rules about skipped records, repeated records and deleted offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from toolkit.model import UNREAD_OFFSETS_TOPIC, GroupType, TopicPartition
from toolkit.model.plurals import counted
from toolkit.plan import Action
from toolkit.planning.guardrails.check_context import (
    CheckContext,
    FactsMissing,
    Objection,
)
from toolkit.planning.guardrails.policy_rules import over
from toolkit.planning.selection.plan_parts import out_of_range


def skips_unread_records(case: CheckContext) -> Iterator[Objection]:
    """Records that a group has not read are not passed over without saying so."""
    for group_id, count in case.moves.skipped.items():
        yield Objection(f"at most {counted(count, 'unread record')} would be skipped", group_id)


def too_many_records(case: CheckContext) -> Iterator[Objection]:
    """No plan skips or repeats more records at once than the fleet file allows."""
    moves, policy = case.moves, case.policy
    yield from over("records_skipped", moves.skipped.total(), policy.max_records_skipped)
    yield from over("records_repeated", moves.repeated, policy.max_records_repeated)


def before_log_start(case: CheckContext) -> Iterator[Objection]:
    """Where records that were asked for are gone, or will be outside the log, that is said."""
    for found in case.plan.findings:
        if found.rule == "before-log-start":
            yield Objection(found.why, found.group_id, found.topic, found.partition)
    for group_id, partition, wanted, start, end in case.moves.outside:
        yield Objection(out_of_range(wanted, start, end), group_id, *partition)


def last_offsets(case: CheckContext) -> Iterator[Objection]:
    """Block the deletion of a group's last committed offsets unless overridden."""
    gone: defaultdict[str, set[TopicPartition]] = defaultdict(set)
    for step in case.plan.steps:
        if step.action is Action.DELETE_OFFSETS:
            gone[step.group_id].update(change.partition for change in step.changes)
    for group_id, partitions in gone.items():
        held = case.committed(group_id)
        if held and held.keys() <= partitions:
            yield Objection(
                "these are the group's last committed offsets; afterwards its consumers start "
                "according to auto.offset.reset",
                group_id,
            )


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
