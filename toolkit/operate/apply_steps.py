"""Apply the steps of a plan one by one and verify each by reading it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from toolkit.errors import BrokerRefused, ClusterUnreachable, ToolkitError, UsageError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter, WriteResult
from toolkit.kafka_io.writes.retention_rejoin import reset_classic_retention
from toolkit.model import Cluster, Commit, Group, GroupType, TopicPartition
from toolkit.operate.move_streams import move_streams
from toolkit.plan import Action, Change, ChangeStatus, Position, Result, Step, StepOutcome
from toolkit.planning.guardrails.registry import CheckContext

Held = Mapping[TopicPartition, Position]  # the committed offsets of a group
OnStep = Callable[[StepOutcome], None]

LARGEST_BATCH = 64


def carry_out(
    case: CheckContext, cluster: Cluster, *, stopped: Callable[[], str], on_step: OnStep
) -> tuple[tuple[StepOutcome, ...], str]:
    """
    Return the result of every step, and why it was interrupted ("" if it was not).

    An error of a group affects only its own steps. If a broker does not respond, or `stopped`
    returns a reason, the remaining steps are not tried. If the case finishes an earlier run,
    changes that are already in place count as done.
    """
    plan = case.plan
    outcomes: list[StepOutcome] = []
    ended = ""
    try:
        with connected(cluster) as connection:
            worker = _StepExecutor(connection, case, stopped)
            worker.writer.look_up(plan.group_ids)
            for batch in _batches(plan.steps):
                taken = worker.take(batch)
                outcomes += taken
                for outcome in taken:
                    on_step(outcome)
                ended = worker.ended
    except ToolkitError as exc:  # before the first step: no connection, no coordinator
        ended = ended or str(exc)
    outcomes += [not_tried(step, ended) for step in plan.steps[len(outcomes) :]]
    return tuple(outcomes), ended


def _batches(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """
    Split steps into batches of 1, 2, 4, ... that are checked and verified together.

    The first step is applied alone, so that a common error affects only one. A step that needs
    another one starts a batch, because that one must have been verified.
    """
    batch: list[Step] = []
    size = 1
    for step in steps:
        groups = {other.group_id for other in batch}
        if len(batch) == size or step.group_id in groups or (step.needs and step.needs in groups):
            yield batch
            batch, size = [], min(2 * size, LARGEST_BATCH)
        batch.append(step)
    if batch:
        yield batch


class _StepExecutor:
    """Applies the steps of one plan over one connection."""

    def __init__(
        self, connection: Connection, case: CheckContext, stopped: Callable[[], str]
    ) -> None:
        self.connection = connection
        self.writer = GroupWriter(connection)
        self.case = case
        self.finishing = case.finishing
        self.stopped = stopped
        self.pending: set[tuple[str, TopicPartition]] = set()  # detected while applying
        self.ended = ""  # why no further step is tried
        self.unfinished: set[str] = set()  # groups with a step that was not done

    def take(self, steps: Sequence[Step]) -> list[StepOutcome]:
        """Read the groups' offsets, apply the steps, and read them again."""
        before = self._held(steps)
        if all(isinstance(held, str) for held in before.values()):
            self.ended = self.ended or str(next(iter(before.values())))
        answers = {step.group_id: self._answer(step, before) for step in steps}
        tried = [step for step in steps if isinstance(answers[step.group_id], WriteResult)]
        after, there = self._held(tried), self._there(tried)
        outcomes = []
        for step in steps:
            answered = answers[step.group_id]
            if isinstance(answered, StepOutcome):
                outcomes.append(answered)
            else:
                pair = before[step.group_id], after[step.group_id]
                outcomes.append(_read_back(step, answered, *pair, is_there=step.group_id in there))
        self.unfinished |= {o.group_id for o in outcomes if o.status is not ChangeStatus.DONE}
        return outcomes

    def _answer(self, step: Step, before: Mapping[str, Held | str]) -> WriteResult | StepOutcome:
        """Send a step's request and return the response, or why it was not sent."""
        self.ended = self.ended or self.stopped()
        held = before[step.group_id]
        if self.ended or (step.needs and step.needs in self.unfinished):
            return not_tried(
                step,
                self.ended or (f"skipped, because the step for group {step.needs} was not done"),
            )
        if isinstance(held, str):
            return not_tried(step, f"its committed offsets could not be read: {held}")
        if step.action is Action.MOVE and step.type is GroupType.STREAMS:
            # Its members continue to commit, so its offsets differ from the checked ones.
            return move_streams(self.connection, step, stopped=self.stopped)
        if moved := _moved(step, held, finishing=self.finishing):
            return _refused(step, moved)
        if any((step.group_id, change.partition) in self.pending for change in step.changes):
            return _refused(
                step,
                "an open transaction has a pending offset commit for this partition since "
                "the check",
            )
        todo = [c for c in step.changes if not (self.finishing and _is_made(c, held))]
        return self._write(step, todo) if todo or not step.changes else WriteResult()

    def _write(self, step: Step, changes: Sequence[Change]) -> WriteResult:
        """Send the step's request; a missing response is resolved by the read-back."""
        try:
            match step.action:
                case Action.COMMIT:
                    positions = {c.partition: c.after for c in changes if c.after}
                    return self.writer.commit(step.group_id, positions)
                case Action.MOVE | Action.FIRST_COMMIT:
                    positions = {c.partition: c.after for c in changes if c.after}
                    return self.writer.move(step.group_id, positions)
                case Action.DELETE_OFFSETS:
                    return self.writer.delete_offsets(step.group_id, [c.partition for c in changes])
                case Action.DELETE_GROUP:
                    return self.writer.delete_group(step.group_id, [c.partition for c in changes])
                case Action.REJOIN:
                    reset_classic_retention(self.connection, self._listed(step.group_id))
                    return WriteResult()
                case Action.HOLD | Action.RELEASE:
                    raise UsageError(f"{step.action} is for toolkit.operate.hold_steps")
        except ToolkitError as exc:
            self._note(exc)
            return WriteResult(str(exc), is_lost=isinstance(exc, ClusterUnreachable))

    def _held(self, steps: Sequence[Step]) -> dict[str, Held | str]:
        """Return the committed offsets of each group, or why they could not be read."""
        ids = [step.group_id for step in steps]
        if not steps:
            return {}
        try:
            commits, problems = read_commits(self.connection, ids)
        except ToolkitError as exc:
            self._note(exc)
            return dict.fromkeys(ids, str(exc))
        held: dict[str, dict[TopicPartition, Position]] = {group_id: {} for group_id in ids}
        for commit in commits:
            partition = TopicPartition(commit.topic, commit.partition)
            held[commit.group_id][partition] = Position.of(commit)
            self._note_pending(commit, partition)
        unread = {p.group_id: p.why for p in problems if p.group_id}
        return {group_id: unread.get(group_id, held[group_id]) for group_id in ids}

    def _note_pending(self, commit: Commit, partition: TopicPartition) -> None:
        """Record new pending transactional commits that were not overridden."""
        known = self.case.commits.get((commit.group_id, partition))
        if commit.pending and not (known and known.pending):
            self.pending.add((commit.group_id, partition))

    def _there(self, steps: Sequence[Step]) -> set[str]:
        """Return the groups to delete that still exist, or may exist."""
        deleted = {step.group_id for step in steps if step.action is Action.DELETE_GROUP}
        if not deleted:
            return set()
        try:
            listed, problems = list_groups(self.connection)
        except ToolkitError as exc:
            self._note(exc)
            return deleted
        return deleted if problems else deleted & {group.group_id for group in listed}

    def _note(self, exc: ToolkitError) -> None:
        if isinstance(exc, ClusterUnreachable):
            self.ended = self.ended or str(exc)

    def _listed(self, group_id: str) -> Group:
        for group in list_groups(self.connection)[0]:
            if group.group_id == group_id:
                return group
        raise BrokerRefused(f"group {group_id} no longer exists")


def _read_back(
    step: Step, answered: WriteResult, before: Held | str, held: Held | str, *, is_there: bool
) -> StepOutcome:
    if isinstance(held, str) or isinstance(before, str):
        why = f"{answered.error or 'request accepted'}; could not be verified: {held}"
        results = tuple(Result(c.partition, ChangeStatus.FAILED, why) for c in step.changes)
        return StepOutcome(step.group_id, step.action, ChangeStatus.FAILED, why, results)
    results = tuple(_result(c, before, held, answered) for c in step.changes)
    if is_there and not answered.error:
        why = "the broker accepted the request, but the group may still exist"
        return StepOutcome(step.group_id, step.action, ChangeStatus.FAILED, why, results)
    # A missing group was deleted, by this request or by one whose response was lost.
    is_delete = step.action is Action.DELETE_GROUP
    is_so = not is_there if is_delete else bool(results) or not answered.error
    status = _status(results, answered, is_so=is_so)
    why = "" if status is ChangeStatus.DONE else answered.error
    return StepOutcome(step.group_id, step.action, status, why, results)


def _moved(step: Step, held: Held, *, finishing: bool) -> str:
    """Return which offset differs from the plan; "" if none."""
    for change in step.changes:
        if held.get(change.partition) == change.before:
            continue
        if not (finishing and _is_made(change, held)):
            topic, number = change.partition
            return (
                f"the offset of {topic} partition {number} changed since the check; nothing was "
                "changed"
            )
    if step.action is Action.DELETE_GROUP and held.keys() - {c.partition for c in step.changes}:
        return "the group committed more offsets since the check; nothing was changed"
    return ""


def _is_made(change: Change, held: Held) -> bool:
    return change.before != change.after and held.get(change.partition) == change.after


def _result(change: Change, before: Held, held: Held, answered: WriteResult) -> Result:
    found = held.get(change.partition)
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


def _refused(step: Step, why: str) -> StepOutcome:
    results = tuple(Result(c.partition, ChangeStatus.REFUSED, why) for c in step.changes)
    return StepOutcome(step.group_id, step.action, ChangeStatus.REFUSED, why, results)


def not_tried(step: Step, why: str) -> StepOutcome:
    """Return the result of a step that was not started, and why."""
    results = tuple(Result(c.partition, ChangeStatus.NOT_TRIED, why) for c in step.changes)
    return StepOutcome(step.group_id, step.action, ChangeStatus.NOT_TRIED, why, results)
