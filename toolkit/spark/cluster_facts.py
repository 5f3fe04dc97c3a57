"""
Read group facts that `__consumer_offsets` lacks from coordinators and brokers.

Each cluster is asked once, in one task. What it does not answer is a problem in its own rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody knows it

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.group_settings import read_expiry_settings
from toolkit.kafka_io.groups.hidden_by_acls import find_hidden
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.model import HIDDEN_COMMITS, Cluster
from toolkit.spark.packed_tables import Row, on_rows, pack
from toolkit.spark.schemas import CLUSTER_FACTS, LISTED


def a_task_each(frame: DataFrame, clusters: Mapping[str, Cluster]) -> DataFrame:
    """Put the rows of each cluster into a task of its own, so that clusters are asked at once."""
    number = F.array_position(F.lit([*clusters]), F.col("cluster")).cast("int") - 1
    return frame.repartitionById(len(clusters), number)


def cluster_facts(session: SparkSession, clusters: Mapping[str, Cluster]) -> DataFrame:
    """Return the groups and settings of each cluster: `schemas.CLUSTER_FACTS`."""
    names = session.createDataFrame(pa.table({"cluster": pa.array([*clusters], pa.string())}))
    asked = a_task_each(names, clusters)

    def facts(rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            yield from _facts(clusters[row["cluster"]])

    return on_rows(asked, facts, CLUSTER_FACTS)


def _facts(cluster: Cluster) -> Iterator[Row]:
    try:
        with Connection(cluster) as connection:
            settings = read_expiry_settings(connection)
            groups, problems = list_groups(connection)
            # Offsets of topics that are hidden are in the offsets topic all the same.
            hidden = [one for one in find_hidden(connection) if one.what != HIDDEN_COMMITS]
    except ToolkitError as exc:
        yield {"cluster": cluster.name, "problem": str(exc)}
        return
    listed = [
        {
            "group": group.group_id,
            "type": str(group.type),
            "state": str(group.state),
            "protocol_type": group.protocol_type,
        }
        for group in groups
        if not cluster.policy.ignores(group.group_id)
    ]
    yield {
        "cluster": cluster.name,
        "listed": pack(pa.Table.from_pylist(listed, schema=pa.schema(LISTED))),
        "retention_s": settings.retention_s,
        "check_interval_s": settings.check_interval_s,
        "complete": not problems and not hidden,
    }
    for problem in (*problems, *hidden):
        yield {"cluster": cluster.name, "problem": f"{problem.what}: {problem.why}"}
