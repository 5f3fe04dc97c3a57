"""Many things are asked at once: a slow one delays no other, and nothing waits after Ctrl-C."""

import signal
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest
from applications import PATIENCE_S

from toolkit.model.side_by_side import CLUSTERS_AT_ONCE, side_by_side

HANGS = """
import threading
from toolkit.model.side_by_side import side_by_side
print("asked", flush=True)
side_by_side(lambda _: threading.Event().wait(), [1, 2])
"""


def test_all_are_asked_at_once_and_answered_in_order() -> None:
    """Each waits until the others are asked, too, and sees the context of the caller."""
    asked, seen = threading.Barrier(3), ContextVar[str]("seen")
    seen.set("by all")

    def ask(number: int) -> tuple[int, str]:
        asked.wait(PATIENCE_S)
        return -number, seen.get()

    assert [(-3, "by all"), (-1, "by all"), (-2, "by all")] == side_by_side(ask, [3, 1, 2])


def test_more_than_fit_are_asked_in_turn() -> None:
    """A fleet of any size is read to its end."""
    many = range(3 * CLUSTERS_AT_ONCE)
    assert [*many] == side_by_side(lambda one: one, many)
    assert [] == side_by_side(lambda one: one, [])


def test_an_error_is_raised() -> None:
    """What goes wrong with one is not lost in its thread."""
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda one: 1 // one, [1, 0])


def test_ctrl_c_does_not_wait() -> None:
    """The process ends although a request never gets a response."""
    with subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE) as process:
        assert b"asked\n" == process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) != 0
