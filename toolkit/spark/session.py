"""A Spark session: embedded by default, or whatever master the caller names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from toolkit.java import java_home
from toolkit.spark.sources import CommitSource

EMBEDDED = "local[*]"


def start_session(master: str | None = None) -> SparkSession:
    """
    Return the session to run the pipeline in, with our data source registered.

    Without a master, one that spark-submit configured is used, or an embedded one that listens on
    loopback only. Raises PrerequisiteMissing where the embedded one finds no Java.
    """
    builder = SparkSession.builder.appName("offsetbook fleet")
    if master:
        builder = builder.master(master)
    elif "PYSPARK_GATEWAY_PORT" not in os.environ:
        os.environ["JAVA_HOME"] = str(java_home())
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        for name, value in EMBEDDED_SETTINGS.items():
            builder = builder.config(name, value)
    # Workers must run this interpreter, whichever python is first on their path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    session.dataSource.register(CommitSource)
    return session


LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
EMBEDDED_SETTINGS = {
    "spark.master": EMBEDDED,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": (
        "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
        f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    ),
    # A fleet's survivors are few after deduplication; the default of 200 is all overhead.
    "spark.sql.shuffle.partitions": "8",
}
