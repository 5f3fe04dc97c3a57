"""Cut long lists of names into requests of a size that brokers answer quickly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def in_chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield consecutive slices of at most `size` items (`itertools.batched` needs Python 3.12)."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
