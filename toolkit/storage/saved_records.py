"""
Records in a file, byte for byte: a line of JSON for each record.

`key`, `value` and the values of `headers` are base64, null for Kafka's null. `timestamp_ms` is as
the record has it (null: none), with `timestamp_type` as Kafka names it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolkit.errors import StateFileError, UsageError
from toolkit.model.records import Excerpt, Record
from toolkit.storage.formats.atomic_files import check_regular, write_whole


def save_records(path: Path, cluster: str, records: Sequence[Record]) -> None:
    """
    Write whole records to a new file, which only its owner can read; read it back and compare.

    Raises UsageError where the file exists, and StateFileError.
    """
    check_new(path)
    lines = [_line(cluster, record) for record in records]
    write_whole(path, (json.dumps(line) + "\n" for line in lines), private=True)
    try:
        with path.open(encoding="utf-8") as file:
            is_same = [json.loads(line) for line in file] == lines
    except (OSError, ValueError) as exc:
        raise StateFileError(f"{path} was written, but cannot be read back: {exc}") from exc
    if not is_same:
        raise StateFileError(f"{path} was written, but does not hold the records that were read")


def check_new(path: Path) -> None:
    """Raise UsageError where a file exists, StateFileError where something else is in its place."""
    if check_regular(path):
        raise UsageError(f"{path} exists", hint="use another name: saved records are not replaced")


def _line(cluster: str, record: Record) -> dict[str, Any]:
    topic, partition = record.partition
    return {
        "cluster": cluster,
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.at_ms,
        "timestamp_type": "LogAppendTime" if record.at_append else "CreateTime",
        "key": _encoded(record.key),
        "value": _encoded(record.value),
        "headers": [{"name": h.name, "value": _encoded(h.value)} for h in record.headers],
    }


def _encoded(field: Excerpt | None) -> str | None:
    return None if field is None else b64encode(field.start).decode()
