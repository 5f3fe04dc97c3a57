"""A move whose new offset is overwritten by a consumer that commits a record late, on purpose."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import pytest
from applications import eventually
from clients import Consumer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AclOperation, ResourceType
from consumer_processes.live_applications import Traffic
from live_groups import create_topics, together
from operators import Operator, once_at_rest
from secured import Deny, Secured

from toolkit.model import Cluster, TopicPartition
from toolkit.operate import watch_move
from toolkit.operate.group_commits import GroupCommits
from toolkit.operate.move import move
from toolkit.operate.watch_move import MoveWatch
from toolkit.plan import Action, ChangeStatus, Outcome, Result
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.move import MoveRequest, plan_move
from toolkit.planning.changes.pause import plan_pause
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.targets import ShiftBy, Target, ToLatest, ToOffset

pytestmark = pytest.mark.live("consumers commit late")

BACK, MOVED = 50, 1


class LateCommitter:
    """
    A consumer that commits each record when it gets the next: it always has one in its hands.

    It commits that over a move as it is told to.
    """

    def __init__(self, cluster: Cluster, topic: str, protocol: str, traffic: Traffic) -> None:
        """Prepare to consume; the group is named like the topic."""
        self.topic, self.group, self.traffic = topic, topic, traffic
        self.in_hand: dict[int, int] = {}
        self.read: list[tuple[int, int]] = []  # partition and offset
        self.late_commits = 0  # how often it still commits late when it gets the moved partition
        self.late_when_at: int | None = None  # or once the committed offset is this
        self.late_now = False  # or with the next look for a record
        self.overwritten_with: list[int] = []
        classic = {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 1_000}
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": self.group,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **(classic if protocol == "classic" else {}),
            }
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self.consumer.close()

    def _run(self) -> None:
        self.consumer.subscribe([self.topic], on_assign=self._assigned)
        while not self._ends.is_set():
            message = self.consumer.poll(0.05)
            self._commit_while_held()
            if message is None or message.error():
                continue
            self.read.append((message.partition(), message.offset()))
            self.in_hand[message.partition()] = message.offset() + 1
            with suppress(KafkaException):  # while the group rebalances
                place = Place(self.topic, message.partition(), message.offset())
                self.consumer.commit(offsets=[place], asynchronous=False)

    def _assigned(self, _: Consumer, places: list[Place]) -> None:
        if self.late_commits and MOVED in {place.partition for place in places}:
            committed = self._committed()
            if committed < self.in_hand.get(MOVED, 0) - 1:
                self.late_commits -= 1
                self._overwrite()

    def _commit_while_held(self) -> None:
        due = self.late_when_at
        if self.late_now or (due is not None and self._committed() == due):
            self.late_when_at, self.late_now = None, False
            self._overwrite()

    def _committed(self) -> int:
        (found,) = self.consumer.committed([Place(self.topic, MOVED)], timeout=60)
        return int(found.offset)

    def _overwrite(self) -> None:
        """Commit what it had in its hands when it lost the partition."""
        in_hand = self.in_hand[MOVED]
        self.consumer.commit(offsets=[Place(self.topic, MOVED, in_hand)], asynchronous=False)
        self.overwritten_with.append(in_hand)


Act = Callable[[Operator, LateCommitter], None]


@pytest.fixture
def of_both_protocols(
    bare_cluster: Cluster, unique_name: Callable[[str], str], tmp_path: Path
) -> Callable[[Act], None]:
    """Return a function that does something to a late committer of each protocol, together."""

    def act_on_both(act: Act) -> None:
        def act_on(protocol: str) -> None:
            with consuming(bare_cluster, unique_name("late"), protocol) as late:
                act(Operator(bare_cluster, tmp_path / protocol), late)

        together(act_on, ("classic", "consumer"))

    return act_on_both


@contextmanager
def consuming(cluster: Cluster, topic: str, protocol: str) -> Iterator[LateCommitter]:
    """Run a late committer over a new topic with traffic, once it has read more than `BACK`."""
    create_topics(cluster.bootstrap_servers, {topic: 2})
    with ExitStack() as ending:
        traffic = Traffic(cluster.bootstrap_servers, {topic: 2}, per_second=20)
        ending.enter_context(traffic)
        one = LateCommitter(cluster, topic, protocol, traffic)
        ending.enter_context(one)
        eventually(lambda: all((number, BACK + 10) in one.read for number in (0, 1)))
        yield one


def paused(operator: Operator, late: LateCommitter) -> Outcome:
    """Pause the partition that is moved."""
    scope = f"{late.topic}:{MOVED}"

    def attempt() -> Outcome:
        facts = operator.facts(late.group, topics=(late.topic,))
        return operator.apply(plan_pause(facts, group=late.group, topics=[scope]))

    outcome: Outcome = once_at_rest(attempt)
    return outcome


def moved(operator: Operator, late: LateCommitter, to: Target) -> tuple[Outcome, Result]:
    """Move a partition of the live group; return the outcome, and the result of the move."""

    def attempt() -> Outcome:
        request = MoveRequest(to, late.group, (f"{late.topic}:{MOVED}",))
        planned = plan_move(operator.facts(late.group, topics=(late.topic,)), request)
        # A consumer that has a record in its hands has one that the end skips.
        approval = Approval(planned.plan.fingerprint, "a test", ("skips-unread-records",))
        return move(planned, operator.cluster, approval, state=operator.state).outcome

    outcome: Outcome = once_at_rest(attempt)
    (result,) = (r for step in outcome.steps if step.action is Action.MOVE for r in step.results)
    return outcome, result


def logged(operator: Operator, outcome: Outcome) -> list[ChangeStatus | None]:
    """Return what the audit log says of the move, first to last."""
    entries = [entry for entry in operator.log if entry.run.run_id == outcome.run_id]
    return [step.status for entry in entries for step in entry.steps]


def test_a_late_commit_after_the_release_is_moved_again(
    of_both_protocols: Callable[[Act], None],
) -> None:
    """A record in the client's hands overwrites the move; it is moved again and read from there."""

    def is_so(operator: Operator, late: LateCommitter) -> None:
        late.late_commits = 1
        outcome, result = moved(operator, late, ShiftBy(-BACK))

        assert 1 == len(late.overwritten_with)
        assert outcome.is_done, outcome
        assert ["hold", "move", "release", "hold", "release"] == [s.action for s in outcome.steps]
        assert result.found
        assert 2 == late.read.count((MOVED, result.found.offset))
        assert [None, ChangeStatus.NOT_CONFIRMED, ChangeStatus.FAILED] == logged(operator, outcome)

    of_both_protocols(is_so)


def test_a_late_commit_before_the_move_is_waited_for(
    of_both_protocols: Callable[[Act], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer commits records in its hands while the partition is held; one move is enough."""
    look = GroupCommits.mark
    lates: dict[str, LateCommitter] = {}

    def commit_first(commits: GroupCommits) -> None:
        late = lates[commits.group_id]
        late.late_now = not late.overwritten_with
        eventually(lambda: late.overwritten_with)
        look(commits)

    monkeypatch.setattr(GroupCommits, "mark", commit_first)

    def is_so(operator: Operator, late: LateCommitter) -> None:
        lates[late.group] = late
        outcome, result = moved(operator, late, ShiftBy(-BACK))

        assert outcome.is_done, outcome
        assert ["hold", "move", "release"] == [step.action for step in outcome.steps]
        assert result.found
        assert late.overwritten_with == [result.found.offset + BACK]

    of_both_protocols(is_so)


@pytest.mark.parametrize("command", ["reset", "move"])
def test_a_late_commit_after_a_pause_is_waited_for(
    of_both_protocols: Callable[[Act], None], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A reset or a move of what was paused a moment ago is not overwritten."""
    look = GroupCommits.mark
    lates: dict[str, LateCommitter] = {}

    def commit_first(commits: GroupCommits) -> None:
        late = lates.get(commits.group_id)
        if late and not late.overwritten_with:
            late.late_now = True
            eventually(lambda: late.overwritten_with)
        look(commits)

    monkeypatch.setattr(GroupCommits, "mark", commit_first)

    def is_so(operator: Operator, late: LateCommitter) -> None:
        place = TopicPartition(late.topic, MOVED)
        assert paused(operator, late).is_done
        lates[late.group] = late
        if command == "move":
            outcome, _ = moved(operator, late, ToOffset(5))
        else:
            scope = [f"{late.topic}:{MOVED}"]

            def reset() -> Outcome:
                facts = operator.facts(late.group)
                plan = plan_reset(facts, ToOffset(5), groups=[late.group], topics=scope)
                return operator.apply(plan, "skips-unread-records")

            assert ChangeStatus.REFUSED is reset().steps[0].status
            outcome = reset()

        assert late.overwritten_with
        assert outcome.is_done, outcome
        assert 5 == operator.held(late.group)[late.group][place].offset

    of_both_protocols(is_so)


def test_a_late_commit_while_held_is_moved_again(
    of_both_protocols: Callable[[Act], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A move that is overwritten before the release is made again before the release."""
    look = MoveWatch.overwritten_while_held
    lates: dict[str, LateCommitter] = {}

    def look_when_it_has(watch: MoveWatch) -> list[TopicPartition]:
        eventually(lambda: lates[watch.group.group_id].overwritten_with)
        return look(watch)

    monkeypatch.setattr(MoveWatch, "overwritten_while_held", look_when_it_has)

    def is_so(operator: Operator, late: LateCommitter) -> None:
        lates[late.group] = late
        late.late_when_at = 5
        outcome, _ = moved(operator, late, ToOffset(5))

        assert 1 == len(late.overwritten_with)
        assert outcome.is_done, outcome
        assert 2 == late.read.count((MOVED, 5))
        assert ChangeStatus.DONE is logged(operator, outcome)[-1]

    of_both_protocols(is_so)


def test_a_client_that_always_commits_late_is_never_reported_as_moved(
    of_both_protocols: Callable[[Act], None],
) -> None:
    """After the second time the offset is left as it is, and reported as such."""

    def is_so(operator: Operator, late: LateCommitter) -> None:
        late.late_commits = 10
        outcome, result = moved(operator, late, ShiftBy(-BACK))

        assert 2 == len(late.overwritten_with)
        assert ChangeStatus.FAILED is result.status
        assert "by a client that continued from its old position" in result.why
        assert outcome.changed_anything

    of_both_protocols(is_so)


def test_a_move_without_a_commit_is_not_confirmed(
    of_both_protocols: Callable[[Act], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without records to read, the application shows nothing."""
    monkeypatch.setattr(watch_move, "WATCH_S", 2)

    def is_so(operator: Operator, late: LateCommitter) -> None:
        late.traffic.__exit__()
        outcome, result = moved(operator, late, ToLatest())

        assert (ChangeStatus.NOT_CONFIRMED, False) == (result.status, outcome.is_done)
        assert "within 2 s: it committed nothing" in result.why
        assert [None, *[ChangeStatus.NOT_CONFIRMED] * 2] == logged(operator, outcome)

    of_both_protocols(is_so)


def test_without_read_on_the_offsets_topic(
    secured: Secured,
    deny: Deny,
    unique_name: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Committed offsets are compared instead: a late commit may hide, but is no success."""
    monkeypatch.setattr(watch_move, "WATCH_S", 8)
    deny(ResourceType.TOPIC, "__consumer_offsets", AclOperation.READ)  # it may describe it
    operator = Operator(secured.sasl, tmp_path / "state")
    with consuming(secured.plain, unique_name("unread"), "classic") as late:
        late.late_commits = 10
        outcome, result = moved(operator, late, ShiftBy(-BACK))

    assert result.status in {ChangeStatus.FAILED, ChangeStatus.NOT_CONFIRMED}, outcome
    assert "a late commit has overwritten" in result.why or "its old position" in result.why
