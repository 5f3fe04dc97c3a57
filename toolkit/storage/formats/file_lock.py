"""Lock files: the kernel frees them however their holder ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit.storage.formats.atomic_files import make_folder, not_written


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
def exclusively(path: Path, *, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock file `path`; calls `on_wait` before it waits for who has it."""
    with lock_file(path) as descriptor:
        if not try_lock(descriptor):
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def undisturbed(path: Path) -> Iterator[None]:
    """Keep who takes the lock file `path` waiting, where it exists; the right to read suffices."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)
