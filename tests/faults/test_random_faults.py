"""
Idle groups on three brokers, while random things break: nothing untrue is said, nothing is lost.

By default the first 30 seeds, with `test_random_live_faults`; `make test-faults SEEDS=0:1000` runs
as many as wanted, and `SEEDS=17:18` one of them again.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from applications import eventually
from brokers import UNCLOSED_SOCKETS
from fault_runs import FaultRun, Work, make_a_test_of_each_seed, note
from operators import Operator
from three_brokers import ThreeBrokers

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.shared_connections import close_all
from toolkit.model import Snapshot, TopicPartition
from toolkit.plan import Change, ChangeStatus, Outcome, Plan
from toolkit.planning.changes.delete_groups import plan_delete_groups
from toolkit.planning.changes.delete_offsets import plan_delete_offsets

pytestmark = [pytest.mark.faults("random faults"), UNCLOSED_SOCKETS]

BOUND_S = 120  # whatever is broken: a handful of limits of 3 s, on a busy machine
WORST_FIRST = ("an error", "with its problems", "whole")
Committed = dict[str, dict[TopicPartition, int]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    make_a_test_of_each_seed(metafunc, live=False)


class IdleGroups:
    """Eight groups that have committed 7 to three partitions, and who changes them."""

    def __init__(self, here: ThreeBrokers, name: Callable[[str], str], folder: Path) -> None:
        """Make them, past the proxies."""
        self.here = here
        self.topic = here.create_topic(name("orders"), partitions=3, records=10)
        self.groups = sorted(name("payments") for _ in range(8))
        self.places = [TopicPartition(self.topic, number) for number in range(3)]
        Operator(here.direct, folder).commit_together(self.groups, dict.fromkeys(self.places, 7))
        self.operator = Operator(here.cluster, folder / "state")

    def committed(self) -> Committed:
        """Return what is committed, as another client than ours reads it, past the proxies."""
        return {group: self.here.committed(group, self.places) for group in self.groups}

    def plan(self, work: Work) -> Plan:
        """Plan a change, while everything works."""
        if work is Work.RESET:
            return self.operator.reset(*self.groups, to=2)
        facts = self.operator.facts(*self.groups, topics=(self.topic,))
        if work is Work.DELETE_GROUPS:
            return plan_delete_groups(facts, groups=self.groups)
        return plan_delete_offsets(facts, groups=self.groups, topics=[f"{self.topic}:0,2"])


@pytest.fixture
def idle(here: ThreeBrokers, unique_name: Callable[[str], str], tmp_path: Path) -> IdleGroups:
    return IdleGroups(here, unique_name, tmp_path)


def test_a_seed(run: FaultRun, idle: IdleGroups, pytestconfig: pytest.Config) -> None:
    """Reports are true, repeating the command finishes it, and everything can be undone."""
    act = read if run.work is Work.READ else change
    note(pytestconfig, run, *act(run, idle))


def read(run: FaultRun, idle: IdleGroups) -> tuple[str, float]:
    """A snapshot has no wrong row, and of each row that it lacks it says why."""
    truth, told = idle.committed(), {"whole"}
    began, took_s = time.monotonic(), 0.0
    with run.faults_at(idle.here):
        while time.monotonic() < began + 1:  # a snapshot takes less than it takes to break things
            asked = time.monotonic()
            try:
                found = idle.operator.look(*idle.groups)
            except ToolkitError:
                told.add("an error")
            else:
                assert_true(found, truth, run)
                told |= {"with its problems"} if found.problems else set()
            took_s = max(took_s, time.monotonic() - asked)
    assert took_s < BOUND_S, run
    whole = eventually(
        lambda: [one for one in [idle.operator.look(*idle.groups)] if not one.problems]
    )
    assert truth == rows_of(whole[0]), run
    return next(words for words in WORST_FIRST if words in told), took_s


def assert_true(found: Snapshot, truth: Committed, run: FaultRun) -> None:
    """Check each row of a snapshot, and each row that is not in it."""
    rows = rows_of(found)
    told = {(problem.group_id, problem.topic, problem.partition) for problem in found.problems}
    for group, places in truth.items():
        for place, offset in places.items():
            if place in rows.get(group, {}):
                assert offset == rows[group][place], (run, found)
                log = found.logs.get(place)
                is_known = log is not None and log.log_end is not None
                assert not is_known or (log and log.log_end == 10), (run, found)
                assert is_known or found.problems, (run, found)
            else:
                keys = {(None, None, None), (group, None, None), (group, *place)}
                assert keys & told, (run, found)


def rows_of(found: Snapshot) -> Committed:
    rows: Committed = {}
    for one in found.commits:
        rows.setdefault(one.group_id, {})[TopicPartition(one.topic, one.partition)] = one.offset
    return rows


def change(run: FaultRun, idle: IdleGroups) -> tuple[str, float]:
    """A change says what is so, is finished by repeating it, and can be undone."""
    before = idle.committed()
    plan = idle.plan(run.work)
    assert plan.steps, plan.findings
    after = {step.group_id: result_of(step.changes, before[step.group_id]) for step in plan.steps}
    began = time.monotonic()
    with run.faults_at(idle.here) as on_step:
        try:
            outcome = idle.operator.apply(plan, on_step=on_step)
        except ToolkitError:  # then nothing may have been changed
            outcome = None
        took_s = time.monotonic() - began
    assert took_s < BOUND_S, run
    assert_told(outcome, idle.committed(), before, after, run)

    if not (outcome and outcome.is_done):
        close_all()
        again = idle.operator.apply(plan)  # the same command once more
        assert again.is_done, (run, again)
    assert after == idle.committed(), run
    undo = eventually(lambda: [one for one in [idle.operator.undo(plan)] if is_readable(one)])[0]
    assert idle.operator.apply(undo).is_done, run
    assert before == idle.committed(), run
    events = [str(entry.event) for entry in idle.operator.log]  # which verifies the log
    assert events.count("intent") == events.count("outcome"), (run, events)
    if outcome is None:
        return "an error", took_s
    return "done" if outcome.is_done else "in part", took_s


def is_readable(plan: Plan) -> bool:
    """Whether all was read that a plan is made from: a busy broker may not answer in time."""
    return all(found.rule != "unreadable" for found in plan.findings)


def result_of(
    changes: Iterable[Change], before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return what a group has committed once its step is done."""
    found = dict(before)
    for one in changes:
        if one.after is None:
            found.pop(one.partition, None)
        else:
            found[one.partition] = one.after.offset
    return found


def assert_told(
    outcome: Outcome | None, now: Committed, before: Committed, after: Committed, run: FaultRun
) -> None:
    if outcome is None:  # refused before anything was changed
        assert before == now, run
        return
    for step in outcome.steps:
        group = step.group_id
        if step.status is ChangeStatus.DONE:
            assert after[group] == now[group], (run, step, now[group])
        if step.status in {ChangeStatus.NOT_TRIED, ChangeStatus.REFUSED}:
            assert before[group] == now[group], (run, step, now[group])
        if step.status is not ChangeStatus.DONE:
            assert step.why or any(result.why for result in step.results), (run, step)
        for result in step.results:
            place = result.partition
            was, is_now, to_be = (one[group].get(place) for one in (before, now, after))
            if result.status is ChangeStatus.DONE:
                assert to_be == is_now, (run, result)
            elif result.status in {ChangeStatus.NOT_TRIED, ChangeStatus.REFUSED}:
                assert was == is_now, (run, result)
            else:
                assert is_now in {was, to_be}, (run, result)
