"""One embedded Spark session for all tests of a process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from toolkit.spark.spark_session import start_session


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    """Return an embedded Spark session, which commands in this process use as well."""
    started = start_session()
    started.conf.set("spark.sql.shuffle.partitions", "2")  # there are few rows
    yield started
    started.stop()
