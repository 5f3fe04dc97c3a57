import re
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from idle_groups import idle_group
from main_program import Command, rows_of

from toolkit.model import Cluster, GroupState
from toolkit.sandbox.broker import start_broker
from toolkit.sandbox.seed import GROUPS, SeededGroup
from toolkit.storage.known_groups import group_names

IDS = {group.group_id for group in GROUPS}
LEFTOVERS = {("billing", "invoices.draft"), ("billing-v2", "orders.confirmed")}
COMMANDS = {
    "clusters": ("clusters",),
    "groups list": ("groups", "list"),
    "groups describe": ("groups", "describe"),
    "lag": ("lag",),
    "lag by partition": ("lag", "--by", "partition"),
    "unsubscribed": ("unsubscribed",),
}


@pytest.mark.parametrize("output", ["json", "csv"])
@pytest.mark.parametrize("name", COMMANDS)
def test_machine_readable(offsetbook_here: Command, fleet: Path, name: str, output: str) -> None:
    """Every reading command writes JSON and CSV that parse; words can be turned off."""
    quiet = () if name == "clusters" else ("--quiet",)  # which has no words
    done = offsetbook_here(*COMMANDS[name], *quiet, "--output", output, fleet=fleet)
    rows = rows_of(done)

    assert (0, "") == (done.returncode, done.stderr)
    assert rows
    assert all(row["cluster"] == "eu" for row in rows)
    assert all(None not in row for row in rows)


@pytest.mark.parametrize("name", COMMANDS)
def test_table(offsetbook: Command, offsetbook_here: Command, fleet: Path, name: str) -> None:
    """As a table every row is one line under its headings, without colour in a pipe."""
    run = offsetbook if name == "groups list" else offsetbook_here  # one with a real pipe
    done = run(*COMMANDS[name], fleet=fleet)
    lines = done.stdout.splitlines()

    assert done.returncode == 0, done.stderr
    assert lines[0].startswith("cluster ")
    assert all(line.startswith("eu ") for line in lines[1:])
    assert len(lines) > 1
    assert "\x1b" not in done.stdout + done.stderr


def test_a_whole_listing_is_kept_for_completion(
    offsetbook_here: Command,
    fleet: Path,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A shell completes the groups of the last whole listing; one of some groups is not kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    known = []
    for options in (("--group", "payments"), (), ("--group", "payments")):
        offsetbook_here("lag", "--quiet", *options, fleet=fleet)
        known.append(set(group_names(cluster.bootstrap_servers)))

    assert [set(), IDS, IDS] == known


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), lambda _: True),
        (("--state", "empty"), lambda g: g.state is GroupState.EMPTY),
        (("--type", "SHARE"), lambda g: g.type == "share"),
        (("--type", "streams", "--state", "Empty"), lambda _: False),
        (("--group", "billing*", "--group", "payments"), lambda g: g.group_id[:3] in "bilpay"),
    ],
    ids=["all", "state", "type", "both", "group"],
)
def test_filters(
    offsetbook_here: Command,
    fleet: Path,
    options: tuple[str, ...],
    wanted: Callable[[SeededGroup], bool],
) -> None:
    """The list has each group of each type; filters combine, whatever the case of their values."""
    done = offsetbook_here("groups", "list", *options, "--output", "json", fleet=fleet)

    # Others may have groups on the cluster, too.
    types = {row["group"]: row["type"] for row in rows_of(done) if row["group"] in IDS}

    assert types.keys() == {g.group_id for g in GROUPS if wanted(g)}
    assert done.returncode == 0
    if not options:
        assert {*types.values()} == {"classic", "consumer", "simple", "share", "streams"}


@pytest.mark.parametrize("option", [(), ("--group",)])
def test_describe_by_hostile_name(
    offsetbook_here: Command, fleet: Path, option: tuple[str, ...]
) -> None:
    """A group is described by its name even where that is markup, with its commit times."""
    name = "<img src=x onerror=alert(1)>"
    done = offsetbook_here("groups", "describe", *option, name, "--output", "json", fleet=fleet)
    rows = rows_of(done)

    assert {row["group"] for row in rows} == {name}
    assert all(row["owner"].startswith('"><script>') for row in rows)
    assert f"group {name}: type classic, state Stable, 1 member" in done.stderr


def test_unsubscribed_finds_the_leftovers(offsetbook_here: Command, fleet: Path) -> None:
    """Exactly the seeded leftovers are found; the groups left out are named with the reason."""
    done = offsetbook_here("unsubscribed", "--output", "json", fleet=fleet)

    assert {(row["group"], row["topic"]) for row in rows_of(done)} == LEFTOVERS
    assert "group connect-warehouse: not a consumer group" in done.stderr
    assert "group nightly-export: group is Empty" in done.stderr


@pytest.fixture(scope="module")
def empty_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    broker = start_broker(tmp_path_factory.mktemp("empty"))
    yield broker.address
    broker.stop()


@pytest.mark.starts("a broker")
@pytest.mark.parametrize("name", COMMANDS)
def test_empty_cluster(offsetbook_here: Command, empty_cluster: str, name: str, down: Path) -> None:
    """
    A cluster without groups is read without complaint: headings, no row, exit code 0.

    It is named by its address, and is not in the fleet file.
    """
    address = ("--cluster", empty_cluster, "--output", "csv")
    done = offsetbook_here(*COMMANDS[name], *address, fleet=down)

    assert done.returncode == 0
    assert len(rows_of(done)) == (1 if name == "clusters" else 0)
    assert done.stdout.startswith("cluster,")
    assert "Warning" not in done.stderr


def test_empty_and_full_cluster_together(
    offsetbook_here: Command, fleet_of: Callable[..., Path], empty_cluster: str, cluster: Cluster
) -> None:
    """An empty cluster beside a full one neither warns nor changes the types of the columns."""
    both = fleet_of(new=empty_cluster, eu=cluster.bootstrap_servers)
    done = offsetbook_here("lag", "--by", "partition", "--output", "json", fleet=both)
    rows = rows_of(done)

    assert done.stderr == ""
    assert {row["cluster"] for row in rows} == {"eu"}
    assert all(isinstance(row["committed"], int | None) for row in rows)


@pytest.mark.since("4.2")
def test_lag_of_a_share_group(offsetbook_here: Command, fleet: Path) -> None:
    """It has no row, and that is said where it is named."""
    done = offsetbook_here("lag", "--group", "share-pickers", "--output", "json", fleet=fleet)

    assert (0, []) == (done.returncode, rows_of(done))
    assert "share groups have no committed offsets: share-pickers" in done.stderr


@pytest.mark.since("4.2")
def test_export_of_a_share_group(offsetbook_here: Command, fleet: Path) -> None:
    """It has nothing to save, which is said, with what shows its positions."""
    words = ("--cluster", "eu", "--group", "share-pickers", "--group", "billing", "-")
    done = offsetbook_here("export", *words, fleet=fleet)

    assert 0 == done.returncode
    assert re.search("saved [0-9]+ offsets of 1 group in stdout", done.stderr)
    assert "share groups have no committed offsets: share-pickers. 'kafka-share-" in done.stderr


def test_lag_of_a_group_without_offsets(
    offsetbook_here: Command, fleet_of: Callable[..., Path], apps: Any
) -> None:
    """A named group whose topic was re-created has no row, and the reasons for that are given."""
    group, (place,) = idle_group(apps, 2)
    apps.delete_topic(place.topic)
    apps.create_topic(place.topic, records=3)
    fleet = fleet_of(eu=apps.address)

    def asked(*more: str) -> CompletedProcess[str]:
        return offsetbook_here("lag", "--group", group, "--output", "json", *more, fleet=fleet)

    apps.eventually(lambda: rows_of(asked()) == [])
    done = asked()
    assert 0 == done.returncode
    assert f"no committed offsets: {group} (none was committed, they expired" in done.stderr
    assert "" == asked("--quiet").stderr
