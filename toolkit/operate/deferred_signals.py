"""Defer SIGINT, SIGTERM and SIGHUP until the current step is recorded."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from toolkit.model.stop_signals import handled_stop_signals

# Returns, outside the main thread, why to stop; "" if not requested.
_stop_reason: ContextVar[Callable[[], str]] = ContextVar("stop_reason", default=str)


@contextmanager
def stop_requested_by(reason_to_stop: Callable[[], str]) -> Iterator[None]:
    """Let `reason_to_stop` stop the work of this thread between two steps."""
    before = _stop_reason.set(reason_to_stop)
    try:
        yield
    finally:
        _stop_reason.reset(before)


@contextmanager
def defer_signals() -> Iterator[Callable[[], str]]:
    """
    Yield a function that returns the received signal; "" if none.

    A second signal of the same kind has its default effect. Outside the main thread Python delivers
    no signals: use `stop_requested_by`.
    """
    came: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield _stop_reason.get()
        return
    with handled_stop_signals(
        lambda number, _: came.append(signal.Signals(number).name), once=True
    ):
        yield lambda: f"stopped by {came[0]}" if came else ""
