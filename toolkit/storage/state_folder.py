"""The state directory, the lock of a cluster for changes, and the operator who is named in both."""

from __future__ import annotations

import json
import os
import pwd
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

from toolkit.errors import Blocked, StateFileError, UsageError
from toolkit.storage.fleet_file import fleet_file_in_use, state_entry
from toolkit.storage.formats.atomic_files import file_name, not_written, open_to_everybody
from toolkit.storage.formats.file_lock import lock_file, try_lock
from toolkit.storage.formats.json_codec import utc_text
from toolkit.storage.formats.user_folders import expanded, state_folder

VARIABLE = "OFFSETBOOK_STATE"
MOST_COUNTED = 1000  # every plan looks; a state directory may have very many runs


class Operator(NamedTuple):
    """A user on a host."""

    who: str
    host: str

    @classmethod
    def here(cls) -> Self:
        """Return the user and host of this process, and who it was before sudo."""
        who = _name(os.getuid())
        if before := os.environ.get("SUDO_UID", ""):
            who += f" (sudo by {_name(int(before)) if before.isdecimal() else before})"
        return cls(who, socket.gethostname())

    @property
    def at_host(self) -> str:
        """The operator as one text: `ana@host`."""
        return f"{self.who}@{self.host}"


def _name(number: int) -> str:
    # Not $LOGNAME or $USER, which the user may set at will.
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # a container that runs under a bare number
        return str(number)


def state_dir(fleet_file: Path | None = None) -> Path:
    """
    Return the folder of undo records, audit log and sightings, which need not exist yet.

    It is $OFFSETBOOK_STATE, else what the fleet file says under `state`, else the user's folder for
    such things. Raises FleetFileError where there is a fleet file that cannot be used, and
    UsageError where there is no such folder.
    """
    if named := os.environ.get(VARIABLE):
        return expanded(named).absolute()
    path = fleet_file_in_use(fleet_file)
    named_there = state_entry(path) if path else None
    if found := named_there or state_folder():
        return found.absolute()
    raise UsageError(
        "there is no folder for audit log and undo records: this user has no home directory",
        hint=f"set {VARIABLE} or HOME, or name a folder under 'state' in the fleet file",
    )


def check_readable(state: Path) -> None:
    """Raise StateFileError for a state folder that is there and cannot be read."""
    for folder in (state, state / "holds", state / "runs"):
        try:
            with os.scandir(folder) as found:
                next(found, None)
        except FileNotFoundError:
            continue
        except OSError as exc:
            raise StateFileError(
                f"{folder} cannot be read: {exc.strerror}",
                hint="ask whoever owns the state directory, or name another one",
            ) from exc


def open_to_others(state: Path) -> str:
    """Return what every user of the machine can open in a state folder, in words; "" if nothing."""
    found = list(islice(open_to_everybody(state), MOST_COUNTED))
    if not found:
        return ""
    at_least = "at least " if len(found) == MOST_COUNTED else ""
    more = f" and {at_least}{len(found) - 1} more" if len(found) > 1 else ""
    return f"every user of this machine can open {found[0]}{more}: run 'chmod -R o= {state}'"


def locked(
    state: Path, cluster_id: str, who: str, *, name: str = ""
) -> AbstractContextManager[None]:
    """
    Hold the lock for changes of a cluster through this state folder; `name` is for the message.

    Does not wait: raises Blocked with the holder and the time since when. However the holder
    ends, the kernel frees the lock. Raises StateFileError where there can be no lock file.
    """
    path = state / "locks" / f"{file_name(cluster_id)}.lock"
    return _alone(path, f"cluster {name or cluster_id} is being changed", who)


def locked_run(state: Path, runbook: str, cluster: str, who: str) -> AbstractContextManager[None]:
    """
    Hold the lock for a runbook on a cluster, by its name in the fleet, in this state folder.

    Does not wait: raises Blocked with the holder and the time since when. Raises StateFileError
    where there can be no lock file.
    """
    folder = state / "locks" / "runbooks"
    path = folder / f"{file_name(runbook)}.{file_name(cluster)}.lock"
    return _alone(path, f"runbook {runbook} is being run on {cluster or 'all'}", who)


@contextmanager
def _alone(path: Path, what: str, who: str) -> Iterator[None]:
    """Hold a lock file; `what` is being done where another one holds it."""
    with lock_file(path) as descriptor:
        _take(descriptor, path, what)
        _sign(descriptor, path, who)
        yield
        os.ftruncate(descriptor, 0)


def _take(descriptor: int, path: Path, what: str) -> None:
    try:
        taken = try_lock(descriptor)
    except OSError as exc:  # a file system without locks
        raise not_written(path, exc) from exc
    if not taken:
        raise Blocked(
            f"{what} by {_holder(path)}",
            hint="wait until that command has finished; nothing was changed",
        )


def _sign(descriptor: int, path: Path, who: str) -> None:
    holder = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "user": who,
        "since": utc_text(datetime.now(UTC).replace(microsecond=0)),
    }
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode() + b"\n", 0)
    except OSError as exc:
        raise not_written(path, exc) from exc


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text("utf-8"))
        where = f"process {holder['pid']} on {holder['host']}"
        return f"{holder['user']} since {holder['since']} ({where})"
    except (OSError, ValueError, KeyError, TypeError):  # it has the lock, but has not signed yet
        return f"another process, which holds {path}"
