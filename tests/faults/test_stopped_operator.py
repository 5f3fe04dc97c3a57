"""Ctrl-C and a polite kill end an apply after the step at hand, with everything recorded."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from applications import eventually
from operators import Operator

from toolkit.model import TopicPartition
from toolkit.operate.reconcile_runs import reconcile_runs
from toolkit.plan import ChangeStatus, Position
from toolkit.storage.undo_records import list_runs, read_undo_record

pytestmark = pytest.mark.faults("operators are interrupted")

THERE, BACK = Position(7), Position(0, 0)
StartOperator = Callable[..., Any]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal(
    operator: Operator,
    start_operator: StartOperator,
    groups: list[str],
    orders: TopicPartition,
    number: signal.Signals,
) -> None:
    """The steps that were not begun are not tried, and say why; undo takes back what was done."""
    running = start_operator(operator, operator.reset(*groups))
    running.after_step(1)

    running.signal(number)
    code, said = running.end()

    assert (4, f"3 not tried, 1 done; stopped by {number.name}") == (code, said)
    _, ended = operator.log
    assert f"stopped by {number.name}" == ended.interrupted
    assert [ChangeStatus.DONE, *[ChangeStatus.NOT_TRIED] * 3] == [
        step.status for step in ended.steps
    ]
    held = operator.held(*groups)
    assert [BACK, THERE, THERE, THERE] == [held[group][orders] for group in groups]
    (run_id,) = list_runs(operator.state)
    assert operator.apply(operator.undo(read_undo_record(operator.state, run_id))).is_done
    assert {group: {orders: THERE} for group in groups} == operator.held(*groups)


def test_a_stopped_run_is_finished(
    operator: Operator, start_operator: StartOperator, groups: list[str], orders: TopicPartition
) -> None:
    """The same plan applied again does the rest."""
    plan = operator.reset(*groups)
    running = start_operator(operator, plan)
    running.after_step(1)
    running.signal(signal.SIGTERM)
    running.end()

    assert "4 done" == operator.apply(plan).summary
    assert {group: {orders: BACK} for group in groups} == operator.held(*groups)


def test_a_signal_during_the_last_step(
    operator: Operator, start_operator: StartOperator, groups: list[str]
) -> None:
    """A run that has nothing left to do is done, signal or not."""
    running = start_operator(operator, operator.reset(*groups))
    running.after_step(4)

    running.signal(signal.SIGTERM)

    assert (0, "4 done; ") == running.end()


def test_a_second_signal(
    operator: Operator, start_operator: StartOperator, groups: list[str]
) -> None:
    """Whoever will not wait ends the process, and the next command says what was done."""
    running = start_operator(operator, operator.reset(*groups))
    running.after_step(1)

    # Two signals that come before the first is noticed are one.
    eventually(lambda: running.signal(signal.SIGTERM) or running.process.poll() is not None)

    assert -signal.SIGTERM == running.process.returncode
    (cut_off,) = reconcile_runs(operator.cluster, operator.state).known
    assert "3 not tried, 1 done" == cut_off.outcome.summary
