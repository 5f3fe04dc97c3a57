"""Pause, resume and move on the whole spine: plan, approval, keeper, record, and back."""

import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from applications import PATIENCE_S, eventually
from consumer_processes.analysis import delivered_during, repeats
from consumer_processes.log import Delivery
from holding import Described, Holding, MakeHolding, carried_out, has_joined, kill_keepers
from live_groups import EACH_PROTOCOL, LiveGroup
from operators import Operator, once_at_rest
from processes import suspended

from toolkit.errors import Blocked, Interrupted, OutcomeNotRecorded
from toolkit.journeys.change.change_outcome import ChangeOutcome
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.reset import target
from toolkit.model import TopicPartition
from toolkit.operate.keeper_handle import KeeperHandle
from toolkit.operate.move import move
from toolkit.operate.orphaned_holds import find_orphaned_holds, still_withheld
from toolkit.plan import Action, ChangeStatus, Intent, StepOutcome
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.move import MoveRequest, move_back, plan_move
from toolkit.planning.changes.targets import ShiftBy, ToOffset
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.storage.audit import Event
from toolkit.storage.hold_files import HoldStatus, PlannedEnd, has_live_keeper, keeper_lock
from toolkit.storage.undo_records import read_undo_record

pytestmark = pytest.mark.live("consumers and keepers run")

FILES_ON_MACOS = 256  # that a process started from a shell may have open
OF_EACH_PROTOCOL = [
    pytest.param(
        kind,
        marks=[pytest.mark.default("one of each group protocol"), pytest.mark.timeout(600)],
    )
    for kind in EACH_PROTOCOL
]


@pytest.mark.parametrize("kind", OF_EACH_PROTOCOL)
def test_pause_and_resume(shared_holding: MakeHolding, kind: str) -> None:
    """Paused partitions are not delivered, others are; afterwards each continues in place."""
    one = shared_holding(kind)
    applications = one.live.applications

    paused_at = one.pause()

    assert one.places == one.paused == frozenset(one.record.held)
    assert HoldStatus.HELD is one.record.status
    at = one.committed()
    applications.until_delivered(one.others, since=paused_at)
    resumed_at = one.resume_in_place()
    assert at == one.first_offsets(resumed_at)
    assert "resumed" == one.last_words()
    log = applications.deliveries()
    assert [] == delivered_during(log, one.places, paused_at, resumed_at)
    assert [] == repeats(log, start=one.began)
    assert [Intent.PAUSE] * 2 + [Intent.RESUME] * 2 == [entry.intent for entry in one.operator.log]


def test_more_are_paused_and_some_resumed(shared_holding: MakeHolding) -> None:
    """A second pause adds to the hold, resuming some keeps the others held."""
    one = shared_holding("librdkafka-consumer")
    one.pause(1)
    keeper = one.record.pid

    one.pause(1, 4)
    assert one.places == one.paused == frozenset(one.record.held)
    assert one.record.pid == keeper
    one.resume(1)
    assert one.live.places_of(4) == one.paused == frozenset(one.record.held)

    one.resume(4)
    assert "resumed" == one.last_words()


def test_a_hold_ends_after_its_duration(shared_holding: MakeHolding) -> None:
    """The keeper resumes by itself, and the audit log has that, when, and why."""
    one = shared_holding("librdkafka-consumer")
    one.pause(2, terms=HoldTerms(pause_for=timedelta(seconds=3)))
    until = one.record.note.until
    assert until

    one.last_words()

    resumed = [entry for entry in one.operator.log if entry.intent is Intent.RESUME]
    assert [Event.INTENT, Event.OUTCOME] == [entry.event for entry in resumed]
    ended = resumed[-1]
    assert Action.RELEASE is ended.steps[0].action
    assert "duration" in ended.run.reason
    assert until <= ended.at


@pytest.mark.parametrize("kind", ["librdkafka-range", "librdkafka-consumer"])
def test_the_end_of_the_duration_does_not_hide_a_lost_hold(
    shared_holding: MakeHolding, kind: str
) -> None:
    """A keeper that was stopped, as on a machine that slept, learns it when it leaves."""
    one = shared_holding(kind)
    one.pause(2, terms=HoldTerms(pause_for=timedelta(seconds=20)))
    until = one.record.note.until
    assert until
    with suspended(one.record.pid):
        one.elsewhere().resume(2)
        eventually(lambda: datetime.now(UTC) > until)

    assert "the pause duration has ended; " in one.last_words()
    assert "missed its session timeout" in one.record.words
    assert one.record.planned_end is None


def test_a_keeper_that_is_just_ending_is_waited_for(shared_holding: MakeHolding) -> None:
    """A pause right after a resume does not ask a keeper that is gone."""
    one, lock = shared_holding("librdkafka-consumer"), ExitStack()
    one.pause(2)
    one.resume(2)
    one.last_words()
    lock.enter_context(keeper_lock(one.path, within_s=PATIENCE_S))  # as a standby for a moment
    ending = threading.Timer(3.0, lock.close)
    ending.start()

    one.pause(2)

    ending.join()
    one.resume(2)


def test_partitions_resumed_by_another_operator_stay_resumed(shared_holding: MakeHolding) -> None:
    """A keeper whose sentinel was removed reports it and ends; it does not capture again."""
    one = shared_holding("librdkafka-consumer")
    one.pause(2)

    one.elsewhere().resume(2)

    assert "resumed" in one.last_words()


def test_a_keeper_that_gets_sigterm_resumes(shared_holding: MakeHolding) -> None:
    """As at a shutdown: it resumes and records that."""
    one = shared_holding("librdkafka-range")
    one.pause(2)

    os.kill(one.record.pid, signal.SIGTERM)

    assert "stopped by SIGTERM" == one.last_words() == one.operator.log[-1].run.reason


def test_a_hold_whose_keeper_was_killed_is_continued(shared_holding: MakeHolding) -> None:
    """Its loss is reported; pausing the same partitions continues it without a gap."""
    one = shared_holding("librdkafka-range")
    paused_at = one.pause(2)
    first, held = one.record.pid, one.live.places_of(2)
    # One that the capture has sent away is back: who comes later would wait for the dead keeper.
    one.live.applications.until(
        lambda log: {"a", "b"} <= {d.consumer for d in log if d.at > paused_at}
    )
    assert [] == find_orphaned_holds(one.operator.cluster, one.operator.state)
    kill_keepers(one.path)

    renamed = replace(one.operator.cluster, name=one.operator.cluster.bootstrap_servers)
    (left,) = eventually(lambda: find_orphaned_holds(renamed, one.operator.state))
    assert (held, one.live.group) == (left.still_held, left.record.group_id)
    session = one.operator.session
    assert once_at_rest(
        lambda: carried_out(session.pause(one.live.group, [one.live.scope(2)]))
    ).is_done

    assert has_live_keeper(one.path)
    assert one.record.pid not in {0, first}
    assert one.record.run_id != left.record.run_id
    eventually(lambda: {one.record.run_id} == {n.run_id for n in one.notes})  # not of the first
    one.live.applications.until_delivered(set(one.live.places) - held, since=time.time())
    log = one.live.applications.deliveries()
    assert [] == delivered_during(log, held, paused_at, time.time())
    one.resume()
    one.live.applications.until_delivered(one.live.places)


def test_a_resume_without_a_keeper_is_recorded_as_a_resume(
    shared_holding: MakeHolding,
) -> None:
    """The log has who resumed, not that the broker did at its session timeout."""
    one = shared_holding("librdkafka-consumer")
    one.pause(1, 4)
    kill_keepers(one.path)

    one.resume(1)
    assert (HoldStatus.HELD, one.live.places_of(4)) == (one.record.status, set(one.record.held))
    one.resume(4)

    assert (HoldStatus.ENDED, PlannedEnd.RESUMED) == (one.record.status, one.record.planned_end)
    assert [] == find_orphaned_holds(one.operator.cluster, one.operator.state)
    assert 2 == sum(
        entry.intent is Intent.RESUME and entry.event is Event.OUTCOME for entry in one.operator.log
    )


def test_a_pause_goes_on_if_its_outcome_cannot_be_recorded(
    shared_holding: MakeHolding,
) -> None:
    """It was reported as finished; its keeper must not end with the command."""
    one = shared_holding("librdkafka-consumer")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = one.operator.state / "audit.jsonl"

    def fill(_step: StepOutcome) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size, limits[1]))

    plan = one.plan(1)
    try:
        with pytest.raises(OutcomeNotRecorded, match="1 done"):
            one.operator.apply(plan, on_step=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    eventually(lambda: "detached from the starter" in one.evidence)
    assert has_live_keeper(one.path)
    assert one.live.places_of(1) == one.paused
    one.resume()


def test_a_pause_with_a_low_limit_of_open_files(
    operator: Operator, new_holding: MakeHolding
) -> None:
    """A capture that needs a connection for each partition does not depend on it."""
    one = new_holding(operator.cluster, "librdkafka-cooperative-sticky", partitions=80)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    plan = one.plan(1)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_ON_MACOS, limits[1]))
        outcome = one.operator.apply(plan)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert outcome.is_done, outcome
    assert one.live.places_of(1) == one.paused
    assert [] == repeats(one.live.applications.deliveries(), start=one.began)
    one.resume()


@pytest.mark.parametrize("kind", ["librdkafka-range", "librdkafka-consumer"])
def test_a_hold_of_another_operator_is_not_that_of_a_dead_keeper(
    shared_holding: MakeHolding, kind: str
) -> None:
    """Partitions paused from elsewhere since stay theirs; the new keeper holds the rest."""
    one = shared_holding(kind)
    other, session = one.elsewhere(), one.operator.session
    one.pause(1, 4)
    kill_keepers(one.path)
    other.resume(1, 4)
    other.pause(1)
    one.live.applications.until_delivered(one.live.places_of(4), since=time.time())

    assert frozenset() == still_withheld(one.operator.cluster, one.live.group, one.operator.state)
    change = session.pause(one.live.group, [one.live.scope(1, 4)])
    assert [one.live.places[4]] == [changed.partition for _, changed in change.plan.changes]
    assert once_at_rest(lambda: carried_out(change)).is_done

    assert one.live.places_of(4) == set(one.record.held)
    assert {"1"} == {str(p.partition) for p in other.record.held}
    assert one.live.places_of(1, 4) == one.paused


@pytest.mark.parametrize("broken", ["socket", "file"])
def test_partitions_of_a_keeper_that_hangs_are_resumed(
    shared_holding: MakeHolding, broken: str
) -> None:
    """Its sentinel is removed; the keeper notices that and ends."""
    one = shared_holding("librdkafka-range")
    one.pause(2)
    keeper = psutil.Process(one.record.pid)
    if broken == "socket":
        Path(one.record.socket).unlink()
    else:
        one.path.write_text("{")

    one.resume(2)

    assert frozenset() == one.paused
    eventually(lambda: not keeper.is_running())
    one.live.applications.until_delivered(one.live.places)


def test_a_damaged_hold_file_refuses_a_pause(shared_holding: MakeHolding) -> None:
    """The error names the file, and the run is recorded as refused."""
    one = shared_holding("librdkafka-consumer")
    one.path.parent.mkdir(parents=True)
    one.path.write_text("{")

    (step,) = one.try_to_pause(1).steps

    assert ChangeStatus.REFUSED is step.status
    assert f"hold file {one.path} is damaged" in step.why
    assert [Event.INTENT, Event.OUTCOME] == [entry.event for entry in one.operator.log]


def test_a_group_may_change_its_assignor_while_it_is_held(
    operator: Operator, live_group: Callable[..., LiveGroup]
) -> None:
    """A new member that supports only the second of two assignors may join, and reads."""
    both = {"partition.assignment.strategy": "range,roundrobin"}
    one = Holding(operator, live_group(operator.cluster, "librdkafka-range", **both))
    paused_at, held = one.pause(1), one.live.places_of(1)

    one.live.applications.start("c", **{"partition.assignment.strategy": "roundrobin"})
    one.live.applications.until(lambda log: "c" in {delivery.consumer for delivery in log})

    eventually(lambda: ("roundrobin", held) == (one.group.assignor, one.paused))
    one.live.applications.until_delivered(set(one.live.places) - held)
    log = one.live.applications.deliveries()
    assert [] == delivered_during(log, held, paused_at, time.time())
    one.resume()
    one.live.applications.until_delivered(one.live.places)


def test_an_interrupted_capture_holds_nothing(
    shared_holding: MakeHolding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C during a capture leaves the group consuming, and reports it."""
    one, is_cut, cut = shared_holding("librdkafka-range"), threading.Event(), KeeperHandle.terminate

    def cutting(handle: KeeperHandle) -> None:
        cut(handle)
        is_cut.set()

    monkeypatch.setattr(KeeperHandle, "terminate", cutting)
    with one.describing() as describe, ThreadPoolExecutor() as pool:
        describe()  # a look takes no time from here on
        pressed = pool.submit(press_ctrl_c, one, describe, is_cut)
        (step,) = one.try_to_pause(1, 4).steps
        pressed.result()

    assert (ChangeStatus.NOT_TRIED, "stopped by SIGINT") == (step.status, step.why)
    given_up = "given up after it had begun, and not paused: stopped by SIGINT"
    assert {given_up} == {result.why for result in step.results}
    assert frozenset() == one.paused
    assert not has_live_keeper(one.path)
    group = one.group
    assert group.members == group.readers
    one.live.applications.until_delivered(one.live.places)


def press_ctrl_c(one: Holding, describe: Callable[[], Described], is_cut: threading.Event) -> None:
    """Press Ctrl-C when members of ours are in the group; their keeper stands still meanwhile."""
    eventually(lambda: has_joined(describe()))
    with suspended(one.record.pid):
        # So the operator waits for it, and holds signals back: this one does not end the tests.
        assert HoldStatus.STARTING is one.record.status
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        signal.raise_signal(signal.SIGINT)
        assert is_cut.wait(PATIENCE_S)


def test_ctrl_c_in_a_move_that_waits_for_late_commits(
    shared_holding: MakeHolding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was moved, nothing stays paused, and that is reported."""
    one = shared_holding("librdkafka-range")
    eventually(lambda: min(one.committed(1).values()) > 3)

    def press(*_: object) -> None:
        assert one.live.places_of(1) == one.paused
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("toolkit.operate.move.wait_until_still", press)

    with pytest.raises(Interrupted, match="nothing was moved, and what it paused is resumed"):
        one.move(MoveRequest(ToOffset(0), one.live.group, (one.live.scope(1),)))

    assert frozenset() == one.paused
    assert 0 < min(one.committed(1).values())


# kafka-python keeps its position in a partition that it is assigned again by a mere rebalance.
@pytest.mark.parametrize("kind", [*OF_EACH_PROTOCOL, "kafka-python-range"])
def test_offsets_of_a_live_group_are_moved(shared_holding: MakeHolding, kind: str) -> None:
    """Every moved partition is read from its new offset, once; no other is disturbed."""
    one = shared_holding(kind)
    group, moved = one.live.group, one.live.places_of(1, 4)
    eventually(lambda: min(one.committed().values()) > 3)
    begun = time.time()

    outcome = one.move(MoveRequest(ToOffset(3), group, (one.live.scope(1, 4),)))

    assert outcome.is_done
    assert [Action.HOLD, Action.MOVE, Action.RELEASE] == [step.action for step in outcome.steps]
    applications = one.live.applications
    applications.until_delivered(one.live.places)
    log = [delivery for delivery in applications.deliveries() if delivery.at > begun]
    back = {p: next(d.at for d in log if d.place == p and d.offset == 3) for p in moved}
    assert [] == repeats(applications.deliveries(), start=begun, moved=back)
    assert moved == {d.place for d in log if d.offset == 3}
    assert frozenset() == one.paused
    # What was seen of the application since the release is a second outcome of the move.
    intents = [Intent.PAUSE] * 2 + [Intent.MOVE] * 2 + [Intent.RESUME] * 2 + [Intent.MOVE]
    assert intents == [entry.intent for entry in one.operator.log]

    undone_at = time.time()
    done = read_undo_record(one.operator.state, outcome.run_id)
    assert one.move(move_back(done, outcome.run_id)).is_done
    before = {c.partition: c.before.offset for _, c in done.changes if c.before}
    done_at = time.time()
    applications.until(lambda all_: all(_is_past_all(all_, p, done_at) for p in moved))
    log = [delivery for delivery in applications.deliveries() if delivery.at > undone_at]
    for place in moved:  # what it had read since the move, then where the move had found it
        offsets = [delivery.offset for delivery in log if delivery.place == place]
        assert before[place] in offsets
        assert [] == [n for n in offsets[offsets.index(before[place]) :] if n < before[place]]


def test_a_saved_move_is_applied_and_its_undo_too(
    shared_holding: MakeHolding, tmp_path: Path
) -> None:
    """A move in a plan file moves the live group, and so does the plan file of its undo."""
    one = shared_holding("librdkafka-range")
    session, group, place = one.operator.session, one.live.group, one.live.places[1]
    eventually(lambda: one.committed(1)[place] > 5)

    def applied(change: PlannedChange) -> ChangeOutcome:
        saved = session.saved_change(change.save(tmp_path / "plan.json"))
        assert (change.fingerprint, Intent.MOVE) == (saved.fingerprint, saved.plan.intent)
        # Going back to where it was may skip what it has read again since.
        approval = {"approve": saved.fingerprint, "overrides": ["skips-unread-records"]}
        decision = saved.decide(dry_run=False, reason="a test", **approval)
        if decision.blocked_by:
            raise Blocked(" ".join(f"{rule} ({group})" for rule in decision.blocked_by))
        return decision.apply()

    scope, before = one.live.scope(1), one.committed(1)[place]
    moved = once_at_rest(
        lambda: applied(session.move(group, to=target("to-offset", "3"), topics=[scope]))
    )
    assert moved.is_done
    assert {3} == offsets_of(moved)

    back = once_at_rest(lambda: applied(session.undo(moved.run_id)))
    assert back.is_done
    assert before <= min(offsets_of(back))


def offsets_of(done: ChangeOutcome) -> set[int]:
    assert done.outcome
    results = [result for step in done.outcome.steps for result in step.results]
    return {result.found.offset for result in results if result.found}


def test_a_blocked_move_moves_nothing(shared_holding: MakeHolding) -> None:
    """A rule that blocks once the partitions are held blocks the move, and they are resumed."""
    one = shared_holding("librdkafka-consumer")
    group = one.live.group
    eventually(lambda: min(one.committed(1).values()) > 5)
    strict = Holding(one.operator.with_policy(max_records_repeated=4), one.live)

    with pytest.raises(Blocked, match="too-many-records"):
        strict.move(MoveRequest(ShiftBy(-5), group, (one.live.scope(1),)))

    assert frozenset() == one.paused
    one.live.applications.until_delivered(one.live.places)


@pytest.mark.parametrize("then", ["stale-plan", "topic-recreated"])
def test_a_move_checks_the_age_and_the_topic_id_of_its_plan(
    shared_holding: MakeHolding, then: str
) -> None:
    """Nothing is paused for an old plan, or for a topic that was created again since."""
    one = shared_holding("librdkafka-consumer")
    group, topic = one.live.group, one.live.topics[0]
    eventually(lambda: min(one.committed(1).values()) > 3)
    now = one.operator.facts(group, topics=one.live.topics)
    earlier = {
        "stale-plan": replace(now, taken_at=now.taken_at - timedelta(hours=2)),
        "topic-recreated": replace(now, topic_ids={topic: str(uuid4())}),
    }
    planned = plan_move(earlier[then], MoveRequest(ToOffset(3), group, (one.live.scope(1),)))
    approval = Approval(planned.plan.fingerprint, "a test")

    with pytest.raises(Blocked, match=then):
        move(planned, one.operator.cluster, approval, state=one.operator.state)

    assert [] == list(one.operator.log)
    assert frozenset() == one.paused


def test_a_python_caller_pauses_lists_and_resumes(shared_holding: MakeHolding) -> None:
    """A session plans, the caller approves; nothing is planned for what is so already."""
    one = shared_holding("librdkafka-range")
    session, group, wanted = one.operator.session, one.live.group, one.live.places_of(1, 4)
    scopes = [one.live.scope(1, 4)]

    done = once_at_rest(lambda: carried_out(session.pause(group, scopes)))
    assert done.is_done
    assert carried_out(session.pause(group, scopes)).outcome is None
    rows = session.paused(group).rows
    places = zip(rows["topic"], rows["partition"], strict=True)
    assert wanted == {TopicPartition(topic, int(number)) for topic, number in places}
    assert {"a test"} == {*rows["reason"]}
    assert carried_out(session.resume(group, scopes)).is_done
    assert carried_out(session.resume(group)).outcome is None

    missing = session.pause("no-such-group", scopes).decide(dry_run=False)
    assert "no-such-group" in missing.blocked_by


def _is_past_all(log: list[Delivery], place: TopicPartition, instant: float) -> bool:
    """Whether more of a partition was delivered since an instant than ever before."""
    offsets = [(one.at > instant, one.offset) for one in log if one.place == place]
    before, since = ([n for late, n in offsets if late is wanted] for wanted in (False, True))
    return max(since, default=-1) > max(before)
