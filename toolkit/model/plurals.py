"""Format counts."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 member`, `2,000 members`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
