"""Resets of every kind of idle group, of several at once and of all, and what is exported."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_tool import Bench, Offsets, Ran

COMMITTED: Offsets = {"ta": (50, 50, 50), "tb": (9, None)}
Twins = tuple[list[str], list[str]]  # groups for the real tool, and for ours
KINDS = ("simple", "classic", "consumer")
REASON = ("--execute", "--reason", "a test", "--override", "keeps-committing")
SKIPS = ("--override", "skips-unread-records")
EXPORT = ("--export", "--dry-run")
FILE = "{0},ta,0,7\n{1},ta,0,8\n{2},ta,1,9\n"

HALF_PAST = "--to-datetime 2025-11-20T00:30:00.000"
# What both leave in each of the three kinds of group, and what ours needs beside.
MODES: dict[str, tuple[str, Offsets | None, tuple[str, ...]]] = {
    "to-earliest": ("--all-topics --to-earliest", {"ta": (0, 0, 0), "tb": (0, None)}, ()),
    "to-latest": ("--all-topics --to-latest", {"ta": (100, 100, 100), "tb": (50, None)}, SKIPS),
    "to-offset": ("--topic ta:0,1 --to-offset 20", {"ta": (20, 20, 50), "tb": (9, None)}, ()),
    "shift-by": ("--all-topics --shift-by 10", {"ta": (60, 60, 60), "tb": (19, None)}, SKIPS),
    "to-datetime": (f"--topic ta {HALF_PAST}", {"ta": (30, 30, 30), "tb": (9, None)}, ()),
    "by-duration": ("--all-topics --by-duration P3650D", {"ta": (0, 0, 0), "tb": (0, None)}, ()),
    "to-current": ("--all-topics --to-current", COMMITTED, ()),
    "from-file": ("--from-file {file}", None, ()),
}
FROM_FILE: tuple[Offsets, ...] = (
    {"ta": (7, 50, 50), "tb": (9, None)},
    {"ta": (8, 50, 50), "tb": (9, None)},
    {"ta": (50, 9, 50), "tb": (9, None)},
)


def groups_of(names: list[str]) -> list[str]:
    return [word for name in names for word in ("--group", name)]


@pytest.fixture(scope="module")
def twins(bench: Bench, still_apps: Any) -> Iterator[Twins]:
    """Return idle groups of three kinds, for the real tool and for ours."""
    theirs, mine = ([f"{side}-{kind}" for kind in KINDS] for side in ("theirs", "mine"))
    for names in (theirs, mine):
        for name, protocol in zip(names[1:], KINDS[1:], strict=True):
            still_apps.join(name, ["tempty"], protocol=protocol).close()
    yield theirs, mine
    bench.delete(*theirs, *mine)


@pytest.mark.parametrize("mode", MODES)
def test_every_kind_of_group(mode: str, twins: Twins, bench: Bench, tmp_path: Path) -> None:
    """Several groups at once, simple, classic and KIP-848, end where the real tool puts them."""
    flags, wanted, more = MODES[mode]
    for side, names in enumerate(twins):
        for name in names:
            bench.put(name, COMMITTED)
        file = tmp_path / f"{side}.csv"
        file.write_text(FILE.format(*names), "utf-8")
        given = [*groups_of(names), *flags.replace("{file}", str(file)).split()]
        if side == 0:
            bench.tool("--reset-offsets", *given, "--execute")
        else:
            done = bench.ours("--reset-offsets", *given, *REASON, *more)
            assert 0 == done.code, done.err
    theirs, mine = ([bench.held(name) for name in names] for names in twins)

    assert list(FROM_FILE if wanted is None else [wanted] * len(KINDS)) == theirs
    assert theirs == mine


@pytest.fixture
def everybody(bench: Bench, still_apps: Any) -> Iterator[list[str]]:
    """Return two idle groups, one that never used ta, and a live one: all that --all-groups has."""
    names = [bench.new_group(offsets) for offsets in (COMMITTED, COMMITTED, {"tb": (9, 9)})]
    member = still_apps.join("busy", ["tempty"])
    yield [*names, "busy"]
    member.close()
    bench.delete(*names, "busy")


def both_on_all(
    flags: str, before: dict[str, Offsets], bench: Bench
) -> tuple[dict[str, Offsets], dict[str, Offsets], Ran]:
    """Return what groups hold after the real tool and after ours, and how ours ended."""
    left = []
    for run, more in ((bench.tool, ("--execute",)), (bench.ours, REASON)):
        for name, offsets in before.items():
            bench.put(name, offsets)
        done = run("--reset-offsets", "--all-groups", *flags.split(), *more)
        left.append({name: bench.held(name) for name in before})
    theirs, mine = left
    return theirs, mine, done


def test_all_groups_a01(everybody: list[str], twins: Twins, bench: Bench) -> None:
    """All empty groups are reset; offsetbook names the live one, which is not done."""
    before = dict.fromkeys((*everybody, *twins[0], *twins[1]), COMMITTED) | {"busy": {}}
    theirs, mine, done = both_on_all("--all-topics --to-earliest", before, bench)

    assert (4, True) == (done.code, "skipped: busy: it is Stable" in done.err)
    assert {"ta": (0, 0, 0), "tb": (0, None)} == mine[everybody[0]]
    assert theirs == mine


def test_all_groups_a02(everybody: list[str], twins: Twins, bench: Bench) -> None:
    """Kafka's tool commits a topic that the group never used; offsetbook does not."""
    stranger: dict[str, Offsets] = {everybody[2]: {"tb": (9, 9)}}
    before = dict.fromkeys((*everybody, *twins[0], *twins[1]), COMMITTED) | {"busy": {}} | stranger
    theirs, mine, done = both_on_all("--topic ta:0 --to-offset 33", before, bench)

    assert 0 == done.code, done.err
    assert {everybody[2]: {"ta": (33, None, None), "tb": (9, 9)}} == {
        name: offsets for name, offsets in theirs.items() if offsets != mine[name]
    }
    assert stranger[everybody[2]] == mine[everybody[2]]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("mode", ["to-earliest", "to-offset", "to-datetime", "to-current"])
def test_export(groups: int, mode: str, bench: Bench) -> None:
    """The CSV has the tool's rows in its form, sorted; nothing is changed by it."""
    names = [bench.new_group(COMMITTED) for _ in range(groups)]
    given = [*groups_of(names), *MODES[mode][0].split(), *EXPORT]
    told, done = bench.tool("--reset-offsets", *given), bench.ours("--reset-offsets", *given)
    theirs, mine = _rows(told.out), _rows(done.out)

    assert 0 == done.code, done.err
    assert sorted(theirs) == mine
    assert [COMMITTED] * groups == [bench.held(name) for name in names]
    bench.delete(*names)


def _rows(text: str) -> list[list[str]]:
    return [row for row in csv.reader(io.StringIO(text)) if row]


def test_names_are_quoted_r37g(bench: Bench) -> None:
    """A name with a comma is quoted as the tool quotes it, and read back by both."""
    names = ["a b,c", 'say "hi"']
    for name in names:
        bench.put(name, {"ta": (5, None, None)})
    given = [*groups_of(names), "--all-topics", "--to-earliest", *EXPORT]
    told, done = bench.tool("--reset-offsets", *given), bench.ours("--reset-offsets", *given)

    assert (
        sorted(_rows(told.out)) == _rows(done.out) == [[n, "ta", "0", "0"] for n in sorted(names)]
    )
    bench.delete(*names)


def test_each_tool_reads_the_export_of_the_other_r37e(bench: Bench, tmp_path: Path) -> None:
    """What one exports as a backup, the other puts back."""
    group = bench.new_group(COMMITTED)
    given = ("--reset-offsets", "--group", group)
    backup = ("--all-topics", "--to-current", *EXPORT)
    exports = {"theirs": bench.tool(*given, *backup).out, "mine": bench.ours(*given, *backup).out}
    left = []
    for whose, text in exports.items():
        file = tmp_path / f"{whose}.csv"
        # The tool ends with an empty line, which it does not read back itself.
        file.write_text(text.rstrip("\n") + "\n", "utf-8")
        bench.put(group, {"ta": (1, 1, 1), "tb": (1, None)})
        if whose == "mine":
            bench.tool(*given, "--from-file", str(file), "--execute")
        else:
            bench.ours(*given, "--from-file", str(file), *REASON, *SKIPS)
        left.append(bench.held(group))

    assert [COMMITTED, COMMITTED] == left
    bench.delete(group)


def test_rows_of_some_groups_r30b(bench: Bench, tmp_path: Path) -> None:
    """If a file lacks one of two groups, Kafka's tool resets the other; offsetbook neither."""
    sides = [[bench.new_group(COMMITTED) for _ in range(2)] for _ in range(2)]
    codes = []
    ways = ((bench.tool, ("--execute",)), (bench.ours, REASON))
    for (run, more), names in zip(ways, sides, strict=True):
        file = tmp_path / f"{names[0]}.csv"
        file.write_text(f"{names[0]},ta,0,7\nanother,ta,0,8\n", "utf-8")
        given = [*groups_of(names), "--from-file", str(file)]
        codes.append(run("--reset-offsets", *given, *more).code)
    theirs, mine = ([bench.held(name) for name in names] for names in sides)
    bench.delete(*sides[0], *sides[1])

    assert [0, 3] == codes
    assert [{"ta": (7, 50, 50), "tb": (9, None)}, COMMITTED] == theirs
    assert [COMMITTED, COMMITTED] == mine


def test_three_columns_for_two_groups_r31(bench: Bench, tmp_path: Path) -> None:
    """The rows do not name a group: neither changes anything, and offsetbook says why."""
    names = [bench.new_group(COMMITTED) for _ in range(2)]
    file = tmp_path / "offsets.csv"
    file.write_text("ta,0,7\n", "utf-8")
    given = [*groups_of(names), "--from-file", str(file)]
    codes = [
        bench.tool("--reset-offsets", *given, "--execute").code,
        bench.ours("--reset-offsets", *given, *REASON).code,
    ]
    left = [bench.held(name) for name in names]
    bench.delete(*names)

    assert ([0, 2], [COMMITTED, COMMITTED]) == (codes, left)
