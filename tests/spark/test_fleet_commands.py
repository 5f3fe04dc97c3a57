"""`offsetbook fleet-lag` and `fleet-history`, on a real broker."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from applications import Applications
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from toolkit.cli import cli
from toolkit.errors import NotFound, UsageError
from toolkit.model import TopicPartition
from toolkit.spark.columns import MEANING
from toolkit.spark.fleet_options import FleetOptions
from toolkit.spark.schemas import RESULTS

Invoke = Callable[..., Result]


@pytest.fixture
def group(exclusive_apps: Applications) -> str:
    apps = exclusive_apps
    topic = apps.create_topic(apps.name("fleet-orders"), records=5)
    name = apps.name("fleet-<b>payments</b>")
    apps.commit(name, {TopicPartition(topic, 0): 2})
    return name


@pytest.fixture
def invoke(
    exclusive_apps: Applications,
    tmp_path: Path,
    session: SparkSession,  # noqa: ARG001 - the commands run in it
) -> Invoke:
    """Return a function that runs a command on the cluster: problems of others change its exit."""
    fleet, address = tmp_path / "fleet.yaml", exclusive_apps.address
    fleet.write_text(f"clusters:\n  quiet:\n    bootstrap.servers: {address}\n")
    runner = CliRunner()
    return lambda *words: runner.invoke(
        cli, [word.replace("FLEET", str(fleet)) for word in words], catch_exceptions=True
    )


def test_fleet_lag_shows_groups_and_keeps_a_history(
    invoke: Invoke, group: str, tmp_path: Path
) -> None:
    """A group has its lag and its word; a run is kept, listed, and left alone by the clean-up."""
    history = str(tmp_path / "history")
    wanted = ("--fleet", "FLEET", "--group", group, "--output", "json")
    done = invoke("fleet-lag", *wanted, "--history", history)

    assert 0 == done.exit_code, done.output
    (row,) = json.loads(done.stdout)
    assert (group, 3, "simple", "Empty") == tuple(
        row[name] for name in ("group", "lag", "type", "state")
    )
    assert row["status"] in {"STOP", "ERR", "OK"}
    (run,) = json.loads(invoke("fleet-history", "runs", history, "--output", "json").stdout)
    assert 0 == invoke("fleet-history", "compact", history).exit_code
    assert 0 == invoke("fleet-history", "expire", history, "--keep-days", "1").exit_code
    kept = json.loads(invoke("fleet-history", "runs", history, "--output", "json").stdout)
    assert [run] == kept


def test_fleet_lag_shows_the_other_results(invoke: Invoke, group: str) -> None:
    """Every result can be shown as a table, names as they are."""
    for show in ("partitions", "activity", "leftovers"):
        done = invoke("fleet-lag", "--fleet", "FLEET", "--show", show)

        assert 0 == done.exit_code, done.output
        assert (group in done.stdout) == (show != "leftovers"), show
    named = ("--group", group, "--output", "json")
    healthy = invoke("fleet-lag", "--fleet", "FLEET", "--show", "leftovers", *named)
    assert (0, []) == (healthy.exit_code, json.loads(healthy.stdout)), healthy.output


def test_a_name_that_no_group_has_is_an_error(invoke: Invoke, group: str) -> None:
    """A misspelt group is not an empty table."""
    done = invoke("fleet-lag", "--fleet", "FLEET", "--group", f"{group}x")

    assert isinstance(done.exception, NotFound)
    assert f"{group}x" in str(done.exception)


def test_a_missing_name_hides_no_row_and_no_problem(
    invoke: Invoke, group: str, tmp_path: Path
) -> None:
    """The other groups are shown, and a cluster that was not read may have the missing one."""
    wanted = ("fleet-lag", "--fleet", "FLEET", "--group", f"{group}x", "--output", "json")
    one = invoke(*wanted, "--group", group)
    with (tmp_path / "fleet.yaml").open("a") as fleet:
        fleet.write("  down:\n    bootstrap.servers: 127.0.0.1:1\n")
    unread = invoke(*wanted)

    assert (4, [group]) == (one.exit_code, [row["group"] for row in json.loads(one.stdout)])
    assert f"no group with committed offsets matches '{group}x'. Try:" in one.stderr
    assert (4, []) == (unread.exit_code, json.loads(unread.stdout))
    assert "cluster down: " in unread.stderr
    assert f"matches '{group}x'; what could not be read may hide it" in unread.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--history", "FLEET"), "is not a folder"),
        (("--history", "FLEET/below"), "is not a folder"),
        (("--window", "3x"), "'3x' is not a duration"),
        (("--master", "sparky"), "'sparky' is not a Spark master"),
    ],
)
def test_invalid_options_are_refused_before_spark_starts(
    tmp_path: Path, words: tuple[str, str], says: str
) -> None:
    """Their cluster, which does not respond, is not asked."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("clusters:\n  none:\n    bootstrap.servers: 127.0.0.1:1\n")
    given = [word.replace("FLEET", str(fleet)) for word in words]
    done = CliRunner().invoke(cli, ["fleet-lag", "--fleet", str(fleet), *given])

    assert isinstance(done.exception, UsageError)
    assert says in str(done.exception)


@pytest.mark.parametrize("wrong", [{"window": "3x"}, {"unused_group_days": -1.0}])
def test_options_of_a_notebook_are_checked_before_it_reads(wrong: dict[str, Any]) -> None:
    """What only a later cell uses is checked with the rest."""
    with pytest.raises(UsageError):
        FleetOptions.parse(**wrong)


def test_every_column_has_a_meaning() -> None:
    """Each column is explained, and no other."""
    told = {field.name for schema in RESULTS.values() for field in schema}

    assert [] == [
        f"{show}.{field.name}"
        for show, schema in RESULTS.items()
        for field in schema
        if field.name not in MEANING
    ]
    assert set(MEANING) - told <= {"protocol_type"}


def test_columns_are_explained() -> None:
    """The command tells without asking any cluster."""
    words = ["fleet-lag", "--help-columns", "--show", "activity", "--output", "json"]
    done = CliRunner().invoke(cli, words)

    assert "expirations" in {row["column"] for row in json.loads(done.stdout)}
