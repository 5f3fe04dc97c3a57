"""Hold Ctrl-C, a polite kill and a lost terminal back until what is begun is recorded."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

HELD_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# What says, outside of the main thread, why to stop; "" while nobody asked for that.
_asked: ContextVar[Callable[[], str]] = ContextVar("asked", default=str)


@contextmanager
def stopped_by(asked: Callable[[], str]) -> Iterator[None]:
    """Let what is begun in this thread be stopped by what `asked` says, between two steps."""
    before = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(before)


@contextmanager
def held_back() -> Iterator[Callable[[], str]]:
    """
    Yield a function that says which signal has come; "" while none has.

    A second signal of the same kind does what it did before, for whoever will not wait. Outside of
    the main thread Python delivers no signals and nothing is held back: `stopped_by` stops that.
    """
    came: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield _asked.get()
        return
    handlers = {number: signal.getsignal(number) for number in HELD_BACK}
    # One that is ignored stays so (nohup), and one that is not Python's cannot be put back.
    before = {n: h for n, h in handlers.items() if h not in {signal.SIG_IGN, None}}

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(signal.Signals(number).name)
        signal.signal(number, before[signal.Signals(number)])

    try:
        for number in before:
            signal.signal(number, note)
        yield lambda: f"stopped by {came[0]}" if came else ""
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
