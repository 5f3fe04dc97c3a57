"""Format counts."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 member`, `2,000 members`; `plural` if that is no -s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
