"""Create many objects without searching them for cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """
    Do not search for cycles while many objects without any are created.

    The search visits all that were created so far, again and again: with a million of them it
    takes as long as creating them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
