"""
Move offsets of a live streams group (KIP-1071), whose partitions cannot be held one by one.

The new offsets are in an open transaction while the owners are evicted. The owners rejoin, fetch
their offsets, and wait until the transaction ends; if it aborts they continue at their old offsets.
A client that keeps its position overwrites the move: this aborts an open transaction, and
afterwards the owners' next commits are monitored for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from toolkit.errors import BrokerRefused, Interrupted, ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.membership.channel import GroupChannel, clock
from toolkit.kafka_io.membership.consumer import LEAVE_EPOCH
from toolkit.kafka_io.membership.streams import DescribeStreams, StreamsFacts, StreamsHeartbeat
from toolkit.kafka_io.membership.topics_and_commits import FetchCommits
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter
from toolkit.kafka_io.writes.transactional_commit import OffsetsTransaction
from toolkit.model import TopicPartition
from toolkit.model.names import shown_name
from toolkit.operate.watch_move import NOT_SEEN, WATCH_S, with_results
from toolkit.plan import ChangeStatus, Position, Result, Step, StepOutcome
from toolkit.planning.holds.continuation import is_written_over

# An evicted member joins again with its next heartbeat, by default after 5 s at most. A group that
# was empty waits for 3 s then (group.streams.initial.rebalance.delay.ms), and the next heartbeat,
# 5 s later, brings the tasks. The transaction lasts for 30 s.
BACK_WITHIN_S = 20.0
LOOK_EVERY_S = 0.1
EVICTED = "the owners were evicted and continue at their previous offsets"

Offsets = Mapping[TopicPartition, int]


@dataclass
class _Move:
    """State of one move."""

    connection: Connection
    channel: GroupChannel
    step: Step
    stopped: Callable[[], str]
    evicted: frozenset[str] = frozenset()  # member ids
    waited: bool = False  # whether new owners were seen waiting for the new offsets
    before: Offsets = field(default_factory=dict)  # once no old owner could commit
    committed_at: float | None = None

    @property
    def after(self) -> dict[TopicPartition, Position]:
        return {c.partition: c.after for c in self.step.changes if c.after}


def move_streams(
    connection: Connection,
    step: Step,
    *,
    stopped: Callable[[], str],
    watch_s: float = WATCH_S,
) -> StepOutcome:
    """
    Move the offsets of a step atomically, and return the result.

    `watch_s` is how long to wait for the owners' next commits; `stopped` (Ctrl-C) ends the wait,
    or, before the transaction is committed, the move with nothing moved.
    """
    with GroupChannel(connection.cluster, step.group_id) as channel:
        move = _Move(connection, channel, step, stopped)
        why = ""
        try:
            _commit(move)
        except ToolkitError as exc:
            why = exc.problem
        try:
            GroupWriter(connection).wait_for_the_end_of(step.group_id, move.after)
            found = _positions(move)
        except ToolkitError as exc:
            return _outcome(
                move,
                ChangeStatus.FAILED,
                f"{why or 'request accepted'}; could not be verified: {exc}",
            )
        if why and any(found.get(one) != place for one, place in move.after.items()):
            return _not_done(move, why, found)
        # The read-back is either the target or a later commit.
        wrong, unseen = _watch(move, watch_s)
        return _done(move, found, wrong, unseen)


def _commit(move: _Move) -> None:
    """Commit the new offsets while no owner has them."""
    with OffsetsTransaction(move.connection, move.step.group_id) as transaction:
        transaction.add(move.after)
        _evict(move)
        # Later in the log than the owners' last commit, which would win otherwise.
        transaction.add(move.after)
        _until_back(move)
        move.committed_at = clock()
        transaction.commit()


def _evict(move: _Move) -> None:
    facts = _describe(move)
    moved = move.after.keys()
    owners = [m.member_id for m in facts.members if (m.reads | m.is_to_read) & moved]
    move.evicted = frozenset(owners)
    answers = move.channel.ask_together([StreamsHeartbeat(one, LEAVE_EPOCH) for one in owners])
    # An unknown member has already left.
    for answer in answers:
        if answer.error not in {ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID}:
            raise BrokerRefused(f"evicting the owners of the moved partitions: {answer.why}")
    move.before = _offsets(move)


def _until_back(move: _Move) -> None:
    """
    Wait until all moved partitions have owners again; raises if one does not wait.

    A former owner continues until it rejoins, so wait for all of them, too.
    """
    give_up_at = clock() + BACK_WITHIN_S
    while move.evicted and clock() < give_up_at:
        if why := move.stopped():
            raise Interrupted(why)
        found = _offsets(move)
        for one in move.after:
            if found.get(one) != move.before.get(one):
                raise BrokerRefused(
                    f"the consumer of {one.topic}:{one.partition} committed {found.get(one)} from "
                    "its old position instead of fetching the new offset"
                )
        there = {m.member_id: m.reads for m in _describe(move).members if m.epoch > 0}
        move.waited = frozenset().union(*there.values()) >= move.after.keys()
        if move.waited and move.evicted <= there.keys():
            return
        time.sleep(LOOK_EVERY_S)


def _watch(
    move: _Move, watch_s: float
) -> tuple[dict[TopicPartition, str], dict[TopicPartition, str]]:
    """Return which moved offsets were overwritten, and which no member continued from so far."""
    started = move.committed_at or clock()
    waiting = set(move.after)
    wrong: dict[TopicPartition, str] = {}
    why = f"within {watch_s:g} s: it committed nothing"
    while waiting and clock() < started + watch_s:
        if stopped := move.stopped():
            why = f"until it was {stopped}"
            break
        try:
            found = _offsets(move)
        except ToolkitError as exc:
            why = f"as far as could be read: {exc.problem}"
            break
        for one in sorted(waiting):
            target, offset = move.after[one], found.get(one)
            if offset == target.offset:
                continue
            waiting.discard(one)
            before = move.before.get(one)
            # Without a waiting owner there is no evidence that it uses the new offset.
            elapsed = clock() - started if move.waited else 0
            if is_written_over(target.offset, before, offset, elapsed):
                wrong[one] = (
                    f"moved to {target.offset}, then overwritten with {offset} by a client that "
                    f"continued from its old position {before}"
                )
        if waiting:
            time.sleep(LOOK_EVERY_S)
    return wrong, dict.fromkeys(waiting, f"{NOT_SEEN} {why}")


def _describe(move: _Move) -> StreamsFacts:
    facts: StreamsFacts = move.channel.ask(DescribeStreams())
    if facts.error:
        raise BrokerRefused(f"describing group {shown_name(move.step.group_id)}: {facts.why}")
    return facts


def _offsets(move: _Move) -> Offsets:
    found: Offsets = move.channel.ask(FetchCommits()).told
    return found


def _positions(move: _Move) -> dict[TopicPartition, Position]:
    commits, problems = read_commits(move.connection, [move.step.group_id])
    if problems:
        raise BrokerRefused(problems[0].why)
    return {TopicPartition(one.topic, one.partition): Position.of(one) for one in commits}


def _not_done(move: _Move, why: str, found: Mapping[TopicPartition, Position]) -> StepOutcome:
    """Return that nothing was moved or, after the commit request, that this is unknown."""
    words = f"{why}; nothing was moved"
    if move.evicted:
        words += f": {EVICTED}"
    status = ChangeStatus.REFUSED
    if move.committed_at is not None:
        status, words = ChangeStatus.FAILED, f"{why}; unknown whether it was moved"
    return _outcome(move, status, words, found)


def _done(
    move: _Move,
    found: Mapping[TopicPartition, Position],
    wrong: Mapping[TopicPartition, str],
    unseen: Mapping[TopicPartition, str],
) -> StepOutcome:
    results = []
    for one in sorted(move.after):
        status, why = ChangeStatus.DONE, ""
        if one in wrong:
            status, why = ChangeStatus.FAILED, wrong[one]
        elif one in unseen:
            status, why = ChangeStatus.NOT_CONFIRMED, unseen[one]
        results.append(Result(one, status, why, found.get(one)))
    step = StepOutcome(move.step.group_id, move.step.action, ChangeStatus.DONE)
    return with_results(step, results)


def _outcome(
    move: _Move,
    status: ChangeStatus,
    why: str,
    found: Mapping[TopicPartition, Position] | None = None,
) -> StepOutcome:
    results = (Result(one, status, why, (found or {}).get(one)) for one in sorted(move.after))
    return StepOutcome(move.step.group_id, move.step.action, status, why, tuple(results))
