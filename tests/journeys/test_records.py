"""Which records are unread, and records that are saved byte for byte."""

import json
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from applications import Applications, eventually
from clients import Producer
from operators import Operator

from toolkit.errors import UsageError
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.journeys.health import earlier_sample, health
from toolkit.journeys.reset import target
from toolkit.journeys.troubleshoot import troubleshoot
from toolkit.kafka_io.logs.record_times import read_first_records
from toolkit.model import Problem, TopicPartition, Unread
from toolkit.planning.lag.time_lag import BY_RECORD, NOTHING_TO_READ
from toolkit.spark.ask import ask_logs

CAUGHT_UP = "caught up: no committed record follows"


@pytest.mark.parametrize(
    ("after", "first_unread"),
    [
        pytest.param([], None, id="the marker of the last transaction"),
        pytest.param([(5, False)], None, id="an aborted transaction"),
        pytest.param([(5, False), (1, True)], 10, id="a record after an aborted transaction"),
    ],
)
def test_after_a_transaction(
    operator: Operator, apps: Applications, after: list[tuple[int, bool]], first_unread: int | None
) -> None:
    """A diagnosis, a reset to the end and the time lag of the fleet job know what is unread."""
    place = TopicPartition(apps.create_topic(apps.name("orders")), 0)
    apps.write_transactions(place, (3, True), *after)
    group = apps.name("payments")
    operator.commit(group, {place: 3})

    (first,) = read_first_records(operator.cluster, [(place, 3)], committed=True).values()
    assert (first_unread is not None, first_unread) == (first.found, first.offset)
    diagnosis = troubleshoot(ClusterAccess(operator.cluster), group, sample_interval="1s")
    found = health(ClusterAccess(operator.cluster), [group], sample_interval="1s").rows
    (row,) = diagnosis.partitions.to_dict("records")
    word = dict(zip(found.columns, *found.rows, strict=True))
    if first_unread is None:
        assert ("ok", CAUGHT_UP) == (word["health"], word["why"])
        assert ("caught up", CAUGHT_UP) == (row["verdict"], row["why"])
    else:
        assert "no members" == row["verdict"] == word["verdict"]
        assert "lag 9, the oldest unread record was written 1 h" in row["why"]

    change = operator.session.reset([group], to=target("to-latest"))
    skipped = [] if first_unread is None else ["at most 2 unread records would be skipped"]
    assert skipped == [finding.why for finding in change.findings if finding.blocks]
    assert skipped or operator.apply(change.plan).is_done

    columns = {"topic": [place.topic], "partition": [0], "committed": [3], "topic_id": [None]}

    def method() -> str:
        return str(ask_logs(operator.cluster, pd.DataFrame(columns), [60])["time_lag_method"][0])

    # As long as the last marker is a second old, its age is good enough.
    expected = NOTHING_TO_READ if first_unread is None else BY_RECORD
    eventually(lambda: method() == expected)


def test_a_read_error_goes_with_its_group(operator: Operator, apps: Applications) -> None:
    """A group that could not be read at first, and ended, is left out of both samples."""
    group = apps.name("payments")
    operator.commit(group, {TopicPartition(apps.create_topic(apps.name("orders")), 0): 0})
    access = ClusterAccess(operator.cluster)
    first = earlier_sample(access, [group])
    errors = [Problem(Unread.MEMBERS, "no answer", name) for name in (group, "ended")]
    first = replace(first, facts=replace(first.facts, problems=tuple(errors)))

    found = health(access, [group], sample_interval="1s", first=first)

    assert (errors[0],) == found.facts.problems


LARGE = bytes(range(256)) * 400  # more than is kept of a field that is only shown
RECORDS: list[dict[str, Any]] = [
    {"key": None, "value": LARGE, "headers": [("trace", b"\xff\x00"), ("empty", None)]},
    {"key": b"\x00k", "value": None, "headers": [(f"h{n}", b"x") for n in range(60)]},
    {"key": b"", "value": b"", "headers": []},
]


def decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def test_a_saved_record_is_the_produced_one(
    operator: Operator, apps: Applications, tmp_path: Path
) -> None:
    """Key, value, headers, timestamp and position; an existing file is not replaced."""
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
