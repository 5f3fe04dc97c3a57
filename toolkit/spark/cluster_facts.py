"""
What coordinators and brokers say of their groups, which the offsets topic does not tell.

Each cluster is asked once, in one task. What it does not answer is a problem in its own rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from toolkit.errors import ToolkitError
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.group_settings import read_expiry_settings
from toolkit.kafka_io.listing import list_groups
from toolkit.model import Cluster
from toolkit.spark.schemas import CLUSTER_FACTS, as_spark, schema


def listed_groups(session: SparkSession, clusters: Mapping[str, Cluster]) -> DataFrame:
    """Return the groups and settings of each cluster: `schemas.CLUSTER_FACTS`."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name in batch.column("cluster").to_pylist():
                rows = list(_listed(clusters[name]))
                yield pa.RecordBatch.from_pylist(rows, schema=schema(*CLUSTER_FACTS))

    names = session.createDataFrame([(name,) for name in clusters], "cluster string")
    return names.repartition(len(clusters), "cluster").mapInArrow(
        read, as_spark(schema(*CLUSTER_FACTS))
    )


def _listed(cluster: Cluster) -> Iterator[dict[str, Any]]:
    try:
        with Connection(cluster) as connection:
            settings = read_expiry_settings(connection)
            groups, problems = list_groups(connection)
    except ToolkitError as exc:
        yield {"cluster": cluster.name, "complete": False, "problem": str(exc)}
        return
    yield {
        "cluster": cluster.name,
        "retention_s": settings.retention_s,
        "check_interval_s": settings.check_interval_s,
        "complete": not problems,
    }
    for problem in problems:
        yield {"cluster": cluster.name, "problem": f"{problem.what}: {problem.why}"}
    for group in groups:
        yield {
            "cluster": cluster.name,
            "group": group.group_id,
            "type": str(group.type),
            "state": str(group.state),
            "protocol_type": group.protocol_type,
        }
