"""Exit codes. There is a real process for each code, here or where its claim needs one."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from applications import Applications
from main_program import Command, rows_of
from operators import Operator

from toolkit.kafka_io import read_snapshot
from toolkit.kafka_io.groups import listing
from toolkit.model import Problem, TopicPartition, Unread
from toolkit.plan import Position
from toolkit.planning.changes.targets import ToOffset

HEALTH = ("health", "--sample-interval", "1s")
DOWN = "127.0.0.1:1"
FLEET_OF_ONE = f"clusters:\n  us:\n    bootstrap.servers: {DOWN}\n"
FLEET_OF_TWO = f"{FLEET_OF_ONE}  eu:\n    bootstrap.servers: {DOWN}\n"


def only_error(done: CompletedProcess[str]) -> str:
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "Try: " in line
    return line


@pytest.mark.parametrize("command", [("lag", "--quiet"), HEALTH], ids=" ".join)
def test_unreachable_cluster(
    offsetbook_main: Command, down: Path, command: tuple[str, ...]
) -> None:
    """When no cluster answers the command has failed, which --quiet does not hide."""
    done = offsetbook_main(*command, fleet=down)

    assert done.returncode == 1
    assert "at 127.0.0.1:1: cannot connect" in only_error(done)


@pytest.mark.parametrize("command", [("groups", "list"), HEALTH], ids=" ".join)
def test_one_of_two_clusters_is_down(
    offsetbook: Command, half_down: Path, command: tuple[str, ...]
) -> None:
    """When one cluster answers its rows are there, the other is one error, and the code says so."""
    done = offsetbook(*command, "--output", "csv", fleet=half_down)

    assert done.returncode == 4
    assert {row["cluster"] for row in rows_of(done)} == {"eu"}
    assert 1 == done.stderr.count("connecting to cluster us")


def test_clusters_shows_a_cluster_that_is_down(offsetbook: Command, half_down: Path) -> None:
    """The table has a row for it, with the reason."""
    done = offsetbook("clusters", "--output", "csv", fleet=half_down)
    rows = {row["cluster"]: row for row in rows_of(done)}

    assert done.returncode == 4
    assert "cannot connect" in rows["us"]["problem"]
    assert rows["us"]["groups"] == ""
    assert rows["eu"]["problem"] == ""
    assert int(rows["eu"]["groups"]) > 10


@pytest.mark.parametrize(
    "command",
    [("groups", "describe", "nope"), ("lag", "--group", "nope*"), ("health", "--group", "nope")],
    ids=" ".join,
)
def test_unknown_group(offsetbook_main: Command, fleet: Path, command: tuple[str, ...]) -> None:
    """A group that was named and is nowhere is a failure, with where names can be seen."""
    done = offsetbook_main(*command, fleet=fleet)

    assert done.returncode == 1
    assert "group nope" in only_error(done)


@pytest.mark.parametrize(
    "arguments",
    [
        ("lag", "--group", "payments", "--group", "nope"),
        ("groups", "describe", "payments", "nope"),
        (*HEALTH, "--group", "payments", "--group", "nope"),
    ],
    ids=" ".join,
)
def test_one_of_two_groups_is_unknown(
    offsetbook_main: Command, fleet: Path, arguments: tuple[str, ...]
) -> None:
    """When one of the named groups exists its rows are there, and the other is an error."""
    done = offsetbook_main(*arguments, "--output", "csv", fleet=fleet)

    assert done.returncode == 4
    assert {"payments"} == {row["group"] for row in rows_of(done)}
    assert 1 == done.stderr.count("group nope in cluster")


def test_missing_fleet_file(offsetbook: Command, tmp_path: Path) -> None:
    """A fleet file that is not there is a usage error that says how to get one."""
    done = offsetbook("lag", fleet=tmp_path / "none.yaml")

    assert done.returncode == 2
    assert "sandbox up" in only_error(done)


@pytest.mark.parametrize(
    ("arguments", "fleet_file", "says"),
    [
        (("--bogus",), FLEET_OF_ONE, "Error: "),
        (("lag", "--by", "topic"), FLEET_OF_ONE, "Error: "),
        (("lag", "--output", "xml"), FLEET_OF_ONE, "Error: "),
        (("groups", "list", "--state", "Bogus"), FLEET_OF_ONE, "Error: "),
        (("lag", "--cluster", "su"), FLEET_OF_ONE, "cluster 'su' is not in the fleet file"),
        (
            ("export", "--group", "g", "-"),
            FLEET_OF_TWO,
            "no cluster selected. Try: add --cluster with one of: us, eu",
        ),
        (("lag",), FLEET_OF_ONE.replace(DOWN, "localhost"), "'localhost', which is not host:port"),
        (("clusters",), "clusters:\n  eu:\n    b: c\n", "fleet.yaml, line 3, column 5: unknown"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage(
    offsetbook_main: Command, tmp_path: Path, arguments: tuple[str, ...], fleet_file: str, says: str
) -> None:
    """What cannot be understood, on the command line or in the fleet file, is a usage error."""
    path = tmp_path / "fleet.yaml"
    path.write_text(fleet_file)
    done = offsetbook_main(*arguments, fleet=path)

    assert (2, "") == (done.returncode, done.stdout)
    assert says in (done.stderr if says == "Error: " else only_error(done))


def test_a_chosen_group_shows_the_other_readers_of_its_topic(
    offsetbook_here: Command, fleet: Path
) -> None:
    """Leftovers of one group still tell which other groups need the topic."""
    done = offsetbook_here("unsubscribed", "--group", "billing-v2", "--output", "csv", fleet=fleet)
    rows = rows_of(done)

    assert {row["group"] for row in rows} == {"billing-v2"}
    assert all("payments" in row["other_subscribers"] for row in rows)


@pytest.fixture
def half_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a broker be missing whenever groups are listed."""
    gone = Problem(Unread.GROUPS, "those coordinated by broker 2: it does not answer")
    listed = listing.list_groups
    monkeypatch.setattr(
        read_snapshot, "list_groups", lambda connection: (listed(connection)[0], [gone])
    )


@pytest.mark.usefixtures("half_listed")
@pytest.mark.parametrize(
    "command",
    [
        *(("consumer-groups", action) for action in ("--describe", "--paused-partitions")),
        ("export", "-"),
    ],
    ids=" ".join,
)
def test_a_group_that_was_not_listed_may_exist(
    offsetbook_main: Command, fleet: Path, command: tuple[str, ...]
) -> None:
    """If a broker did not list its groups, no group is reported as missing."""
    done = offsetbook_main(*command, "--cluster", "eu", "--group", "nope", fleet=fleet)

    assert (1, "") == (done.returncode, done.stdout)
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert "group nope in cluster eu: not found, but the group list is incomplete" in line
    assert "broker 2" in line


def test_no_unsubscribed_offsets_are_certain_only_if_all_was_read(
    offsetbook_here: Command, fleet: Path, request: pytest.FixtureRequest
) -> None:
    """If a broker did not list its groups, it is not reported that there are none."""
    whole = offsetbook_here("unsubscribed", "--group", "pay*", fleet=fleet)
    request.getfixturevalue("half_listed")
    partial = offsetbook_here("unsubscribed", "--group", "pay*", fleet=fleet)

    none_found = "no unsubscribed offsets found"
    assert (0, True) == (whole.returncode, none_found in whole.stderr)
    assert (4, False) == (partial.returncode, none_found in partial.stderr)


@pytest.mark.usefixtures("half_listed")
def test_a_listing_that_lacks_a_broker_is_not_complete(
    offsetbook_here: Command, fleet: Path
) -> None:
    """When groups could not be listed the command says so, also with --quiet, and exits with 4."""
    done = offsetbook_here("groups", "list", "--quiet", "--output", "csv", fleet=fleet)

    assert done.returncode == 4
    assert "could not read groups of cluster eu: those coordinated by broker 2" in done.stderr


COMMAND = (sys.executable, "-c", "from toolkit.cli import main; main()")


@pytest.fixture
def change(
    operator: Operator, apps: Applications, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, TopicPartition, list[str]]:
    """Return a group that latin-1 cannot write, its partition, and the words of a reset to 3."""
    group = apps.name("\u6d88\u8d39\u8005 \U0001f600")
    place = TopicPartition(apps.create_topic(apps.name("orders"), records=9), 0)
    operator.commit(group, {place: 7})
    approve = operator.session.reset([group], to=ToOffset(3)).fingerprint
    words = ["reset", "--group", group, "--to-offset", "3", "--approve", approve]
    monkeypatch.setenv("OFFSETBOOK_STATE", str(operator.state))
    where = ["--cluster", operator.cluster.bootstrap_servers]
    return group, place, [*words, "--reason", "a test", *where]


def run(
    words: list[str], stdout: int = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=os.environ | environment,
        check=False,
    )


@pytest.mark.parametrize("output", ["table", "json", "csv"])
def test_an_encoding_that_lacks_a_name(
    operator: Operator, change: tuple[str, TopicPartition, list[str]], output: str
) -> None:
    """JSON has escapes, CSV is UTF-8, people see a sign; the run is named, the exit code is 0."""
    group, place, words = change
    done = run([*words, "--output", output], PYTHONIOENCODING="latin-1")

    assert 0 == done.returncode, done.stderr
    assert b"offsetbook undo" in done.stderr
    assert {group: {place: Position(3, 0)}} == operator.held(group)
    if output == "json":
        assert [group] == [row["group"] for row in json.loads(done.stdout.decode("ascii"))]
    if output == "csv":
        rows = csv.DictReader(io.StringIO(done.stdout.decode("utf-8")))
        assert [group] == [row["group"] for row in rows]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is a file of Linux")
def test_a_disk_that_is_full(
    operator: Operator, change: tuple[str, TopicPartition, list[str]]
) -> None:
    """A reading has failed, in one line; a change is made, with what was not written, and is 0."""
    group, place, words = change
    with Path("/dev/full").open("wb") as full:
        lag = run(["lag", *words[1:3], *words[-2:]], stdout=full.fileno())
        done = run([*words, "--output", "csv"], stdout=full.fileno())

    assert 1 == lag.returncode
    assert b"the output could not be written: No space left on device\n" == lag.stderr
    assert 0 == done.returncode, done.stderr
    assert b"the result could not be written: No space left on device" in done.stderr
    assert b"offsetbook undo" in done.stderr
    assert {group: {place: Position(3, 0)}} == operator.held(group)


@pytest.mark.parametrize("closed", [0, 1, 2])
@pytest.mark.parametrize("output", ["table", "json"])
def test_a_stream_that_is_closed(
    operator: Operator, change: tuple[str, TopicPartition, list[str]], closed: int, output: str
) -> None:
    """The change is made, the exit code reports it, and messages go to the other stream."""
    group, place, words = change
    shell = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *COMMAND, *words, "--output", output]
    done = subprocess.run(shell, capture_output=True, stdin=subprocess.DEVNULL, check=False)

    assert 0 == done.returncode, done.stderr
    assert (closed == 2) is (b"offsetbook undo" not in done.stderr)
    assert {group: {place: Position(3, 0)}} == operator.held(group)
