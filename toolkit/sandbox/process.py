"""
Background processes that outlive the command that started them.

Each has a small record file with its id and its arguments: the id alone may belong to another
process by now, and only processes of the sandbox may be ended. A start time would not do: it is
another one after the system's clock was set.
"""

from __future__ import annotations

import atexit
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil

from toolkit.errors import SandboxFailed
from toolkit.storage.formats.atomic_files import write_whole

# Popen objects of children that are meant to outlive this interpreter: one that is collected while
# its process runs warns about it, and the code that ends the process must also reap it.
_children: dict[int, subprocess.Popen[bytes]] = {}


@atexit.register
def _leave_running() -> None:
    """Keep Python from warning of processes that run on when it ends: they are meant to."""
    for child in _children.values():
        child.returncode = child.poll() or 0


def spawn(command: Sequence[str | Path], *, record: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, its output in `log`, its identity in `record`."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[child.pid] = child
    write_whole(record, json.dumps({"pid": child.pid, "arguments": [*map(str, command[1:])]}))
    return child


def running(record: Path) -> psutil.Process | None:
    """Return the process that `record` names, if it is still the one that was started."""
    try:
        known = json.loads(record.read_text(encoding="utf-8"))
        process, arguments = psutil.Process(known["pid"]), known["arguments"]
        # Without the program: a wrapper has put another one in its place. A zombie has none.
        return process if process.cmdline()[-len(arguments) :] == arguments else None
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None


def listening_ports(record: Path) -> set[int]:
    """Return the ports at which the process that `record` names listens."""
    process = running(record)
    try:
        found = process.net_connections("tcp") if process else []
    except psutil.Error:  # it has just ended
        return set()
    return {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}


def end(record: Path, *, grace_s: float = 10) -> bool:
    """End the recorded process, politely first; return whether there was one to end."""
    process = running(record)
    if process:
        process.terminate()
        try:
            process.wait(grace_s)
        except psutil.TimeoutExpired:
            process.kill()
            _wait_killed(process, record)
    _reap(record)
    record.unlink(missing_ok=True)
    return process is not None


def _wait_killed(process: psutil.Process, record: Path) -> None:
    try:
        process.wait(10)
    except psutil.TimeoutExpired as exc:
        raise SandboxFailed(
            f"process {process.pid} of {record} does not end", hint="check it with ps"
        ) from exc


def _reap(record: Path) -> None:
    try:
        pid = json.loads(record.read_text(encoding="utf-8"))["pid"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if child := _children.pop(pid, None):
        child.wait()
