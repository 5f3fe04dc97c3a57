"""
Encode and decode the JSON note of a hold, stored in a field that group descriptions show.

A KIP-848 holder has it in its rack id, the holder in a classic group in the user data of its own
assignment, together with the paused partitions. Another client may write anything into both
fields, so a note that cannot be read counts as unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from toolkit.model import HoldNote, TopicPartition

LONGEST_TEXT = 200  # characters of each text, so that the note stays small


class DecodedNote(NamedTuple):
    """A note, and the partitions that are named in it."""

    note: HoldNote
    paused: tuple[TopicPartition, ...]


def write_note(note: HoldNote, paused: Iterable[TopicPartition] = ()) -> str:
    """Write a note; `paused` only if the broker does not show the held partitions otherwise."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(paused):
        topics.setdefault(topic, []).append(number)
    entries = {
        "paused": topics,
        "who": note.who[:LONGEST_TEXT],
        "host": note.host[:LONGEST_TEXT],
        "since": note.since and note.since.isoformat(timespec="milliseconds"),
        "until": note.until and note.until.isoformat(timespec="milliseconds"),
        "reason": note.reason[:LONGEST_TEXT],
        "survives_s": note.survives_s,
        "run": note.run_id[:LONGEST_TEXT],
        "own_delay": note.own_delay,
    }
    return json.dumps({name: value for name, value in entries.items() if value})


def read_note(text: str | bytes | None) -> DecodedNote:
    """Read a note; invalid entries are left out."""
    entries: Any = None
    with suppress(ValueError, RecursionError):
        entries = json.loads(text or "")
    if not isinstance(entries, dict):
        return DecodedNote(HoldNote(), ())
    note = HoldNote(
        who=_text(entries.get("who")),
        host=_text(entries.get("host")),
        since=_time(entries.get("since")),
        until=_time(entries.get("until")),
        reason=_text(entries.get("reason")),
        survives_s=_seconds(entries.get("survives_s")),
        run_id=_text(entries.get("run")),
        own_delay=_digits(entries.get("own_delay")),
    )
    return DecodedNote(note, tuple(_partitions(entries.get("paused"))))


def _text(value: object) -> str:
    # JSON may name half a character, which could not be written anywhere.
    return _whole(value[:LONGEST_TEXT]) if isinstance(value, str) else ""


def _digits(value: object) -> str:
    text = _text(value)
    return text if text.isascii() and text.isdigit() else ""


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _time(value: object) -> datetime | None:
    with suppress(ValueError, OverflowError):
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            return found.astimezone(UTC) if found.tzinfo else None
    return None


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**31:
        return float(value)
    return None


def _partitions(topics: object) -> Iterable[TopicPartition]:
    if not isinstance(topics, dict):
        return
    for topic, numbers in topics.items():
        for number in numbers if isinstance(numbers, list) else ():
            if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
                yield TopicPartition(_whole(topic), number)
