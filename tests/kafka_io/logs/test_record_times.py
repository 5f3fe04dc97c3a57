"""First records of logs of which an edge is not known."""

from typing import Any

import pytest
from applications import Applications

from toolkit.kafka_io.logs import record_times
from toolkit.kafka_io.logs.record_times import read_first_records
from toolkit.model import LogOffsets, TopicPartition


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        (LogOffsets(0, None, None), (False, False)),
        (LogOffsets(0, 5, None), (False, True)),
        (LogOffsets(None, 5, 5), (False, False)),
        (LogOffsets(0, 5, 5), (True, True)),
    ],
    ids=str,
)
def test_an_unknown_edge_is_no_end(
    apps: Applications, monkeypatch: pytest.MonkeyPatch, edges: LogOffsets, found: tuple[bool, bool]
) -> None:
    """After an election a leader may not tell the log end (KIP-207): nothing is known then."""
    place = TopicPartition(apps.create_topic(apps.name("orders"), records=5), 0)

    def read(*_: Any) -> tuple[dict[TopicPartition, LogOffsets], list[Any]]:
        return {place: edges}, []

    monkeypatch.setattr(record_times, "read_log_offsets", read)
    committed, first = (
        read_first_records(apps.cluster, [(place, 2)], committed=only) for only in (True, False)
    )

    assert found == ((place, 2) in committed, (place, 2) in first)
    assert {2} >= {record.offset for record in committed.values()}
