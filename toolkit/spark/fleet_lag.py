"""
Lag of every group of every cluster, in one Spark job.

    python -m toolkit.spark.fleet_lag --fleet fleet.yaml --output runs/lag
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from toolkit.errors import ClusterUnreachable, ToolkitError
from toolkit.model import Cluster
from toolkit.spark.session import start_session
from toolkit.spark.sources import CommitSource, clusters_option
from toolkit.spark.transforms import (
    commits_only,
    log_problems_only,
    nullable,
    problems_only,
    summed_by_group,
    with_log_offsets,
    with_record_lag,
)
from toolkit.storage.fleet_file import choose_clusters, load_fleet


@dataclass(frozen=True)
class FleetLag:
    """
    The result: three frames over one reading of the fleet.

    `partitions`: a row for each committed offset (columns: `schemas.PARTITION_LAG`). `groups`: a
    row for each group (`schemas.GROUP_LAG`). `problems`: cluster, problem.
    """

    clusters: tuple[str, ...]
    partitions: DataFrame
    groups: DataFrame
    problems: DataFrame

    def to_pandas(self) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        """
        Collect partitions, groups and problems; integers stay exact and nullable (Int64).

        Raises ClusterUnreachable where not one of the clusters could be read.
        """
        partitions, groups, problems = (
            frame.toArrow().to_pandas(types_mapper=nullable)
            for frame in (self.partitions, self.groups, self.problems)
        )
        if partitions.empty and set(self.clusters) == set(problems["cluster"]):
            raise ClusterUnreachable(
                f"no cluster of {', '.join(self.clusters)} could be read: "
                f"{problems['problem'].iloc[0]}"
            )
        return partitions, groups, problems


@contextmanager
def fleet_lag(session: SparkSession, clusters: Sequence[Cluster]) -> Iterator[FleetLag]:
    """
    Compute the lag of every group that has committed offsets, in the given clusters.

    Both readings are kept for as long as the `with` block lasts: commits must be read before log
    offsets, and a second reading of either would mix two moments.
    """
    source = session.read.format(CommitSource.name()).option("clusters", clusters_option(clusters))
    rows = source.load().persist(StorageLevel.MEMORY_AND_DISK)
    by_name = {cluster.name: cluster for cluster in clusters}
    partitions = (
        rows.transform(commits_only)
        .transform(with_log_offsets(by_name))
        .transform(with_record_lag)
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    try:
        yield FleetLag(
            clusters=tuple(by_name),
            partitions=partitions,
            groups=partitions.transform(summed_by_group),
            problems=rows.transform(problems_only).union(partitions.transform(log_problems_only)),
        )
    finally:
        partitions.unpersist()
        rows.unpersist()


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the job from a shell or spark-submit: print groups, write Parquet if asked.

    Returns 0, or 4 where something could not be read, or an error's exit code.
    """
    parser = argparse.ArgumentParser(prog="fleet_lag", description=__doc__)
    parser.add_argument("--fleet", type=Path, help="the fleet file (default: looked for)")
    parser.add_argument("--cluster", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--output", help="folder or URL for Parquet; must not exist yet")
    parser.add_argument("--master", help="Spark master (default: spark-submit's, or embedded)")
    options = parser.parse_args(arguments)
    try:
        clusters = choose_clusters(load_fleet(options.fleet), options.cluster)
        with fleet_lag(start_session(options.master), clusters) as result:
            result.groups.show(50, truncate=False)
            result.problems.show(50, truncate=False)
            if options.output:
                # Spark's own mode "errorifexists": a report that exists is never written over.
                result.partitions.write.parquet(f"{options.output}/partitions")
                result.groups.write.parquet(f"{options.output}/groups")
                result.problems.write.parquet(f"{options.output}/problems")
            return 4 if result.problems.count() else 0
    except ToolkitError as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code
    except PySparkException as exc:
        sys.stderr.write(f"the Spark job failed: {exc}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
