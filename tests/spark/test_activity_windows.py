"""How busy a group is, where its partition of the offsets topic was read in full or went on."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa

from toolkit.kafka_io.offsets_topic.activity import ACTIVITY
from toolkit.kafka_io.offsets_topic.removals import REMOVALS
from toolkit.spark import judge
from toolkit.spark.arrow import pack


def at(hour: int, minute: int) -> datetime:
    return datetime(2026, 3, 1, hour, minute, tzinfo=UTC)


def block(group: str, *, commits: int, first_at: datetime, resumed_at: datetime | None) -> Any:
    """Return what one partition of the offsets topic says of a group that commits until 10:50."""
    counts = {"records": commits, "bytes": 100 * commits, "commits": commits}
    wrote = dict.fromkeys(("tombstones", "rebalances"), 0)
    row = {"group": group, "hour": at(10, 0), "first_at": first_at, "last_at": at(10, 50)}
    activity = pa.Table.from_pylist([{**row, **counts, **wrote, "complete": True}], schema=ACTIVITY)
    return {
        "activity": pack(activity),
        "removals": pack(REMOVALS.empty_table()),
        "read_to": {"resumed_at": resumed_at},
    }


def test_each_rate_is_of_the_time_that_was_read() -> None:
    """Another leader of one partition has that one read in full, while the others go on."""
    blocks = [
        block("full", commits=3000, first_at=at(10, 0), resumed_at=None),
        block("resumed", commits=300, first_at=at(10, 45), resumed_at=at(10, 45)),
    ]
    names = ["full", "resumed"]
    commits = pd.DataFrame({"cluster": "eu", "group": names})
    times = pd.Series([None, None], dtype="datetime64[ms, UTC]")
    groups = pd.DataFrame({"group": names, "type": "classic", "empty_since": times})
    known: Any = SimpleNamespace(retention_s=604_800, check_interval_s=600)
    nothing: Any = None
    facts = judge.ClusterFacts("eu", known, nothing, nothing)
    tables = {
        name: judge._unpacked(blocks, name, schema)
        for name, schema in (("activity", ACTIVITY), ("removals", REMOVALS))
    }
    part = judge.Slice(facts, nothing, nothing, **tables)
    judging = judge.EvaluationRules(nothing, at(10, 50), 30, at(9, 0))

    found = judge._activity(part, commits, groups, judging).set_index("group")

    assert {"full": 1.0, "resumed": 1.0} == found["commits_per_s"].to_dict()
    assert {"full": at(10, 0), "resumed": at(10, 45)} == found["window_from"].to_dict()
