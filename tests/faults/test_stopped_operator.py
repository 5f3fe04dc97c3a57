"""Ctrl-C and a polite kill end an apply after the step at hand, with everything recorded."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from applications import eventually
from desks import Desk

from toolkit.model import TopicPartition
from toolkit.operate.reconcile_runs import reconcile_runs
from toolkit.plan import ChangeStatus, Position
from toolkit.storage.undo_records import list_runs, read_undo_record

pytestmark = pytest.mark.faults("operators are interrupted")

THERE, BACK = Position(7), Position(0, 0)
Operators = Callable[..., Any]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal(
    desk: Desk,
    operators: Operators,
    groups: list[str],
    orders: TopicPartition,
    number: signal.Signals,
) -> None:
    """The steps that were not begun are not tried, and say why; undo takes back what was done."""
    operator = operators(desk, desk.reset(*groups))
    operator.after_step(1)

    operator.signal(number)
    code, said = operator.end()

    assert (4, f"3 not tried, 1 done; stopped by {number.name}") == (code, said)
    _, ended = desk.log
    assert f"stopped by {number.name}" == ended.interrupted
    assert [ChangeStatus.DONE, *[ChangeStatus.NOT_TRIED] * 3] == [
        step.status for step in ended.steps
    ]
    held = desk.held(*groups)
    assert [BACK, THERE, THERE, THERE] == [held[group][orders] for group in groups]
    (run_id,) = list_runs(desk.state)
    assert desk.apply(desk.undo(read_undo_record(desk.state, run_id))).is_done
    assert {group: {orders: THERE} for group in groups} == desk.held(*groups)


def test_a_stopped_run_is_finished(
    desk: Desk, operators: Operators, groups: list[str], orders: TopicPartition
) -> None:
    """The same plan applied again does the rest."""
    plan = desk.reset(*groups)
    operator = operators(desk, plan)
    operator.after_step(1)
    operator.signal(signal.SIGTERM)
    operator.end()

    assert "4 done" == desk.apply(plan).summary
    assert {group: {orders: BACK} for group in groups} == desk.held(*groups)


def test_a_signal_during_the_last_step(desk: Desk, operators: Operators, groups: list[str]) -> None:
    """A run that has nothing left to do is done, signal or not."""
    operator = operators(desk, desk.reset(*groups))
    operator.after_step(4)

    operator.signal(signal.SIGTERM)

    assert (0, "4 done; ") == operator.end()


def test_a_second_signal(desk: Desk, operators: Operators, groups: list[str]) -> None:
    """Whoever will not wait ends the process, and the next command says what was done."""
    operator = operators(desk, desk.reset(*groups))
    operator.after_step(1)

    # Two signals that come before the first is noticed are one.
    eventually(lambda: operator.signal(signal.SIGTERM) or operator.process.poll() is not None)

    assert -signal.SIGTERM == operator.process.returncode
    (cut_off,) = reconcile_runs(desk.cluster, desk.state).known
    assert "3 not tried, 1 done" == cut_off.outcome.summary
