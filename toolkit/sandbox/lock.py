"""One process at a time, across processes."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusively(path: Path, *, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock file `path`; the kernel frees it whatever way the holder ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
