"""How every group of every cluster is doing, from one Spark job over their offsets topics."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from toolkit.errors import require_all
from toolkit.journeys.cluster_access import find_clusters
from toolkit.journeys.open_next_step import open_or_show
from toolkit.model.plurals import counted
from toolkit.report.fleet_report import FleetReport
from toolkit.report.progress_line import progress_line
from toolkit.spark.fleet_lag import fleet_lag
from toolkit.spark.fleet_options import FleetOptions
from toolkit.spark.history import read_lag_history
from toolkit.spark.java import find_java
from toolkit.spark.spark_session import OnStep, start_session

OPTIONS = FleetOptions()


def fleet(
    clusters: Sequence[str] = (),
    *,
    fleet_file: Path | str | None = None,
    options: FleetOptions = OPTIONS,
    spark_master: str = "",
    on_step: OnStep = lambda _: None,
) -> FleetReport:
    """
    Read clusters, by name or HOST:PORT, or the whole fleet, with Spark.

    `spark_master` is a Spark master; without one, Spark runs in this process. `on_step` gets the
    current step as text. Read errors are rows in `frames.problems`. Raises UsageError,
    PrerequisiteMissing without Java, SeveralMissing, and ClusterUnreachable if no cluster could be
    read.
    """
    find = partial(find_clusters, clusters, Path(fleet_file) if fleet_file else None)
    require_all(find, find_java)  # both at once, and before Spark starts
    chosen = find()
    with progress_line(f"reading {counted(len(chosen), 'cluster')}") as show_step:

        def step(words: str) -> None:
            show_step(words)
            on_step(words)

        step("starting Spark")
        spark = start_session(spark_master or None)
        with fleet_lag(spark, chosen, options, on_step=step) as result:
            return FleetReport(
                result.clusters,
                result.taken_at,
                result.to_pandas(),
                partial(read_lag_history, url, until=result.taken_at)
                if (url := options.history)
                else None,
                str(fleet_file or ""),
                open_or_show,
            )
