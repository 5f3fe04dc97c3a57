"""Judge a step by the committed offsets before and after its request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

from toolkit.kafka_io.writes.commit_and_delete import WriteResult
from toolkit.model import TopicPartition
from toolkit.model.commit_columns import NO_EPOCH, CommitColumns
from toolkit.plan import Action, Change, ChangeStatus, Position, Result, Step, StepOutcome
from toolkit.planning.selection.plan_parts import moved_offsets

Committed = Mapping[TopicPartition, Position]  # the committed offsets of a group


def positions_of(commits: CommitColumns) -> Iterator[tuple[str, dict[TopicPartition, Position]]]:
    """Yield each group with its positions in one topic; a topic may come more than once."""
    for group_id, topic, places in commits.blocks:
        rows = slice(places.start, places.stop)
        columns = commits.partitions[rows], commits.offsets[rows], commits.epochs[rows]
        noted = map(commits.metadata.get, places, repeat("")) if commits.metadata else repeat("")
        yield (
            group_id,
            {
                TopicPartition(topic, number): Position(
                    offset, None if epoch == NO_EPOCH else epoch, metadata
                )
                for number, offset, epoch, metadata in zip(*columns, noted, strict=False)
            },
        )


def read_back(
    step: Step,
    answered: WriteResult,
    before: Committed | str,
    committed: Committed | str,
    *,
    is_there: bool,
) -> StepOutcome:
    """Return the result of a step from the response and from what is committed now."""
    if isinstance(committed, str) or isinstance(before, str):
        why = f"{answered.error or 'request accepted'}; could not be verified: {committed}"
        return all_alike(step, ChangeStatus.FAILED, why)
    results = tuple(_result(c, before, committed, answered) for c in step.changes)
    if is_there and not answered.error:
        why = "the broker accepted the request, but the group may still exist"
        return StepOutcome(step.group_id, step.action, ChangeStatus.FAILED, why, results)
    # A missing group was deleted, by this request or by one whose response was lost.
    is_delete = step.action is Action.DELETE_GROUP
    is_so = not is_there if is_delete else bool(results) or not answered.error
    status = _status(results, answered, is_so=is_so)
    why = "" if status is ChangeStatus.DONE else answered.error
    return StepOutcome(step.group_id, step.action, status, why, results)


def why_moved(step: Step, committed: Committed, *, finishing: bool) -> str:
    """Return which offset differs from the plan; "" if none."""
    for (topic, number), change in moved_offsets(step, committed, may_be_made=finishing):
        what = "the group committed more offsets"
        if change:
            what = f"the offset of {topic} partition {number} changed"
        return f"{what} since the check; nothing was changed"
    return ""


def is_made(change: Change, committed: Committed) -> bool:
    """Return whether a change is in place already."""
    return change.before != change.after and committed.get(change.partition) == change.after


def _result(
    change: Change, before: Committed, committed: Committed, answered: WriteResult
) -> Result:
    found = committed.get(change.partition)
    if found == change.after and not answered.error and not answered.partitions:
        return Result(change.partition, ChangeStatus.DONE, "", change.after)
    why = answered.error or answered.partitions.get(change.partition, "")
    if found == change.after and not (why and change.before == change.after):
        return Result(change.partition, ChangeStatus.DONE, "", found)
    if found == before.get(change.partition) and why and not answered.is_lost:
        return Result(change.partition, ChangeStatus.REFUSED, why, found)
    shown = "nothing" if found is None else str(found.offset)
    why = why or "request accepted"
    return Result(
        change.partition, ChangeStatus.FAILED, f"{why}; committed offset is now {shown}", found
    )


def _status(results: Sequence[Result], answered: WriteResult, *, is_so: bool) -> ChangeStatus:
    kinds = {result.status for result in results}
    if kinds <= {ChangeStatus.DONE} and is_so:
        return ChangeStatus.DONE
    if answered.is_lost:
        return ChangeStatus.FAILED  # the request may still take effect
    return ChangeStatus.REFUSED if kinds <= {ChangeStatus.REFUSED} else ChangeStatus.FAILED


def refused_step(step: Step, why: str) -> StepOutcome:
    """Return the result of a step that was not sent because of a last check."""
    return all_alike(step, ChangeStatus.REFUSED, why)


def not_tried(step: Step, why: str) -> StepOutcome:
    """Return the result of a step that was not started, and why."""
    return all_alike(step, ChangeStatus.NOT_TRIED, why)


def all_alike(step: Step, status: ChangeStatus, why: str) -> StepOutcome:
    """Return the result of a step whose changes all have the same result."""
    results = tuple(Result(change.partition, status, why) for change in step.changes)
    return StepOutcome(step.group_id, step.action, status, why, results)
