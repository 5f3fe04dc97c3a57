"""
Every mode and scope of a reset, on twins: the real tool on one group, ours on the other.

A case says what the tool leaves committed, what ours does where that differs, and why. The ids are
those of the measured behaviour of kafka-consumer-groups 4.3.1. Rules that object are named: ours is
told to go on, so that what it does can be compared.
"""

import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from kafka_tool import Bench, Offsets

COMMITTED: Offsets = {"ta": (50, 50, 50)}
ON_TSTART: Offsets = {"tstart": (50, 50)}
SKIPS, LOG_BEGINS = ("skips-unread-records",), ("before-log-start",)
NO_PARTITION, NO_GROUP = ("no-such-partition",), ("no-such-group",)


@dataclass(frozen=True)
class Case:
    """One reset, and what it leaves under the tool and under ours."""

    ids: str
    flags: str
    tool: Offsets
    differs: Offsets | None = None  # None: as the tool
    why: str = ""
    rules: tuple[str, ...] = ()  # that object to ours
    code: int = 0
    before: Offsets = field(default_factory=lambda: COMMITTED)
    file: str = ""  # what {file} holds; {group} in it is the group's name
    only_ours: tuple[str, ...] = ()  # flags that the tool does not have


def of_topic(topic: str, *offsets: int | None) -> Offsets:
    return {topic: offsets}


TOPICS = ("ta", "tempty", "tstart", "ttx", "ttxc")
ta, tempty, tstart, ttx, ttxc = (partial(of_topic, topic) for topic in TOPICS)
TO_START, TO_END = ta(0, 0, 0), ta(100, 100, 100)
REFUSED = "a slip of the keyboard: refused, exit 2"
UNCOMMITTED = "where a group without a commit starts is a setting of its consumers"
NEVER_USED = "a topic that the group never used is a slip (--new-topics allows it)"
READABLE = "people write times so"
AS_IS = COMMITTED

MODES = (
    Case("R01", "--topic ta --to-earliest", TO_START),
    Case("R05", "--topic ta --to-offset 20", ta(20, 20, 20)),
    Case("R06", "--topic tstart --to-offset 5", tstart(40, 5), rules=LOG_BEGINS, before=ON_TSTART),
    Case("R07", "--topic ta --to-offset 1000", TO_END, rules=SKIPS),
    Case("R08", "--topic ta --to-offset -5", TO_START, AS_IS, REFUSED, code=2),
    Case("R09", "--topic ta --shift-by 10", ta(60, 60, 60), rules=SKIPS),
    Case("R10", "--topic ta --shift-by -10", ta(40, 40, 40)),
    Case("R11", "--topic ta --shift-by -1000", TO_START),
    Case("R12", "--topic ta --shift-by 1000", TO_END, rules=SKIPS),
    Case(
        "R13",
        "--topic ta --shift-by -10",
        ta(50, None, 50),
        ta(40, None, 40),
        "a partition without a commit does not keep the others from being shifted",
        before=ta(50, None, 50),
    ),
    # A position past the log end may be of an earlier topic, of whose successor nothing was read.
    Case(
        "R14",
        "--topic ta --shift-by -10",
        ta(100, 40, 40),
        rules=SKIPS,
        before=ta(500, 50, 50),
    ),
    Case(
        "R14b",
        "--topic tstart --shift-by 5",
        tstart(40, 55),
        rules=LOG_BEGINS + SKIPS,
        before=tstart(10, 50),
    ),
    Case("R15", "--topic ta --to-datetime 2025-11-20T00:30:00.000", ta(30, 30, 30)),
    Case("R16", "--topic ta --to-datetime 2025-11-20T02:30:00.000+02:00", ta(30, 30, 30)),
    Case("R16b", "--topic ta --to-datetime 2025-11-20T02:30:00.000+0200", ta(30, 30, 30)),
    Case("R17", "--topic ta --to-datetime 2025-11-20T00:30:00.000Z", ta(30, 30, 30)),
    Case("R18", "--topic ta --to-datetime 2025-11-20T05:00:00.000", TO_END, rules=SKIPS),
    Case(
        "R18 --past-end keep",
        "--topic ta --to-datetime 2025-11-20T05:00:00.000",
        TO_END,
        AS_IS,
        "--past-end keep is not a flag of the tool",
        only_ours=("--past-end", "keep"),
    ),
    Case(
        "R18b",
        "--topic ta --to-datetime 2099-01-01T00:00:00.000",
        TO_END,
        AS_IS,
        "an instant that is still to come is a slip",
        rules=("in-the-future",),
        code=3,
    ),
    Case("R19", "--topic ta --to-datetime 2025-01-01T00:00:00.000", TO_START),
    Case(
        "R19b",
        "--topic tempty --to-datetime 2025-11-20T00:30:00.000",
        tempty(0, 0),
        before=tempty(50, 50),
    ),
    Case(
        "R19c",
        "--topic tstart --to-datetime 2025-11-20T00:30:00.000",
        tstart(40, 30),
        rules=LOG_BEGINS,
        before=ON_TSTART,
    ),
    Case("R21", "--topic ta --to-datetime 2025-11-20T00:30:00", AS_IS, ta(30, 30, 30), READABLE),
    Case("R21b", "--topic ta --to-datetime 2025-11-20", AS_IS, TO_START, READABLE),
    Case("R21c", "--topic ta --to-datetime 2025-11-20T00:30:00.000CET", AS_IS, code=2),
    Case("R21d", "--topic ta --to-datetime 2025-11-31T00:30:00.000", AS_IS, code=2),
    Case("R22", "--topic ta --by-duration P1D", TO_END, rules=SKIPS),
    Case("R22b", "--topic ta --by-duration PT0S", TO_END, AS_IS, REFUSED, code=2),
    Case("R22c", "--topic ta --by-duration -PT1H", TO_END, AS_IS, REFUSED, code=2),
    Case("R22d", "--topic ta --by-duration 3650d", AS_IS, TO_START, READABLE),
    Case("R22e", "--topic ta --by-duration P3650D", TO_START),
    Case("R22f", "--topic ta --by-duration P1M", AS_IS, code=2),
    Case("R23", "--topic ta --to-current", AS_IS),
    Case(
        "R23b",
        "--topic ta --to-current",
        ta(50, 100, 100),
        ta(50, None, None),
        UNCOMMITTED,
        before=ta(50, None, None),
    ),
    Case(
        "R23c",
        "--topic tstart --to-current",
        tstart(10, 500),
        tstart(40, 100),
        "an offset outside of the log is what there is to heal",
        rules=SKIPS,
        before=tstart(10, 500),
    ),
    Case(
        "R51",
        "--topic ttx --to-latest",
        ttx(16),
        ttx(11),
        "a read_committed reader behind an open transaction would never see its records",
        rules=SKIPS,
        before=ttx(5),
    ),
    Case("R57", "--topic ttxc --to-offset 10", ttxc(10), before=ttxc(11)),
)

SCOPES = (
    Case("R39", "--all-topics --to-earliest", ta(0, None, None), before=ta(9, None, None)),
    Case(
        "R39, two topics",
        "--all-topics --to-latest",
        {"ta": (100, 100, 100), "tb": (50, None)},
        rules=SKIPS,
        before={"ta": (50, 50, 50), "tb": (1, None)},
    ),
    Case(
        "R39c",
        "--topic ta --to-latest",
        TO_END,
        ta(100, None, None),
        UNCOMMITTED,
        rules=SKIPS,
        before=ta(50, None, None),
    ),
    Case(
        "R39c --new-topics",
        "--topic ta --to-latest",
        TO_END,
        rules=SKIPS,
        before=ta(50, None, None),
        only_ours=("--new-topics",),
    ),
    Case("R40", "--topic ta:0,1 --to-earliest", ta(0, 0, 50)),
    Case(
        "R40, one",
        "--topic ta:1 --topic tb --to-offset 3",
        {"ta": (50, 3, 50), "tb": (3, 3)},
        before={"ta": (50, 50, 50), "tb": (9, 9)},
    ),
    Case("R40b", "--topic nope --to-earliest", AS_IS, rules=NO_PARTITION, code=3),
    Case("R40d", "--topic ta --topic nope --to-earliest", AS_IS, rules=NO_PARTITION, code=3),
    Case("R40c", "--topic ta:99 --to-earliest", AS_IS, rules=NO_PARTITION, code=3),
    Case("R40i", "--topic ta:0,99 --to-earliest", AS_IS, rules=NO_PARTITION, code=3),
    Case("R40e", "--topic ta: --to-earliest", AS_IS, code=2),
    Case("R40f", "--topic ta:x --to-earliest", AS_IS, code=2),
    Case(
        "R40g",
        "--topic ta:0,0 --to-earliest",
        AS_IS,
        ta(0, 50, 50),
        "a partition that is named twice is named",
    ),
    Case("R40h", "--topic ta,tb --to-earliest", AS_IS, code=2),
    Case("R40, a range", "--topic ta:0-1 --to-earliest", AS_IS, ta(0, 0, 50), "ranges save typing"),
    Case(
        "R41",
        "--topic ta --to-latest",
        TO_END,
        {},
        "a misspelt name makes no group",
        rules=NO_GROUP,
        code=3,
        before={},
    ),
    Case("R41c", "--all-topics --to-latest", {}, rules=NO_GROUP, code=3, before={}),
    Case("R46", "--topic ta:0 --all-topics --to-earliest", TO_START, AS_IS, REFUSED, code=2),
    Case(
        "A02, one group",
        "--topic ta:0 --to-offset 33",
        {"ta": (33, None, None), "tb": (9, 9)},
        {"tb": (9, 9)},
        NEVER_USED,
        rules=("topic-never-used",),
        code=3,
        before={"tb": (9, 9)},
    ),
    Case("R45", "--to-earliest", AS_IS, code=2),
    Case("R47", "--topic ta --to-earliest --to-latest", AS_IS, code=2),
    Case("R48", "--topic ta", AS_IS, code=2),
)

FROM_FILE = "--from-file {file}"
FILES = (
    Case("R24", FROM_FILE, ta(7, 8, 50), file="ta,0,7\nta,1,8\n"),
    Case("R25", FROM_FILE, ta(7, 8, 50), file="{group},ta,0,7\n{group},ta,1,8\n"),
    Case(
        "R26",
        FROM_FILE,
        ta(7, 0, 50),
        AS_IS,
        "a line without its offset is a slip, not offset 0",
        code=2,
        file="ta,0,7\nta,1\n",
    ),
    Case("R26b", FROM_FILE, AS_IS, code=2, file="ta,0,7,8,9\n"),
    Case("R27", FROM_FILE, AS_IS, code=2, file="ta,0,many\n"),
    Case("R27b", FROM_FILE, AS_IS, code=2, file="ta,0,-5\n"),
    Case("R27c", FROM_FILE, AS_IS, code=2, file="ta,0,-1\n"),
    Case("R29", FROM_FILE, ta(100, 50, 50), rules=SKIPS, file="ta,0,1000\n"),
    Case(
        "R29b", FROM_FILE, tstart(40, 50), rules=LOG_BEGINS, before=ON_TSTART, file="tstart,0,10\n"
    ),
    Case("R30", FROM_FILE, AS_IS, rules=("no-row",), code=3, file="other,ta,0,7\n"),
    Case("R32", "--from-file /nowhere/at.all", AS_IS, code=2),
    Case("R33", FROM_FILE, AS_IS, code=2, file=" "),
    Case("R33b", FROM_FILE, AS_IS, code=2, file="ta,0,7\n\nta,1,8\n"),
    Case(
        "R34",
        FROM_FILE,
        ta(8, 50, 50),
        AS_IS,
        "which of two lines is meant nobody knows",
        code=2,
        file="ta,0,7\nta,0,8\n",
    ),
    Case("R35", FROM_FILE, AS_IS, code=2, file="topic,partition,offset\nta,0,7\n"),
    Case("R35b", FROM_FILE, AS_IS, code=2, file="# mine\nta,0,7\n"),
    Case("R35c", FROM_FILE, ta(7, 8, 50), file="ta, 0, 7\r\nta,1,8\r\n"),
    Case(
        "R35d",
        FROM_FILE,
        AS_IS,
        ta(7, 50, 50),
        "what Windows puts in front of a text is no part of it",
        file="\ufeffta,0,7\n",
    ),
    Case(
        "R36b",
        f"--topic ta:0 {FROM_FILE}",
        ta(7, 8, 50),
        ta(7, 50, 50),
        "a topic beside a file narrows it",
        file="ta,0,7\nta,1,8\n",
    ),
    Case(
        "R24, a topic of which the group has nothing",
        FROM_FILE,
        {"ta": (50, 50, 50), "tb": (7, None)},
        AS_IS,
        NEVER_USED,
        rules=("topic-never-used",),
        code=3,
        file="tb,0,7\n",
    ),
)


@pytest.mark.parametrize("case", [*MODES, *SCOPES, *FILES], ids=lambda case: case.ids)
def test_twins(case: Case, bench: Bench, tmp_path: Path) -> None:
    """Both tools leave the same offsets, or differ for the reason beside the case."""
    theirs, mine = bench.new_group(case.before), bench.new_group(case.before)
    bench.tool("--reset-offsets", *_flags(case, theirs, tmp_path / "theirs.csv"), "--execute")
    overrides = [flag for rule in case.rules for flag in ("--override", rule)]
    done = bench.ours(
        *("--reset-offsets", *_flags(case, mine, tmp_path / "mine.csv"), "--execute"),
        *("--reason", "a test", "--override", "keeps-committing", *case.only_ours),
        *(overrides if case.code == 0 else ()),
    )
    left = bench.held(theirs), bench.held(mine)
    bench.delete(theirs, mine)

    assert case.code == done.code, done.err
    assert (case.tool, case.tool if case.differs is None else case.differs) == left
    assert (case.differs is not None, bool(case.why)) == (left[0] != left[1],) * 2
    assert set(case.rules) == set(re.findall(r"^block: ([\w-]+)", done.err, re.MULTILINE))


def _flags(case: Case, group: str, file: Path) -> list[str]:
    if case.file:
        # Written as it is: the ends of lines are part of the case.
        file.write_bytes(case.file.replace("{group}", group).encode())
    return ["--group", group, *case.flags.replace("{file}", str(file)).split()]


def test_every_case_is_named_once() -> None:
    """Each case stands for one measured behaviour."""
    ids = [case.ids for case in (*MODES, *SCOPES, *FILES)]

    assert sorted(set(ids)) == sorted(ids)


def test_metadata_goes_with_its_offset_r58(bench: Bench) -> None:
    """Both erase what applications keep beside an offset that moves."""
    theirs, mine = (bench.new_group(COMMITTED, metadata="mine") for _ in range(2))
    flags = ("--topic", "ta", "--to-offset", "20", "--execute")
    bench.tool("--reset-offsets", "--group", theirs, *flags)
    reason = ("--reason", "a test", "--override", "keeps-committing")
    bench.ours("--reset-offsets", "--group", mine, *flags, *reason)

    assert bench.held(theirs) == bench.held(mine) == ta(20, 20, 20)
    assert {""} == bench.metadata(theirs) == bench.metadata(mine)
    bench.delete(theirs, mine)
