"""A broker's error codes in words."""

from __future__ import annotations

import kafka.errors

NO_ERROR = 0
ASK_AGAIN = frozenset({14, 15, 16})  # the coordinator is loading, not available, or another one


def reason(code: int, message: str | None = None) -> str:
    """What an error code means: the broker's own words where it sent any, and always the name."""
    error = kafka.errors.for_code(code)
    words = message or error.description or "unknown error"
    return f"{words.rstrip('.')} ({error.message}, code {code})"


def is_worth_retrying(code: int) -> bool:
    """Whether the same request may succeed in a moment: the coordinator moved or is loading."""
    return bool(kafka.errors.for_code(code).retriable)
