"""Start a keeper process, wait until the hold is active, and detach from it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import NotCaptured, StateFileError
from toolkit.storage.formats.atomic_files import not_written, open_private
from toolkit.storage.hold_files import (
    HoldRecord,
    HoldStatus,
    has_live_keeper,
    read_hold,
    write_hold,
)

LOOK_EVERY_S, FOLLOW_EVERY_S = 0.05, 0.5
ENDS_WITHIN_S = 15.0  # it records its end, and its standby reads that


@dataclass(slots=True)
class KeeperHandle:
    """
    Pipe to a keeper: the hold ends when the starter exits, unless it is detached.

    `detach` leaves the hold to the keeper, `terminate` ends it.
    """

    end: int

    def detach(self) -> None:
        if self.end >= 0:
            with suppress(BrokenPipeError):  # it has already ended
                os.write(self.end, b"\n")
            self.terminate()

    def terminate(self) -> None:
        """Signal the keeper that its starter is gone, unless it is detached."""
        if self.end >= 0:
            os.close(self.end)
            self.end = -1

    @property
    def has_exited(self) -> bool:
        poll = select.poll()
        poll.register(self.end, 0)
        return bool(poll.poll(0))


def once_settled(path: Path) -> tuple[bool, HoldRecord | None]:
    """Return whether a hold has a keeper, and its record; waits for a keeper that just ends."""
    give_up_at = time.monotonic() + ENDS_WITHIN_S
    while True:
        has_keeper, record = has_live_keeper(path), read_hold(path)
        is_ending = has_keeper and record and record.status is HoldStatus.ENDED
        if not is_ending or time.monotonic() > give_up_at:
            return has_keeper, record
        time.sleep(LOOK_EVERY_S)


def start_keeper(path: Path, record: HoldRecord) -> KeeperHandle:
    """
    Write a hold file and start its keeper, whose log is next to the file.

    Raises StateFileError if the files cannot be written.
    """
    write_hold(path, record)
    log = path.with_suffix(".log")
    own_end, keeper_end = None, None
    try:
        keeper_end, own_end = os.pipe()
        with open(log, "ab", opener=open_private) as output:
            subprocess.run(
                # -P: do not import modules from the working directory.
                [sys.executable, "-P", "-m", "toolkit.live.keeper", str(path)],
                stdin=keeper_end,
                stdout=output,
                stderr=output,
                start_new_session=True,
                check=True,  # it forks and leaves the keeper as a daemon
            )
        handle, own_end = KeeperHandle(own_end), None
    except OSError as exc:
        raise not_written(log, exc) from exc
    except subprocess.CalledProcessError as exc:
        raise StateFileError(f"the keeper did not start; see its log {log}") from exc
    finally:
        for end in (own_end, keeper_end):
            if end is not None:
                os.close(end)
    return handle


def wait_until_held(path: Path, handle: KeeperHandle, stopped: Callable[[], str]) -> HoldRecord:
    """
    Return the record of a hold once a keeper holds all partitions.

    Raises NotCaptured, with nothing held, if that failed or `stopped` returns a reason.
    """
    while True:
        has_exited = handle.has_exited
        record = read_hold(path)
        if record and record.status is HoldStatus.HELD and record.pid:
            return record
        if record and record.status is HoldStatus.ENDED:
            handle.terminate()
            raise NotCaptured(record.words)
        if has_exited:
            handle.terminate()
            raise NotCaptured(
                f"the keeper process has ended{_last_words(path)}",
                hint=f"see its log {path.with_suffix('.log')}",
            )
        if why := stopped():
            handle.terminate()
            while has_live_keeper(path):  # it cleans up the group
                time.sleep(LOOK_EVERY_S)
            raise NotCaptured(why)
        time.sleep(LOOK_EVERY_S)


def follow(path: Path) -> Iterator[HoldRecord]:
    """Yield the record of a hold on every change, until it has ended."""
    last, had_keeper = None, True
    while True:
        # In this order: a keeper writes the end of the hold before it releases its lock.
        has_keeper, record = has_live_keeper(path), read_hold(path)
        if record and record != last:
            last = record
            yield record
        # A standby takes the lock a moment after its keeper has died.
        if not (has_keeper or had_keeper) or not record or record.status is HoldStatus.ENDED:
            return
        had_keeper = has_keeper
        time.sleep(FOLLOW_EVERY_S)


def _last_words(path: Path) -> str:
    """Return the last line of a keeper's log, as a suffix of a message."""
    with suppress(OSError, UnicodeDecodeError):
        lines = path.with_suffix(".log").read_text("utf-8").splitlines()
        return f": {lines[-1]}" if lines else ""
    return ""
