"""Rules about records that a change would skip or repeat, and offsets that would be gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from toolkit.plan import Action, Change, Intent
from toolkit.planning.guardrails.case import CannotTell, Case, Objection
from toolkit.planning.guardrails.policy import over


def skips_unread_records(case: Case) -> Iterator[Objection]:
    """Records that a group has not read are not passed over without saying so."""
    for step in case.aimed_steps:
        if count := sum(_skipped(case, change) for change in step.changes):
            yield Objection(
                f"{count:,} records that it has not read would be skipped", step.group_id
            )


def too_many_records(case: Case) -> Iterator[Objection]:
    """No plan skips or repeats more records at once than the fleet file allows."""
    changes = [change for step in case.aimed_steps for change in step.changes]
    skipped = sum(_skipped(case, change) for change in changes)
    repeated = sum(_repeated(case, change) for change in changes)
    yield from over("records_skipped", skipped, case.policy.max_records_skipped)
    yield from over("records_repeated", repeated, case.policy.max_records_repeated)


def before_log_start(case: Case) -> Iterator[Objection]:
    """Where records that were asked for are gone, or will be outside the log, that is said."""
    for found in case.plan.findings:
        if found.rule == "before-log-start":
            yield Objection(found.why, found.group_id, found.topic, found.partition)
    for step in case.aimed_steps:
        for change in step.changes:
            if why := _outside(case, change):
                yield Objection(why, step.group_id, *change.partition)


def last_offsets(case: Case) -> Iterator[Objection]:
    """A group's last committed offset is not deleted in passing: the group would start anew."""
    held = Counter(group_id for group_id, _ in case.commits)
    for step in case.plan.steps:
        gone = sum((step.group_id, change.partition) in case.commits for change in step.changes)
        if step.action is Action.DELETE_OFFSETS and gone and gone == held[step.group_id]:
            yield Objection(
                "these are all its committed offsets: it would start where its consumers' "
                "auto.offset.reset says",
                step.group_id,
            )


def _log(case: Case, change: Change) -> tuple[int, int]:
    log = case.facts.logs.get(change.partition)
    if log is None or log.log_start is None or log.log_end is None:
        topic, number = change.partition
        raise CannotTell(f"where the log of {topic} partition {number} starts and ends")
    return log.log_start, log.log_end


def _skipped(case: Case, change: Change) -> int:
    """Count the records between the first that the group has not read and where it would go."""
    if change.after is None:
        return 0
    start, end = _log(case, change)
    if change.before is not None:
        return max(0, min(change.after.offset, end) - max(change.before.offset, start))
    # Where a copy or a restore fills a group in, nothing is known to be unread.
    return max(0, change.after.offset - start) if case.plan.intent is Intent.RESET else 0


def _repeated(case: Case, change: Change) -> int:
    if change.after is None or change.before is None:
        return 0
    start, end = _log(case, change)
    return max(0, min(change.before.offset, end) - max(change.after.offset, start))


def _outside(case: Case, change: Change) -> str:
    if change.after is None:
        return ""
    start, end = _log(case, change)
    wanted = change.after.offset
    return (
        "" if start <= wanted <= end else f"{wanted} is not in the log, which has {start} to {end}"
    )
