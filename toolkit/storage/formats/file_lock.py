"""Lock files: the kernel frees them however their holder ends."""

from __future__ import annotations

import fcntl
import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

from toolkit.errors import StateFileError
from toolkit.storage.formats.atomic_files import make_folder, not_written

LOOK_EVERY_S = 0.02
RECORD_WAIT_S = inf


@contextmanager
def lock_file(path: Path, *, mode: int = 0o666) -> Iterator[int]:
    """Open a lock file, made where there is none; what is locked is free after. StateFileError."""
    make_folder(path.parent)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, mode)
    except OSError as exc:
        raise not_written(path, exc) from exc
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock unless somebody else has it; raises OSError where there are no locks."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def exclusively(
    path: Path, *, on_wait: Callable[[], None] = lambda: None, wait_s: float = inf
) -> Iterator[None]:
    """
    Hold the lock file `path`; calls `on_wait` before it waits for who has it.

    Raises StateFileError where somebody still has it after `wait_s`.
    """
    with lock_file(path) as descriptor:
        if not try_lock(descriptor):
            on_wait()
            _wait_for(descriptor, path, wait_s)
        yield


@contextmanager
def undisturbed(path: Path, *, wait_s: float = inf) -> Iterator[None]:
    """
    Keep who takes the lock file `path` waiting, where it exists; the right to read suffices.

    Raises StateFileError where somebody still has it after `wait_s`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield
        return
    try:
        _wait_for(descriptor, path, wait_s, shared=True)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, path: Path, wait_s: float, *, shared: bool = False) -> None:
    if wait_s == inf:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        return
    # A blocking flock has no time limit of its own.
    give_up_at = time.monotonic() + wait_s
    while not try_lock(descriptor, shared=shared):
        if time.monotonic() > give_up_at:
            raise StateFileError(
                f"{path} was still locked by another process after {wait_s:g} s",
                hint=f"'fuser -v {shlex.quote(str(path))}' names that process",
            )
        time.sleep(LOOK_EVERY_S)
