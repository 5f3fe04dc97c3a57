"""
Decode record bytes to JSON, text or hex for display.

The form is detected from the bytes. Text is returned unescaped: escape it for the place where it is
shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

import pandas as pd

from toolkit.model import TopicPartition
from toolkit.model.plurals import counted
from toolkit.model.records import Excerpt, Header, Record

MOST_CHARACTERS = 2_000
MOST_HEX_BYTES = 256
CONFLUENT_MAGIC = 0  # first byte of schema registry format, followed by a 4 byte id
_JSON_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_OPENING, _CLOSING = ("{", "["), ("}", "]")
_DEEPEST = 20  # deeper indentation would exceed the page
MOST_SCHEMAS = 10_000_000  # a higher number is not a schema id
HEX_LETTERS = 64
RECORD_COLUMNS = (
    *("topic", "partition", "offset", "place", "at", "key", "key_form", "key_bytes"),
    *("value", "value_form", "value_bytes", "headers", "notes"),
)


class ByteFormat(StrEnum):
    """The form of some bytes."""

    NULL = "null"
    EMPTY = "empty"
    JSON = "JSON"
    TEXT = "text"
    HEX = "hex"


class RecordPlace(StrEnum):
    """Where a record is, relative to the committed offset."""

    BEFORE = "before"
    NEXT = "next"  # the next record the group reads
    AFTER = "after"


class Decoded(NamedTuple):
    """Decoded bytes: form, text, size and a note."""

    form: ByteFormat
    text: str
    size_bytes: int | None  # None: null has no size
    note: str = ""

    @property
    def description(self) -> str:
        if not self.size_bytes:
            return str(self.form)
        return f"{self.form}, {counted(self.size_bytes, 'byte')}"


def decode(field: Excerpt | None, *, most_characters: int = MOST_CHARACTERS) -> Decoded:
    """
    Decode a key, value or header.

    Valid UTF-8 without control characters (except tabs and line ends) is text, and JSON if the
    whole is an object or a list; everything else is hex. Text longer than `most_characters` is
    truncated, which the note says.
    """
    if field is None:
        return Decoded(ByteFormat.NULL, "", None)
    if not field.size_bytes:
        return Decoded(ByteFormat.EMPTY, "", 0)
    is_whole = len(field.start) == field.size_bytes
    text = _text(field.start, is_whole=is_whole)
    if text is None:
        return _hex(field)
    form = ByteFormat.JSON if is_whole and _is_json(text) else ByteFormat.TEXT
    shown = text[:most_characters]
    is_cut = len(shown) < len(text) or not is_whole
    shown_bytes = len(shown.encode())
    note = f"truncated: first {shown_bytes:,} of {field.size_bytes:,} bytes" if is_cut else ""
    return Decoded(form, shown, field.size_bytes, note)


def _text(start: bytes, *, is_whole: bool) -> str | None:
    """Return the bytes as text; None if they are not text."""
    # The last character of an excerpt may be incomplete: at most three bytes of it.
    for dropped in range(1 if is_whole else 4):
        try:
            text = start[: len(start) - dropped].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return text if all(c.isprintable() or _is_writing(c) for c in text) else None
    return None


def _is_writing(character: str) -> bool:
    """Return whether a character that Python does not print may be part of a text."""
    # Invisible characters are escaped on display; only control characters indicate binary data.
    return character in "\t\n\r" or not (character < " " or "\x7f" <= character <= "\x9f")


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _hex(field: Excerpt) -> Decoded:
    shown = field.start[:MOST_HEX_BYTES]
    notes = []
    if len(shown) < field.size_bytes:
        notes.append(f"truncated: first {len(shown):,} of {field.size_bytes:,} bytes")
    schema_id = int.from_bytes(field.start[1:5], "big")
    if field.size_bytes in {4, 8}:
        number = int.from_bytes(field.start, "big", signed=True)
        notes.append(f"as integer: {number}")
    elif (
        field.size_bytes > 5 and field.start[0] == CONFLUENT_MAGIC and 0 < schema_id < MOST_SCHEMAS
    ):
        notes.append(f"looks like schema registry format, schema id {schema_id}")
    letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in shown[:HEX_LETTERS])
    if any(letter.isalnum() for letter in letters):
        notes.append(f"as text: {letters}")
    return Decoded(ByteFormat.HEX, shown.hex(" "), field.size_bytes, "; ".join(notes))


def indented(text: str) -> str:
    """
    Return JSON with a line for each member; nothing but white space between tokens is changed.

    Numbers, repeated names and escapes stay as written, which parsing would not keep.
    """
    out: list[str] = []
    depth, before = 0, ""
    for part in _JSON_PARTS.findall(text):
        depth -= part in _CLOSING
        is_empty = before in _OPENING and part in _CLOSING  # stays together
        if not is_empty and (before in (*_OPENING, ",") or part in _CLOSING):
            out.append("\n" + "  " * min(depth, _DEEPEST))
        out.append(": " if part == ":" else part)
        depth += part in _OPENING
        before = part
    return "".join(out)


def places(records: Iterable[Record], positions: Mapping[TopicPartition, int]) -> list[RecordPlace]:
    """Return the place of each record; records are in order of partition and offset."""
    found = []
    had_next: set[TopicPartition] = set()
    for record in records:
        if record.offset < positions[record.partition]:
            found.append(RecordPlace.BEFORE)
        else:
            found.append(RecordPlace.AFTER if record.partition in had_next else RecordPlace.NEXT)
            had_next.add(record.partition)
    return found


def records_frame(
    records: Iterable[Record],
    positions: Mapping[TopicPartition, int],
    *,
    most_characters: int = MOST_CHARACTERS,
) -> pd.DataFrame:
    """
    One row for each record around the offsets of `positions`.

    Columns: topic, partition, offset, place (before, next, after), at (UTC, null where it has
    none), key and value (text, null for Kafka's null), key_form and value_form (null, empty, JSON,
    text, hex), key_bytes and value_bytes (Int64), headers (`name: value`, one a line), notes.
    """
    listed = list(records)
    rows = []
    for record, place in zip(listed, places(listed, positions), strict=True):
        key, value = (
            decode(field, most_characters=most_characters) for field in (record.key, record.value)
        )
        rows.append(
            (
                *(*record.partition, record.offset, str(place), record.at),
                *(_or_null(key), str(key.form), key.size_bytes),
                *(_or_null(value), str(value.form), value.size_bytes),
                "\n".join(header_lines(record)),
                "; ".join(f"{n}: {f.note}" for n, f in (("key", key), ("value", value)) if f.note),
            )
        )
    frame = pd.DataFrame(rows, columns=list(RECORD_COLUMNS), dtype="object")
    numbers = ("partition", "offset", "key_bytes", "value_bytes")
    return frame.astype({**dict.fromkeys(numbers, "Int64"), "at": "datetime64[ms, UTC]"})


def header_lines(record: Record) -> list[str]:
    """Return each header as `name: value`, and how many are left out."""
    lines = [_header(header) for header in record.headers]
    return lines + ([f"and {record.headers_left_out:,} more"] if record.headers_left_out else [])


def _header(header: Header) -> str:
    value = decode(header.value, most_characters=200)
    shown = value.text or f"({value.form})"
    if value.form is ByteFormat.HEX:
        shown += " (hex)"
    return f"{header.name}: {shown}" + (f" ({value.note})" if value.note else "")


def _or_null(field: Decoded) -> str | None:
    return None if field.form is ByteFormat.NULL else field.text
