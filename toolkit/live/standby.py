"""
A second process next to a keeper, which takes its hold over when the keeper is gone.

It waits for the keeper's lock, which the kernel frees however the keeper ends and not before. So
there are never two keepers of one hold: one that is only stopped, or slow, still has the lock.
"""

from __future__ import annotations

import fcntl
import logging
import math
import subprocess
import sys
import termios
import time
from pathlib import Path

log = logging.getLogger("keeper")

OPTION = "--standby"
AGAIN_AFTER_S = 5.0  # one that ends at once is not started again at once


class Standby:
    """The standby of one keeper, as its child, so that its end is noticed."""

    def __init__(self, path: Path) -> None:
        """Start nothing yet; `path` is the hold file."""
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = -math.inf

    def ensure(self) -> None:
        """Start the standby if it does not run; a hold goes on without one."""
        if self._process and self._process.poll() is None:
            return
        if time.monotonic() < self._started_at + AGAIN_AFTER_S:
            return
        self._started_at = time.monotonic()
        try:
            self._process = subprocess.Popen(
                # -P: do not import modules from the working directory. It has the keeper's standard
                # input, so that it knows of the starter what the keeper knows.
                [sys.executable, "-P", "-m", "toolkit.live.keeper", str(self._path), OPTION],
                start_new_session=True,
            )
        except OSError as exc:
            log.warning("the standby did not start: %s", exc)


def is_detached(starter: int) -> bool:
    """
    Return whether a starter has detached its keeper, of a pipe from it that can be read.

    What it wrote stays in the pipe, where a standby finds it; a pipe that can be read and has
    nothing in it has ended.
    """
    return any(fcntl.ioctl(starter, termios.FIONREAD, bytes(4)))
