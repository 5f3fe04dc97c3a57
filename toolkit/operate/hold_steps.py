"""
Apply the hold and release steps of a plan.

A keeper process holds the partitions, see `toolkit.live.keeper`; results are verified from the
broker's group description.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from toolkit.errors import BrokerRefused, HoldLost, NotCaptured, StateFileError, ToolkitError
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.describe_groups import Paused, describe_groups, read_paused
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import Leave
from toolkit.kafka_io.membership.consumer import LEAVE_EPOCH, ConsumerHeartbeat
from toolkit.kafka_io.membership.group_config import STREAMS_DELAY_MS, ChangeConfig
from toolkit.kafka_io.membership.streams import StreamsHeartbeat
from toolkit.live.application_hold import TOLD_WITHIN_S, until_resumed
from toolkit.live.keeper_socket import ask_keeper
from toolkit.live.member_pool import is_of_run
from toolkit.model import (
    CaptureMode,
    Cluster,
    Group,
    GroupType,
    HoldNote,
    Member,
    Problem,
    TopicPartition,
)
from toolkit.model.names import shown_name
from toolkit.model.times import parse_duration
from toolkit.operate.apply_steps import OnStep, carry_out
from toolkit.operate.keeper_handle import (
    KeeperHandle,
    once_settled,
    start_keeper,
    wait_until_held,
)
from toolkit.operate.read_back import not_tried
from toolkit.plan import HOLD_ACTIONS, Action, ChangeStatus, Result, Step, StepOutcome
from toolkit.planning.guardrails.check_context import CheckContext
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.planning.holds.recipes import APPLICATION_DELAY
from toolkit.planning.selection.member_names import in_short
from toolkit.storage.audit import RunInfo
from toolkit.storage.hold_files import (
    HoldRecord,
    HoldStatus,
    has_live_keeper,
    hold_path,
    note_released,
    read_hold,
    write_hold,
)

SEEN_WITHIN_S = 15.0  # a classic group shows holds only when it is Stable again
RELEASE_S = 15.0  # a keeper releases after at most one rebalance
# A Streams application continues when the delay that has begun is over.
APPLICATION_RELEASE_S = RELEASE_S + APPLICATION_DELAY.total_seconds()
LOOK_EVERY_S = 0.1
KILLED = "the keeper process ended before it had paused anything"

LEFT = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID})  # then it is not in the group
RESUMED_WITHIN_S = APPLICATION_DELAY.total_seconds() + TOLD_WITHIN_S


class HoldExecutor:
    """Applies the steps of one plan."""

    def __init__(
        self,
        case: CheckContext,
        cluster: Cluster,
        run: RunInfo,
        *,
        state: Path,
        stopped: Callable[[], str],
    ) -> None:
        self.case = case
        self.cluster = cluster
        self.run = run
        self.state = state
        self.stopped = stopped
        self.handles: list[KeeperHandle] = []

    def carry_out(
        self, on_step: OnStep, handles: list[KeeperHandle]
    ) -> tuple[tuple[StepOutcome, ...], str]:
        """
        Return the result of every step, and why it was interrupted ("" if it was not).

        `handles` receives the handles of started keepers.
        """
        self.handles = handles
        outcomes: list[StepOutcome] = []
        for step in self.case.plan.steps:
            if ended := self.stopped():
                outcomes.append(not_tried(step, ended))
                continue
            if step.action in HOLD_ACTIONS:
                if any(one.status is not ChangeStatus.DONE for one in outcomes):
                    outcomes.append(not_tried(step, "skipped, because a step before was not done"))
                    continue
                outcomes.append(self.take(step))
            else:
                only = replace(self.case, plan=replace(self.case.plan, steps=(step,)))
                done, _ = carry_out(
                    only, self.cluster, stopped=self.stopped, on_step=lambda _: None
                )
                outcomes += done
            on_step(outcomes[-1])
        return tuple(outcomes), self.stopped()

    def take(self, step: Step) -> StepOutcome:
        """Apply one step and verify it from the group description."""
        partitions = frozenset(change.partition for change in step.changes)
        before: Paused = {}
        why = ""
        try:
            before = self.paused(step.group_id)
            if step.action is Action.HOLD:
                self.hold(step, partitions, before)
            else:
                self.release(step, {p: before[p] for p in partitions & before.keys()})
        except ToolkitError as exc:
            why = str(exc)
        holds = step.action is Action.HOLD
        own_note = None
        if why and holds:  # what another operator holds does not count
            own_note = self.own_note(step)
            before = _without_others(before, own_note)
        try:
            after = self.wait_for(
                step.group_id, partitions, held=holds and not why, own_note=own_note
            )
        except ToolkitError as exc:
            unseen = f"{why or 'request accepted'}; could not be verified: {exc}"
            return _outcome(step, dict.fromkeys(partitions, (ChangeStatus.FAILED, unseen)), unseen)
        results = {
            partition: _partition_result(
                was=partition in before, is_=partition in after, meant=holds, why=why
            )
            for partition in partitions
        }
        if not holds:
            gone = {p for p, (status, _) in results.items() if status is ChangeStatus.DONE}
            note_released(self.path_of(step), frozenset(gone))
        if stopped := self.stopped():  # not changed, but not refused by a broker
            words = f"given up after it had begun, and not paused: {stopped}" if holds else stopped
            results |= {
                partition: (ChangeStatus.NOT_TRIED, words)
                for partition, (status, _) in results.items()
                if status is ChangeStatus.REFUSED
            }
        return _outcome(step, results, why)

    def hold(self, step: Step, partitions: frozenset[TopicPartition], before: Paused) -> None:
        """
        Hold partitions with the existing keeper or a new one.

        The keeper is also asked for partitions that its record names, but the broker does not show
        as held: it may have lost them without knowing.
        """
        path = self.path_of(step)
        goes_on, record = once_settled(path)
        if not goes_on:
            start = self.record(step, partitions)
            if record and record.status is HoldStatus.HELD and record.held_in(before):
                # pid 0: the new keeper sets its own once it runs.
                goes_on = True
                start = replace(
                    record, run_id=start.run_id, wanted=record.held, note=start.note, pid=0
                )
            there = {member.member_id for member in self.holders(step.group_id)}
            handle = start_keeper(path, start)
            self.handles.append(handle)
            try:
                record = wait_until_held(path, handle, self.stopped)
            except NotCaptured as exc:
                try:
                    self.clear_away(step, path, there)
                except ToolkitError as left:
                    raise NotCaptured(f"{exc.problem}; {left.problem}", hint=exc.hint) from exc
                raise
        held = frozenset(record.held if record else ())
        if record and goes_on:
            held = record.held_in(before)
        if record and (missing := partitions - held):
            request = {"do": "add", "partitions": sorted(missing), "for_s": self.longest_s}
            answer = ask_keeper(record.socket, request)
            if not answer["ok"]:
                raise NotCaptured(answer["words"])

    def own_note(self, step: Step) -> HoldNote:
        """Return the note of the hold file, an empty one if there is none or it is damaged."""
        with suppress(StateFileError):
            if record := read_hold(self.path_of(step)):
                return record.note
        return HoldNote()

    def path_of(self, step: Step) -> Path:
        return hold_path(self.state, self.case.plan.cluster_id, step.group_id)

    @property
    def longest_s(self) -> float | None:
        """How long a keeper holds what a move adds at most, as the move may be killed."""
        terms = HoldTerms.of(self.case.plan)
        return terms.pause_for.total_seconds() if terms.for_move and terms.pause_for else None

    def clear_away(self, step: Step, path: Path, there: Collection[str]) -> None:
        """Remove the members of a killed keeper: the group waits for them."""
        record = read_hold(path)
        if not record or has_live_keeper(path):
            return
        # Members of another capture show no note yet. In KIP-848 groups their ids tell; in others
        # a keeper that ended by itself has left, and its members are not its own.
        new = {member for member in self.holders(step.group_id) if member.member_id not in there}
        if step.type is GroupType.CONSUMER:
            left = {m for m in new if is_of_run(m.member_id, record.note.run_id)}
        elif record.status is HoldStatus.ENDED:
            left = set()
        else:
            left = {m for m in new if not _is_of_another(m, record.note)}
        if left:
            remove_holders(self.cluster, step, left)
        if record.status is HoldStatus.STARTING:
            write_hold(path, replace(record, status=HoldStatus.ENDED, words=KILLED))

    def holders(self, group_id: str) -> list[Member]:
        """Return all offsetbook members of a group; they are visible in every state."""
        with connected(self.cluster) as connection:
            found = describe_groups(connection, [self.case.groups[group_id]])
            return [m for g in found if isinstance(g, Group) for m in g.members if m.is_holder]

    def record(self, step: Step, partitions: Collection[TopicPartition]) -> HoldRecord:
        plan, now = self.case.plan, datetime.now(UTC)
        group = self.case.groups[step.group_id]
        pause_for = plan.terms.get("for", "")
        note = HoldNote(
            who=self.run.who,
            host=self.run.host,
            since=now,
            until=now + parse_duration(pause_for) if pause_for else None,
            reason=self.run.reason,
            run_id=self.run.run_id,
        )
        return HoldRecord(
            run_id=self.run.run_id,
            cluster=self.cluster,
            cluster_id=plan.cluster_id,
            group_id=step.group_id,
            type=group.type,
            assignor=group.assignor or "",
            wanted=tuple(sorted(partitions)),
            prefer=CaptureMode(plan.terms.get("prefer", CaptureMode.LOSSLESS)),
            note=note,
        )

    def release(self, step: Step, held: Paused) -> None:
        """Release partitions through the keeper, and by removing members of other holds."""
        partitions = frozenset(change.partition for change in step.changes)
        released, unheard = frozenset[TopicPartition](), ""
        # A keeper that hangs, or cannot be found, detects that its members are removed.
        try:
            released = release_by_keeper(self.path_of(step), partitions)
        except (HoldLost, StateFileError) as exc:
            unheard = f"{exc.problem}; "
        holders = {member for partition, member in held.items() if partition not in released}
        if more := {p for member in holders for p in member.holds} - partitions:
            why = f"its holder also holds {in_short(more)}, and can only be removed with that"
            raise BrokerRefused(f"{unheard}{why}")
        if holders:
            remove_holders(self.cluster, step, holders)

    def paused(self, group_id: str) -> Paused:
        """Return the held partitions of a group, once they can be read."""
        return self.wait_for(group_id, (), held=True)

    def wait_for(
        self,
        group_id: str,
        partitions: Collection[TopicPartition],
        *,
        held: bool,
        own_note: HoldNote | None = None,
    ) -> Paused:
        """
        Return the held partitions once each of `partitions` is `held` or not, or after a timeout.

        With `own_note`, partitions of other holds do not count. Raises BrokerRefused if they cannot
        be read until then.
        """
        give_up_at = time.monotonic() + SEEN_WITHIN_S
        with connected(self.cluster) as connection:
            while True:
                shown = read_paused(connection, self.case.groups[group_id])
                is_last = time.monotonic() > give_up_at or bool(self.stopped())
                if isinstance(shown, Problem):
                    if is_last:
                        about = f"{shown.what} of group {shown_name(group_id)}"
                        raise BrokerRefused(f"{about}: {shown.why}")
                else:
                    if own_note:
                        shown = _without_others(shown, own_note)
                    if is_last or all((partition in shown) == held for partition in partitions):
                        return shown
                time.sleep(LOOK_EVERY_S)


def release_by_keeper(
    path: Path, partitions: frozenset[TopicPartition]
) -> frozenset[TopicPartition]:
    """
    Have the keeper of a hold file release the partitions that it holds of these; return them.

    Raises HoldLost if the keeper does not respond, StateFileError, and BrokerRefused.
    """
    record = read_hold(path)
    own_partitions = partitions & frozenset(record.held if record and has_live_keeper(path) else ())
    if not record or not own_partitions:
        return frozenset()
    within_s = APPLICATION_RELEASE_S if record.type is GroupType.STREAMS else RELEASE_S
    request = {"do": "release", "partitions": sorted(own_partitions)}
    answer = ask_keeper(record.socket, request, within_s=within_s)
    if not answer["ok"]:
        raise BrokerRefused(answer["words"])
    return own_partitions


def _without_others(paused: Paused, own_note: HoldNote) -> Paused:
    return {place: one for place, one in paused.items() if not _is_of_another(one, own_note)}


def _is_of_another(member: Member, own_note: HoldNote) -> bool:
    note = member.hold_note
    return bool(note and note.who and not note.is_of_same_hold(own_note))


def _partition_result(*, was: bool, is_: bool, meant: bool, why: str) -> tuple[ChangeStatus, str]:
    """Return the result of one partition from `was` held, `is_` held, to be held, and an error."""
    if is_ == meant and not (meant and why):
        return ChangeStatus.DONE, ""
    if is_ == was and why:
        return ChangeStatus.REFUSED, why
    return ChangeStatus.FAILED, (
        f"{why or 'request accepted'}; the partition is {'' if is_ else 'not '}held"
    )


def _outcome(
    step: Step, results: Mapping[TopicPartition, tuple[ChangeStatus, str]], why: str
) -> StepOutcome:
    rows = tuple(Result(partition, *result) for partition, result in sorted(results.items()))
    kinds = {row.status for row in rows}
    status = kinds.pop() if len(kinds) == 1 else ChangeStatus.FAILED
    return StepOutcome(step.group_id, step.action, status, why, rows)


def remove_holders(cluster: Cluster, step: Step, holders: Iterable[Member]) -> None:
    """
    Remove members of a dead or another user's keeper: coordinators accept it from any client.

    Raises BrokerRefused with the first refusal.
    """
    remove = {GroupType.CONSUMER: _from_consumer, GroupType.STREAMS: _from_streams}
    with GroupChannel(cluster, step.group_id) as channel:
        refused = list(remove.get(step.type, _from_classic)(channel, list(holders)))
    if refused:
        raise BrokerRefused(f"releasing partitions of {shown_name(step.group_id)}: {refused[0]}")


def _from_classic(channel: GroupChannel, holders: list[Member]) -> Iterator[str]:
    left = channel.ask(Leave(tuple(one.member_id for one in holders)))
    yield from (str(code) for code in (left.error, *left.members.values()) if code not in LEFT)


def _from_consumer(channel: GroupChannel, holders: list[Member]) -> Iterator[str]:
    leaving = [ConsumerHeartbeat(one.member_id, LEAVE_EPOCH) for one in holders]
    answers = channel.ask_together(leaving)
    yield from (answer.why for answer in answers if answer.error not in LEFT)


def _from_streams(channel: GroupChannel, holders: list[Member]) -> Iterator[str]:
    """Restore the group's own delay first: a live keeper that finds its delay would rejoin."""
    own_delay = next((one.hold_note.own_delay for one in holders if one.hold_note), "")
    changed = channel.ask(ChangeConfig(STREAMS_DELAY_MS, own_delay or None))
    if changed.error:
        yield changed.why
        return
    leaving = [StreamsHeartbeat(one.member_id, LEAVE_EPOCH) for one in holders]
    answers = channel.ask_together(leaving)
    yield from (answer.why for answer in answers if answer.error not in LEFT)
    if why := until_resumed(channel, RESUMED_WITHIN_S):
        yield why
