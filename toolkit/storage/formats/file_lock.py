"""Lock files: the kernel frees them however their holder ends."""

from __future__ import annotations

import fcntl
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolkit.errors import StateFileError
from toolkit.storage.formats.atomic_files import make_folder, not_written, open_private

TRY_EVERY_S = 0.02
PATIENCE_S = 15.0  # entries are written in milliseconds; a process that holds a lock longer hangs


@contextmanager
def lock_file(path: Path) -> Iterator[int]:
    """Open a lock file, made where there is none; what is locked is free after. StateFileError."""
    make_folder(path.parent)
    try:
        descriptor = open_private(path, os.O_RDWR)
    except OSError as exc:
        raise not_written(path, exc) from exc
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock unless another process has it; raises OSError where there are no locks."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_within(descriptor: int, within_s: float, *, shared: bool = False) -> bool:
    """Take the lock as soon as no other process has it; return False if that takes longer."""
    if within_s == math.inf:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        return True
    give_up_at = time.monotonic() + within_s
    while not try_lock(descriptor, shared=shared):
        if time.monotonic() >= give_up_at:
            return False
        time.sleep(TRY_EVERY_S)
    return True


@contextmanager
def exclusively(
    path: Path,
    *,
    on_wait: Callable[[], None] = lambda: None,
    within_s: float = math.inf,
) -> Iterator[None]:
    """
    Hold the lock file `path`; calls `on_wait` before it waits for another process.

    Waits as long as that work takes; with `within_s`, raises StateFileError after that time.
    """
    with lock_file(path) as descriptor:
        if not try_lock(descriptor):
            on_wait()
            _wait_for(descriptor, path, within_s, shared=False)
        yield


def _wait_for(descriptor: int, path: Path, within_s: float, *, shared: bool) -> None:
    if not lock_within(descriptor, within_s, shared=shared):
        raise StateFileError(
            f"another process has held {path} for more than {within_s:g} s",
            hint="see which with 'fuser', and wait for it or end it; nothing was written",
        )


@contextmanager
def undisturbed(path: Path) -> Iterator[None]:
    """
    Make processes that take the lock file `path` wait, if it exists; needs only read permission.

    Raises StateFileError if another process has it for long.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield
        return
    try:
        _wait_for(descriptor, path, PATIENCE_S, shared=True)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def only_one_in(folder: Path) -> Iterator[None]:
    """
    Hold the lock of a folder, which leaves no lock file among the files that people wrote.

    Raises StateFileError if another process has it for long.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # NFS locks files only
            _wait_for(descriptor, folder, PATIENCE_S, shared=False)
        yield
    finally:
        os.close(descriptor)
