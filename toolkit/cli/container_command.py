"""Whether a container ends with this command, and with it what the command leaves running."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from toolkit.errors import UsageError

FIRST_PROCESS = Path("/proc/1/cmdline")


def is_container_command() -> bool:
    """
    Return whether the first process was started for this command alone.

    It is this process, or an init that has its arguments. Its end is the end of a container, where
    the kernel kills all other processes.
    """
    try:
        words = os.fsdecode(FIRST_PROCESS.read_bytes()).split("\0")[:-1]
    except OSError:  # macOS has none
        return False
    program, *arguments = sys.argv
    start = len(words) - len(sys.argv)
    return (
        start >= 0
        and Path(words[start]).name == Path(program).name
        and words[start + 1 :] == arguments
    )


def check_keeper_outlives() -> None:
    """Raise UsageError where a keeper that is left behind would be killed with the container."""
    if is_container_command():
        raise UsageError(
            "the container, and the keeper in it, would end with this command",
            hint="run 'offsetbook pause' without --detach as the command of the container",
        )
