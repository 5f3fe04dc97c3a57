"""The Spark session that the fleet job runs in."""

from pyspark.sql import SparkSession


def test_workers_import_nothing_from_the_working_directory(session: SparkSession) -> None:
    """Python's workers are started in the folder where the caller stands, which is not trusted."""

    def import_path(_: int) -> tuple[bool, bool]:
        import sys  # noqa: PLC0415 - in the worker

        return bool(sys.flags.safe_path), "" in sys.path

    assert [(True, False)] == session.sparkContext.parallelize([0], 1).map(import_path).collect()
