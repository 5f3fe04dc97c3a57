"""Records are saved byte for byte, before a step that skips them."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from applications import Applications
from clients import Producer
from operators import Operator

from toolkit.errors import UsageError
from toolkit.model import TopicPartition

LARGE = bytes(range(256)) * 400  # more than is kept of a field that is only shown
RECORDS: list[dict[str, Any]] = [
    {"key": None, "value": LARGE, "headers": [("trace", b"\xff\x00"), ("empty", None)]},
    {"key": b"\x00k", "value": None, "headers": [(f"h{n}", b"x") for n in range(60)]},
    {"key": b"", "value": b"", "headers": []},
]


def decoded(text: str | None) -> bytes | None:
    """Return what a field of the file holds."""
    return None if text is None else b64decode(text)


def test_what_is_saved_is_what_was_produced(
    operator: Operator, apps: Applications, tmp_path: Path
) -> None:
    """Key, value, headers, timestamp and place; a file that exists is not replaced."""
    place = TopicPartition(apps.create_topic(apps.name("orders")), 0)
    producer = Producer({"bootstrap.servers": apps.address})
    for number, record in enumerate(RECORDS):
        producer.produce(place.topic, partition=0, timestamp=1_700_000_000_000 + number, **record)
    assert 0 == producer.flush()
    group, file = apps.name("payments"), tmp_path / "records.jsonl"
    operator.commit(group, {place: 1})

    found = operator.session.peek(group, [place.topic], before=1, after=5)
    said = found.save(file)

    assert f"3 records saved to {file}, read back and compared" == said
    assert 0 == file.stat().st_mode & 0o077
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert RECORDS == [
        {
            "key": decoded(line["key"]),
            "value": decoded(line["value"]),
            "headers": [(header["name"], decoded(header["value"])) for header in line["headers"]],
        }
        for line in lines
    ]
    names = ("cluster", "topic", "partition", "offset", "timestamp_ms", "timestamp_type")
    assert [
        (operator.cluster.name, *place, number, 1_700_000_000_000 + number, "CreateTime")
        for number in range(3)
    ] == [tuple(line[name] for name in names) for line in lines]
    with pytest.raises(UsageError, match=r"records\.jsonl exists"):
        found.save(file)
