"""What is shown of groups, row by row beside what the real tool shows."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kafka_tool import Bench

from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, GroupState, TopicPartition

Row = tuple[str, ...]


@pytest.fixture(scope="module")
def groups(bench: Bench, still_apps: Any, applications_until: Any) -> Iterator[list[str]]:
    """Return live groups of both protocols, one with a static member, and idle ones."""
    names = ["live-classic", "live-consumer", "live-static", "left-consumer"]
    with ExitStack() as ending:
        apps = applications_until(still_apps.cluster, ending)
        for name, protocol in (("live-classic", "classic"), ("live-consumer", "consumer")):
            member = apps.join(name, ["ta", "tb"], protocol=protocol)
            position = apps.position(TopicPartition("ta", 0), 5)
            member.commit(offsets=[position], asynchronous=False)
        # It stays in its group when it is closed.
        apps.join("live-static", ["tempty"], **{"group.instance.id": "one"})
        apps.join("left-consumer", ["tempty"], protocol="consumer").close()
        idle = {
            "healthy": {"ta": (50, 50, 50), "tb": (9, None)},
            "lost": {"tstart": (10, 50)},
            "beyond": {"ta": (500, None, None)},
            "at-the-end": {"tempty": (0, 0), "ttxc": (11,)},
            "stable-end": {"ttx": (11,)},
        }
        for name, offsets in idle.items():
            bench.put(name, offsets)
        bench.put("left-consumer", {"tb": (1, None)})
        live = dict.fromkeys(names, GroupState.STABLE) | {"left-consumer": GroupState.EMPTY}
        apps.eventually(lambda: live == states(apps.cluster, names))
        yield [*names, *idle]
    bench.delete(*(name for name in (*names, *idle) if name != "live-static"))


def states(cluster: Cluster, names: list[str]) -> dict[str, GroupState]:
    return {one.group_id: one.state for one in read_snapshot(cluster, groups=names).groups}


def rows_of(text: str) -> list[Row]:
    """Return the rows of all tables, each with its columns' names, sorted."""
    found: list[Row] = []
    heading: Row = ()
    for line in text.splitlines():
        cells = tuple(line.split())
        if cells[:1] == ("GROUP",):
            heading = tuple(line.replace("COORDINATOR (ID)", "COORDINATOR").split())
        elif cells:
            joined = (*cells[:1], " ".join(cells[1:3]), *cells[3:]) if cells[2][0] == "(" else cells
            found.append(tuple(f"{h}={c}" for h, c in zip(heading, joined, strict=True)))
    return sorted(found)


def both(bench: Bench, groups: list[str], *flags: str) -> tuple[list[Row], list[Row]]:
    given = [*flags, *(word for name in groups for word in ("--group", name))]
    told, done = bench.tool("--describe", *given), bench.ours("--describe", *given)
    assert 0 == done.code, done.err
    return rows_of(told.out), rows_of(done.out)


def differing(theirs: list[Row], mine: list[Row]) -> dict[str, tuple[str, str]]:
    assert len(theirs) == len(mine)
    return {
        f"{one[0]} {old}": (old.split("=")[1], new.split("=")[1])
        for one, other in zip(theirs, mine, strict=True)
        for old, new in zip(one, other, strict=True)
        if old != new
    }


@pytest.mark.parametrize("verbose", [(), ("--verbose",)], ids=["plain", "verbose"])
def test_offsets(verbose: tuple[str, ...], bench: Bench, groups: list[str]) -> None:
    """Rows, columns, offsets, owners and lag are the tool's, where it counts records that exist."""
    theirs, mine = both(bench, groups, *verbose)

    assert {"GROUP=beyond LAG=-400": ("-400", "-"), "GROUP=lost LAG=90": ("90", "60")} == differing(
        theirs, mine
    )


# What members are about to get is not read, nor the assignor and epochs of an Empty group.
NOT_READ = {
    "--members": set[str](),
    "--members --verbose": {"live-consumer TARGET-EPOCH", "live-consumer TARGET-ASSIGNMENT"},
    "--state": {"left-consumer ASSIGNMENT-STRATEGY"},
    "--state --verbose": {
        "live-consumer TARGET-ASSIGNMENT-EPOCH",
        "left-consumer ASSIGNMENT-STRATEGY",
        "left-consumer GROUP-EPOCH",
        "left-consumer TARGET-ASSIGNMENT-EPOCH",
    },
}


@pytest.mark.parametrize("flags", NOT_READ)
def test_members_and_states(flags: str, bench: Bench, groups: list[str]) -> None:
    """Members, instance ids, assignments, states and epochs are the tool's, or shown as unknown."""
    shifted = {"live-static"} if flags == "--members --verbose" else set()  # the tool's columns
    theirs, mine = both(bench, [g for g in groups if g not in shifted], *flags.split())
    found = differing(theirs, mine)

    assert NOT_READ[flags] == {cell.split("=")[1] for cell in found}
    assert {"-"} >= {ours for _, ours in found.values()}
    assert flags != "--members" or 3 == len(mine)
    assert flags != "--state" or {"uniform"} == {tool for tool, _ in found.values()}


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--state",),
        ("--type",),
        ("--type", "--state"),
        ("--state", "Empty"),
        ("--state", "stable,EMPTY", "--type", "consumer"),
    ],
    ids=" ".join,
)
def test_list(flags: tuple[str, ...], bench: Bench, groups: list[str]) -> None:
    """The list is the tool's, sorted."""
    theirs, mine = (
        [line.split() for line in run("--list", *flags).out.splitlines() if line]
        for run in (bench.tool, bench.ours)
    )
    heading = 1 if flags else 0

    assert [*theirs[:heading], *sorted(theirs[heading:])] == mine
    assert set(groups) & {row[0] for row in mine}
