"""Ctrl-C and a polite kill end an apply after the step at hand, with everything recorded."""

import signal

import pytest
from applications import eventually
from payment_groups import AT_0, AT_7, PaymentGroups

from toolkit.operate.reconcile_runs import reconcile_runs
from toolkit.plan import ChangeStatus

pytestmark = pytest.mark.faults("operators are interrupted")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal(payments: PaymentGroups, number: signal.Signals) -> None:
    """Steps that were not started are not tried, with the reason; the same plan does the rest."""
    operator, plan = payments.operator, payments.reset()
    running = payments.begin(plan, steps=1)

    running.process.send_signal(number)
    code, last_line = running.end()

    assert (4, f"3 not tried, 1 done; stopped by {number.name}") == (code, last_line)
    _, ended = operator.log
    assert f"stopped by {number.name}" == ended.interrupted
    assert [ChangeStatus.DONE, *[ChangeStatus.NOT_TRIED] * 3] == [s.status for s in ended.steps]
    assert payments.at(AT_0, AT_7, AT_7, AT_7) == payments.held
    assert "4 done" == operator.apply(plan).summary
    assert payments.at(AT_0) == payments.held


def test_a_signal_during_the_last_step(payments: PaymentGroups) -> None:
    """A run without further steps is done, signal or not."""
    running = payments.begin(steps=4)

    running.process.send_signal(signal.SIGTERM)

    assert (0, "4 done; ") == running.end()


def test_a_second_signal(payments: PaymentGroups) -> None:
    """A second signal ends the process, and the next command reports what was done."""
    running = payments.begin(steps=1)

    # Two signals that come before the first is noticed are one.
    eventually(
        lambda: running.process.send_signal(signal.SIGTERM) or running.process.poll() is not None
    )

    assert -signal.SIGTERM == running.process.returncode
    operator = payments.operator
    (cut_off,) = reconcile_runs(operator.cluster, operator.state).known
    assert "3 not tried, 1 done" == cut_off.outcome.summary
