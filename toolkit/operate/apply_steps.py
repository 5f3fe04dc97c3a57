"""Apply the steps of a plan one by one and verify each by reading it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from toolkit.errors import BrokerRefused, ClusterUnreachable, ToolkitError, UsageError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.coordinators import MOST_GROUPS, find_coordinators
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.groups.describe_groups import describe_groups
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter, WriteResult
from toolkit.kafka_io.writes.retention_rejoin import reset_classic_retention
from toolkit.model import Cluster, Commit, Group, GroupType, TopicPartition
from toolkit.model.names import shown_name
from toolkit.operate.group_commits import GroupCommits, wait_until_still
from toolkit.operate.move_streams import move_streams
from toolkit.operate.read_back import (
    Committed,
    is_made,
    not_tried,
    positions_of,
    read_back,
    refused_step,
    why_moved,
)
from toolkit.plan import Action, Change, ChangeStatus, Intent, Position, Step, StepOutcome
from toolkit.planning.guardrails.check_context import CheckContext
from toolkit.planning.selection.group_selection import is_unread

OnStep = Callable[[StepOutcome], None]

PENDING_SINCE = "an open transaction has a pending offset commit for this partition since the check"
LARGEST_BATCH = MOST_GROUPS  # their offsets are read by one request each time


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
            find_coordinators(connection, plan.group_ids)
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
    batch: dict[str, Step] = {}
    size = 1
    for step in steps:
        if len(batch) == size or step.group_id in batch or step.needs in batch:
            yield list(batch.values())
            batch, size = {}, min(2 * size, LARGEST_BATCH)
        batch[step.group_id] = step
    if batch:
        yield list(batch.values())


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
        self._wait_for_late_commits(steps)
        before = self._committed(steps)
        if len(before) > 1 and all(isinstance(committed, str) for committed in before.values()):
            self.ended = self.ended or str(next(iter(before.values())))
        answers: dict[str, WriteResult | StepOutcome] = {}
        answers |= self._commit_together(steps, before)
        for step in steps:
            if step.group_id not in answers:
                answers[step.group_id] = self._answer(step, before)
        tried = [step for step in steps if isinstance(answers[step.group_id], WriteResult)]
        after, there = self._committed(tried), self._there(tried)
        outcomes = []
        for step in steps:
            answered = answers[step.group_id]
            if isinstance(answered, StepOutcome):
                outcomes.append(answered)
            else:
                pair = before[step.group_id], after[step.group_id]
                outcomes.append(read_back(step, answered, *pair, is_there=step.group_id in there))
        self.unfinished |= {o.group_id for o in outcomes if o.status is not ChangeStatus.DONE}
        return outcomes

    def _wait_for_late_commits(self, steps: Sequence[Step]) -> None:
        """Wait for late commits of consumers to partitions that were paused just now."""
        if self.case.plan.intent is Intent.MOVE:
            return  # it has waited before it read the offsets to change
        for step in steps:
            group = self.case.groups.get(step.group_id)
            if step.action is not Action.MOVE or not group or self.stopped():
                continue
            if held := {change.partition for change in step.changes} & group.paused.keys():
                with suppress(ToolkitError):  # reading what is committed fails next
                    commits = GroupCommits(self.connection, group.group_id)
                    wait_until_still(commits, held, stopped=self.stopped)

    def _commit_together(
        self, steps: Sequence[Step], before: Mapping[str, Committed | str]
    ) -> dict[str, WriteResult]:
        """Commit the offsets of many groups at once; the others are tried one by one."""
        by_group = {}
        for step in steps:
            if step.action is Action.COMMIT and not self._objection(step, before):
                todo = self._todo(step, before)
                by_group[step.group_id] = {c.partition: c.after for c in todo if c.after}
        if len(by_group) < 2:
            return {}
        return {
            group_id: self._unanswered(answer) if isinstance(answer, ToolkitError) else answer
            for group_id, answer in self.writer.commit_together(by_group).items()
        }

    def _answer(
        self, step: Step, before: Mapping[str, Committed | str]
    ) -> WriteResult | StepOutcome:
        """Send a step's request and return the response, or why it was not sent."""
        if objection := self._objection(step, before):
            return objection
        if step.action is Action.MOVE and step.type is GroupType.STREAMS:
            return move_streams(self.connection, step, stopped=self.stopped)
        todo = self._todo(step, before)
        return self._write(step, todo) if todo or not step.changes else WriteResult()

    def _todo(self, step: Step, before: Mapping[str, Committed | str]) -> list[Change]:
        """Return the changes that are still to be made."""
        committed = before[step.group_id]
        if not self.finishing or isinstance(committed, str):
            return list(step.changes)
        return [change for change in step.changes if not is_made(change, committed)]

    def _objection(self, step: Step, before: Mapping[str, Committed | str]) -> StepOutcome | None:
        """Return why a step's request is not sent."""
        self.ended = self.ended or self.stopped()
        committed = before[step.group_id]
        if self.ended or step.needs in self.unfinished:
            why = f"skipped, because the step for group {step.needs_text} was not done"
            return not_tried(step, self.ended or why)
        if isinstance(committed, str):
            return not_tried(step, f"its committed offsets could not be read: {committed}")
        if step.action is Action.MOVE and step.type is GroupType.STREAMS:
            return None  # its members continue to commit, so its offsets differ from the checked
        why = why_moved(step, committed, finishing=self.finishing)
        if any((step.group_id, change.partition) in self.pending for change in step.changes):
            why = why or PENDING_SINCE
        if not why and step.action is Action.MOVE and self._may_be_read(step):
            why = "a member may read these partitions since the check"
        return refused_step(step, why) if why else None

    def _may_be_read(self, step: Step) -> bool:
        """
        Whether a member of a live group may read partitions that nobody read at the check.

        A hold keeps paused partitions from members, and brokers reject offsets for a group that is
        no longer empty; but any member may subscribe to another topic.
        """
        changed = [change.partition for change in step.changes]
        group = self.case.groups.get(step.group_id)
        if not group or group.paused.keys() >= set(changed):
            return False
        (found,) = describe_groups(self.connection, [group])
        return not isinstance(found, Group) or not is_unread(found, changed)

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
                    return self._rejoin(step.group_id, changes)
                case Action.HOLD | Action.RELEASE:
                    raise UsageError(f"{step.action} is for toolkit.operate.hold_steps")
        except ToolkitError as exc:
            return self._unanswered(exc)

    def _rejoin(self, group_id: str, changes: Sequence[Change]) -> WriteResult:
        """Commit offsets with their own expiry time again, and reset the group's timer."""
        committed, again = self.case.committed(group_id), {}
        for change in changes:
            commit = committed.get(change.partition)
            if commit and commit.expires_at and change.after:
                again[change.partition] = change.after
        result = self.writer.commit(group_id, again) if again else WriteResult()
        if not result.error:
            reset_classic_retention(self.connection.cluster, self._listed(group_id))
        return result

    def _unanswered(self, exc: ToolkitError) -> WriteResult:
        self._note(exc)
        return WriteResult(str(exc), is_lost=isinstance(exc, ClusterUnreachable))

    def _committed(self, steps: Sequence[Step]) -> dict[str, Committed | str]:
        """Return the committed offsets of each group, or why they could not be read."""
        ids = [step.group_id for step in steps]
        if not steps:
            return {}
        try:
            commits, problems = read_commits(self.connection, ids)
        except ToolkitError as exc:
            self._note(exc)
            return dict.fromkeys(ids, str(exc))
        committed = {group_id: dict[TopicPartition, Position]() for group_id in ids}
        for group_id, found in positions_of(commits):
            committed[group_id] |= found
        for place in commits.pending:
            self._note_pending(commits[place])
        unread = {p.group_id: p.why for p in problems if p.group_id}
        return {group_id: unread.get(group_id, committed[group_id]) for group_id in ids}

    def _note_pending(self, commit: Commit) -> None:
        """Record new pending transactional commits that were not overridden."""
        partition = TopicPartition(commit.topic, commit.partition)
        if (commit.group_id, partition) not in self.case.pending:
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
        raise BrokerRefused(f"group {shown_name(group_id)} no longer exists")
