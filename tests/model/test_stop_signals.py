"""The handlers of the signals that ask a process to stop."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from toolkit.model.stop_signals import STOP_SIGNALS, handled_stop_signals


@pytest.fixture
def hangups() -> Iterator[list[int]]:
    """Return how often this process had a SIGHUP that was not handled otherwise."""
    came: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: came.append(number))
    yield came
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("once", "expected"), [(False, (2, 0)), (True, (1, 1))])
def test_a_second_signal(hangups: list[int], *, once: bool, expected: tuple[int, int]) -> None:
    """It is handled like the first one or, with `once`, has the effect that it had before."""
    handled: list[int] = []
    with handled_stop_signals(lambda number, _: handled.append(number), once=once):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
    assert expected == (len(handled), len(hangups))

    os.kill(os.getpid(), signal.SIGHUP)
    assert expected == (len(handled), len(hangups) - 1)


def test_what_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    handled: list[int] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handled_stop_signals(lambda number, _: handled.append(number)):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert [] == handled


def test_a_thread_handles_no_signal() -> None:
    """Python would refuse it."""
    seen = []

    def work() -> None:
        with handled_stop_signals(lambda *_: None):
            seen.append([signal.getsignal(number) for number in STOP_SIGNALS])

    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [before] == seen
