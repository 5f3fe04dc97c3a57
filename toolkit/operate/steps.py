"""Carry out the steps of a plan one by one, and believe nothing that was not read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from toolkit.errors import BrokerRefused, ClusterUnreachable, ToolkitError
from toolkit.kafka_io.commits import read_commits
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.listing import list_groups
from toolkit.kafka_io.rejoin import rejoin
from toolkit.kafka_io.writes import Answered, GroupWriter
from toolkit.model import Cluster, Group, TopicPartition
from toolkit.plan import Action, Change, Plan, Position, Result, Status, Step, StepOutcome

Held = Mapping[TopicPartition, Position]  # what a group has committed
OnStep = Callable[[StepOutcome], None]


def carry_out(
    plan: Plan, cluster: Cluster, *, finishing: bool, stopped: Callable[[], str], on_step: OnStep
) -> tuple[tuple[StepOutcome, ...], str]:
    """
    Return what became of every step, and why it ended early ("" where it did not).

    A group that refuses costs its own steps. Once a broker does not answer, or `stopped` says so,
    the remaining steps are not tried. `finishing` takes changes that have been made for done.
    """
    outcomes: list[StepOutcome] = []
    ended = ""
    try:
        with Connection(cluster) as connection:
            worker = _Worker(connection, finishing=finishing)
            worker.writer.look_up(plan.group_ids)
            for step in plan.steps:
                ended = ended or stopped()
                outcome = _not_tried(step, ended) if ended else worker.take(step)
                outcomes.append(outcome)
                on_step(outcome)
                ended = ended or worker.lost
    except ToolkitError as exc:  # before the first step: no connection, no coordinator
        ended = ended or str(exc)
    outcomes += [_not_tried(step, ended) for step in plan.steps[len(outcomes) :]]
    return tuple(outcomes), ended


class _Worker:
    """Takes the steps of one plan over one connection."""

    def __init__(self, connection: Connection, *, finishing: bool) -> None:
        self.connection = connection
        self.writer = GroupWriter(connection)
        self.finishing = finishing
        self.lost = ""  # why the cluster cannot be reached any more
        self.unfinished: set[str] = set()  # groups of which a step was not done

    def take(self, step: Step) -> StepOutcome:
        """Take one step, unless one that it needs was not done."""
        if step.needs in self.unfinished:
            outcome = _not_tried(step, f"{step.needs} was not done")
        else:
            try:
                outcome = self._take(step)
            except ToolkitError as exc:
                self.lost = str(exc) if isinstance(exc, ClusterUnreachable) else ""
                outcome = _refused(step, str(exc))
        if outcome.status is not Status.DONE:
            self.unfinished.add(step.group_id)
        return outcome

    def _take(self, step: Step) -> StepOutcome:
        held = self._held(step)
        if moved := _moved(step, held, finishing=self.finishing):
            return _refused(step, moved)
        todo = [c for c in step.changes if not (self.finishing and _is_made(c, held))]
        if self.finishing and not todo and step.changes:
            answered = Answered()
        else:
            answered = self._write(step, todo)
        return self._read_back(step, held, answered)

    def _write(self, step: Step, changes: Sequence[Change]) -> Answered:
        """Send the step's request; an answer that never came is an answer to be read back."""
        try:
            match step.action:
                case Action.COMMIT:
                    positions = {c.partition: c.after for c in changes if c.after}
                    return self.writer.commit(step.group_id, positions)
                case Action.DELETE_OFFSETS:
                    return self.writer.delete_offsets(step.group_id, [c.partition for c in changes])
                case Action.DELETE_GROUP:
                    return self.writer.delete_group(step.group_id)
                case Action.REJOIN:
                    rejoin(self.connection, self._listed(step.group_id))
                    return Answered()
        except ClusterUnreachable as exc:
            self.lost = str(exc)
            return Answered(str(exc))
        except ToolkitError as exc:
            return Answered(str(exc))

    def _read_back(self, step: Step, before: Held, answered: Answered) -> StepOutcome:
        try:
            held = self._held(step)
            still_there = step.action is Action.DELETE_GROUP and self._exists(step.group_id)
        except ToolkitError as exc:
            why = f"{answered.error or 'the broker took it'}; it could not be read back: {exc}"
            self.lost = self.lost or (str(exc) if isinstance(exc, ClusterUnreachable) else "")
            results = tuple(Result(c.partition, Status.FAILED, why) for c in step.changes)
            return StepOutcome(step.group_id, step.action, Status.FAILED, why, results)
        results = tuple(_result(c, before, held, answered) for c in step.changes)
        if still_there and not answered.error:
            why = "the broker took it, yet the group is there"
            return StepOutcome(step.group_id, step.action, Status.FAILED, why, results)
        status = _status(results, answered.error, gone=not still_there)
        why = "" if status is Status.DONE else answered.error
        return StepOutcome(step.group_id, step.action, status, why, results)

    def _held(self, step: Step) -> dict[TopicPartition, Position]:
        commits, problems = read_commits(self.connection, [step.group_id])
        if problems:
            raise BrokerRefused(f"reading what {step.group_id} committed: {problems[0].why}")
        return {TopicPartition(c.topic, c.partition): Position.of(c) for c in commits}

    def _exists(self, group_id: str) -> bool:
        return any(group.group_id == group_id for group in list_groups(self.connection)[0])

    def _listed(self, group_id: str) -> Group:
        for group in list_groups(self.connection)[0]:
            if group.group_id == group_id:
                return group
        raise BrokerRefused(f"group {group_id} is not there any more")


def _moved(step: Step, held: Held, *, finishing: bool) -> str:
    """Say which commit is not where the plan starts from; "" where all are."""
    for change in step.changes:
        if held.get(change.partition) == change.before:
            continue
        if not (finishing and _is_made(change, held)):
            topic, number = change.partition
            return f"{topic} partition {number} moved since it was checked; nothing was changed"
    return ""


def _is_made(change: Change, held: Held) -> bool:
    return change.before != change.after and held.get(change.partition) == change.after


def _result(change: Change, before: Held, held: Held, answered: Answered) -> Result:
    found = held.get(change.partition)
    why = answered.error or answered.partitions.get(change.partition, "")
    if found == change.after and not (why and change.before == change.after):
        return Result(change.partition, Status.DONE, "", found)
    if found == before.get(change.partition) and why:
        return Result(change.partition, Status.REFUSED, why, found)
    shown = "nothing" if found is None else str(found.offset)
    why = why or "the broker took it"
    return Result(change.partition, Status.FAILED, f"{why}; {shown} was read back", found)


def _status(results: Sequence[Result], error: str, *, gone: bool) -> Status:
    kinds = {result.status for result in results}
    if kinds == {Status.DONE} and gone:  # also where the answer got lost
        return Status.DONE
    if not kinds:
        return Status.REFUSED if error else Status.DONE
    return Status.REFUSED if kinds == {Status.REFUSED} else Status.FAILED


def _refused(step: Step, why: str) -> StepOutcome:
    results = tuple(Result(c.partition, Status.REFUSED, why) for c in step.changes)
    return StepOutcome(step.group_id, step.action, Status.REFUSED, why, results)


def _not_tried(step: Step, why: str) -> StepOutcome:
    results = tuple(Result(c.partition, Status.NOT_TRIED, why) for c in step.changes)
    return StepOutcome(step.group_id, step.action, Status.NOT_TRIED, why, results)
