"""Whether a container ends with this command, and with it what the command leaves running."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from toolkit.errors import UsageError

FIRST_PROCESS = Path("/proc/1/cmdline")
OF_A_CONTAINER = "OFFSETBOOK_CONTAINER_COMMAND"  # for processes of such a command


def is_container_command() -> bool:
    """
    Return whether the first process was started for this command alone, or for its parent.

    It is this process, or an init that has its arguments. Its end is the end of a container, where
    the kernel kills all other processes.
    """
    if OF_A_CONTAINER in os.environ:
        return True
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


def mark_child_processes() -> None:
    """Let the processes that this one starts know if a container ends with it."""
    if is_container_command():
        os.environ[OF_A_CONTAINER] = "1"


def check_keeper_outlives() -> None:
    """Raise UsageError where a keeper that is left behind would be killed with the container."""
    if is_container_command():
        raise UsageError(
            "the container, and the keeper in it, would end with this command",
            hint="run 'offsetbook pause' without --detach as the command of the container",
        )
