"""How the reading and judging of a fleet are divided into Spark tasks, without Spark."""

from datetime import UTC, datetime

import pyarrow as pa

from toolkit.model import Cluster, LogOffsets
from toolkit.spark.judge import COMMITS_AT_ONCE, _slices
from toolkit.spark.read_state import OffsetsTopicNow
from toolkit.spark.read_tasks import (
    RECORDS_A_JUDGING_TASK,
    RECORDS_A_TASK,
    LogTask,
    NothingToRead,
    divided,
)


def tasks(name: str, *records: int) -> list[LogTask]:
    """Return tasks that read so many records each."""
    cluster = Cluster(name, "127.0.0.1:1")
    topic = OffsetsTopicNow(datetime.now(UTC), "id", len(records), 1)
    return [
        LogTask(cluster, topic, number, LogOffsets(0, count, count), 0)
        for number, count in enumerate(records)
    ]


def test_small_partitions_of_a_cluster_share_a_task() -> None:
    """Up to some records; no task is about two clusters, and none is left out."""
    half = RECORDS_A_TASK // 2
    eu, us = tasks("eu", half, half, 1, RECORDS_A_TASK, 0), tasks("us", 1)
    down = NothingToRead(Cluster("down", "127.0.0.1:1"), problem="cannot connect")

    bundles, judging_tasks = divided([eu, us, [down]])

    numbers = [[one.task for one in bundle] for bundle in bundles]
    assert [eu[:2], eu[2:3], eu[3:], us, [down]] == numbers
    assert [0, 0, 0, 1, 2] == [bundle[0].judging_task for bundle in bundles]
    assert 3 == judging_tasks


def test_a_very_large_cluster_is_judged_by_several_tasks() -> None:
    """Each judges the groups of some partitions; another cluster has tasks of its own."""
    large = tasks("large", *[RECORDS_A_JUDGING_TASK // 2] * 5)

    bundles, judging_tasks = divided([large, tasks("small", 1)])

    assert [0, 1, 2, 0, 1, 3] == [one.judging_task for bundle in bundles for one in bundle]
    assert 4 == judging_tasks


def test_judging_is_done_in_slices_of_whole_groups() -> None:
    """A slice that has as many commits as it should gets no further group."""
    sizes = {"a": COMMITS_AT_ONCE - 1, "b": 5, "huge": 2 * COMMITS_AT_ONCE, "c": 1}
    commits = pa.table({"group": [name for name, size in sizes.items() for _ in range(size)]})
    others = pa.table({"group": ["no commits", "a", "c"]})

    found = list(_slices({"commits": commits, "groups": others}))

    in_commits = [part["commits"]["group"].unique().to_pylist() for part in found]
    assert [["a", "b"], ["huge"], ["c"]] == in_commits
    assert [sum(sizes[name] for name in names) for names in in_commits] == [
        part["commits"].num_rows for part in found
    ]
    in_groups = [part["groups"]["group"].to_pylist() for part in found]
    assert [["a"], [], ["no commits", "c"]] == in_groups
