"""
Run Spark once and keep the classes that it has loaded: `python -m toolkit.spark.run_once FILE`.

It is a process of its own, because a JVM writes its archive when it ends: see `class_archive`.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from pyspark import SparkContext

from toolkit.errors import ToolkitError
from toolkit.model import Cluster
from toolkit.spark.class_archive import SILENT
from toolkit.spark.fleet_lag import fleet_lag
from toolkit.spark.spark_session import start_session


def main(file: str) -> None:
    """Run the fleet job on a cluster that does not exist, and wait until the JVM has ended."""
    session = start_session(jvm_options=(f"-XX:ArchiveClassesAtExit={file}", *SILENT))
    with (
        fleet_lag(session, [Cluster("nobody", "127.0.0.1:1", timeout_s=1)]) as result,
        suppress(ToolkitError),
    ):
        result.to_pandas()
    session.stop()
    gateway = SparkContext._gateway  # noqa: SLF001 - there is no other way to wait for its JVM
    if gateway:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
