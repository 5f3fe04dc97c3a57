"""Handle the signals that ask a process to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def handled_stop_signals(
    handler: Callable[[int, FrameType | None], None], *, once: bool = False
) -> Iterator[None]:
    """
    Call a handler for SIGINT, SIGTERM and SIGHUP; with `once`, a second one has its effect again.

    A signal that the process was started to ignore (nohup, a job in a script) stays ignored, and a
    handler that is not of Python, which could not be restored, stays. Python delivers signals to
    the main thread alone: in another one nothing is handled.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS if is_main}
    before = {n: h for n, h in handlers.items() if h not in {signal.SIG_IGN, None}}

    def handle(number: int, frame: FrameType | None) -> None:
        handler(number, frame)
        if once:
            signal.signal(number, before[signal.Signals(number)])

    try:
        for number in before:
            signal.signal(number, handle)
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
