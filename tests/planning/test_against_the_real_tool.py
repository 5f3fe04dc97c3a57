"""
What kafka-consumer-groups 4.3.1 was measured to do with idle groups, and what a plan does.

The group g has committed 50 in the three partitions of topic ta, each with 100 records, one a
minute from T0 on. A case says what is committed afterwards under our plan and under the real tool;
where the two differ it says why, and where they do not it must not. A plan that is blocked changes
nothing. Left out are cases about flags and files, which are decided before anything is planned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from facts import NOON, idle, live, member, snapshot

from toolkit.errors import UsageError
from toolkit.model import (
    Commit,
    Group,
    GroupType,
    LogOffsets,
    Problem,
    Snapshot,
    TimedOffset,
    TopicPartition,
)
from toolkit.model.times import parse_duration, parse_time
from toolkit.plan import Plan, Severity
from toolkit.planning.changes.offsets_target import from_offsets
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.targets import (
    PastEnd,
    ShiftBy,
    Target,
    ToCurrent,
    ToDatetime,
    ToEarliest,
    ToLatest,
    ToOffset,
)
from toolkit.planning.selection.partition_selection import parse_topic

T0 = datetime(2025, 11, 20, tzinfo=UTC)
EMPTY = idle()
WHOLE = LogOffsets(0, 100, 100)
CUT = LogOffsets(40, 100, 100)

Offsets = tuple[int | None, ...]


@dataclass(frozen=True)
class Case:
    """One measured case: what was asked of which facts, and what both made of it."""

    ids: str
    target: Target
    ours: Offsets
    tool: Offsets | None = None  # None: as ours
    differs: str = ""  # why
    findings: tuple[str, ...] = ()
    committed: Offsets = (50, 50, 50)
    logs: tuple[LogOffsets, ...] = (WHOLE, WHOLE, WHOLE)
    topics: tuple[str, ...] = ("ta",)
    new_topics: bool = False
    groups: tuple[str, ...] = ("g",)
    group: Group = EMPTY
    problems: tuple[Problem, ...] = field(default=())


def at(text: str, past_end: PastEnd = PastEnd.KEEP) -> Target:
    """Return the target for a time as it is written."""
    return ToDatetime(parse_time(text).at, past_end)


def ago(text: str) -> Target:
    """Return the target for a duration as it is written."""
    return ToDatetime(NOON - parse_duration(text), request=f"by-duration {text}")


def rows(*offsets: int, group: str | None = None) -> Target:
    """Return the target of a file with one row for each partition."""
    numbered = enumerate(offsets)
    return from_offsets({(group, TopicPartition("ta", n)): o for n, o in numbered}, source="file")


PAST_END = "a time past the last record is no reason to skip what is unread; the operator chooses"
NO_COMMIT = "where a group without a commit starts is a setting of its consumers"
ALL_OR_NOTHING = "what cannot be done blocks the plan, and the exit code says so"

STAYS, AT_START, AT_END = (50, 50, 50), (0, 0, 0), (100, 100, 100)
FIRST_CUT = (CUT, WHOLE, WHOLE)

CASES = (
    Case("R01", ToEarliest(), AT_START),
    Case("R05", ToOffset(20), (20, 20, 20)),
    Case("R06", ToOffset(5), (40, 5, 5), logs=FIRST_CUT, findings=("before-log-start",)),
    Case("R07", ToOffset(1000), AT_END, findings=("clamped",) * 3),
    Case("R09", ShiftBy(10), (60, 60, 60)),
    Case("R10", ShiftBy(-10), (40, 40, 40)),
    Case("R11", ShiftBy(-1000), AT_START, findings=("clamped",) * 3),
    Case("R12", ShiftBy(1000), AT_END, findings=("clamped",) * 3),
    Case(
        "R13",
        ShiftBy(10),
        (60, None, 60),
        (50, None, 50),
        "one partition without a commit does not fail the others",
        findings=("no-commit",),
        committed=(50, None, 50),
    ),
    Case("R14", ShiftBy(-10), (100, 40, 40), committed=(500, 50, 50), findings=("clamped",)),
    Case(
        "R14b",
        ShiftBy(5),
        (40, 55, 55),
        committed=(10, 50, 50),
        logs=FIRST_CUT,
        findings=("before-log-start",),
    ),
    Case("R15", at("2025-11-20T00:30:00.000"), (30, 30, 30)),
    Case("R16", at("2025-11-20T02:30:00.000+02:00"), (30, 30, 30)),
    Case("R16b", at("2025-11-20T02:30:00.000+0200"), (30, 30, 30)),
    Case("R17", at("2025-11-20T00:30:00.000Z"), (30, 30, 30)),
    Case("R18", at("2025-11-20T05:00:00.000"), STAYS, AT_END, PAST_END, findings=("past-end",) * 3),
    Case(
        "R18 --past-end latest",
        at("2025-11-20T05:00:00.000", PastEnd.LATEST),
        AT_END,
        findings=("past-end",) * 3,
    ),
    Case(
        "R18b",
        at("2099-01-01T00:00:00.000", PastEnd.LATEST),
        STAYS,
        AT_END,
        "an instant that is still to come is a slip",
        findings=("in-the-future",),
    ),
    Case("R19", at("2025-01-01T00:00:00.000"), AT_START),
    Case(
        "R19b",
        at("2025-11-20T00:30:00.000"),
        STAYS,
        AT_START,
        PAST_END,
        findings=("past-end",) * 3,
        logs=(LogOffsets(0, 0, 0),) * 3,
    ),
    Case(
        "R19b --past-end latest",
        at("2025-11-20T00:30:00.000", PastEnd.LATEST),
        AT_START,
        findings=("past-end",) * 3,
        logs=(LogOffsets(0, 0, 0),) * 3,
    ),
    Case(
        "R19c",
        at("2025-11-20T00:30:00.000"),
        (40, 30, 30),
        findings=("before-log-start",),
        logs=FIRST_CUT,
    ),
    Case("R20", at("2025-11-20 00:30"), (30, 30, 30), STAYS, "people write times so"),
    Case("R21", at("2025-11-20T00:30:00"), (30, 30, 30), STAYS, "people write times so"),
    Case("R21b", at("2025-11-20"), AT_START, STAYS, "people write times so"),
    Case("R22", ago("P1D"), STAYS, AT_END, PAST_END, ("past-end",) * 3),
    Case("R22e", ago("P3650D"), AT_START),
    Case("R23", ToCurrent(), STAYS),
    Case(
        "R23b",
        ToCurrent(),
        (50, None, None),
        (50, 100, 100),
        NO_COMMIT,
        findings=("no-commit",),
        committed=(50, None, None),
    ),
    Case(
        "R23c R23d",
        ToCurrent(),
        (40, 100, 50),
        (10, 500, 50),
        "an offset outside the log is what there is to heal",
        committed=(10, 500, 50),
        logs=FIRST_CUT,
    ),
    Case("R24 R25", rows(7, 8, 9), (7, 8, 9), topics=()),
    Case("R28", rows(7, 8, 9, 1), STAYS, findings=("no-such-partition",), topics=()),
    Case(
        "R29 R29b",
        rows(10, 1000, 50),
        (40, 100, 50),
        topics=(),
        logs=FIRST_CUT,
        findings=("before-log-start", "clamped"),
    ),
    Case("R30", rows(7, 8, 9, group="x"), STAYS, findings=("other-groups", "no-row"), topics=()),
    Case(
        "R36b",
        rows(7, 8, 9),
        (7, 50, 50),
        (7, 8, 9),
        "a topic narrows a file too",
        topics=("ta:0",),
        findings=("other-partitions",),
    ),
    Case("R39 R45b", ToEarliest(), (0, None, None), committed=(50, None, None), topics=()),
    Case(
        "R39b", ToLatest(), (None,) * 3, committed=(None,) * 3, topics=(), findings=("no-commit",)
    ),
    Case(
        "R39c",
        ToLatest(),
        (100, None, None),
        AT_END,
        NO_COMMIT,
        findings=("no-commit",),
        committed=(50, None, None),
    ),
    Case("R39c --new-topics", ToLatest(), AT_END, committed=(50, None, None), new_topics=True),
    Case("R40", ToEarliest(), (0, 0, 50), topics=("ta:0,1",)),
    Case(
        "R40b R40d",
        ToEarliest(),
        STAYS,
        topics=("ta", "nope"),
        findings=("no-such-partition",),
        problems=(Problem("topic", "the topic does not exist", None, "nope"),),
    ),
    Case("R40c R40i", ToEarliest(), STAYS, topics=("ta:0,99",), findings=("no-such-partition",)),
    Case(
        "R40g",
        ToEarliest(),
        (0, 50, 50),
        STAYS,
        "a partition named twice is named",
        topics=("ta:0,0",),
    ),
    Case("R41", ToLatest(), STAYS, findings=("no-such-group",), groups=("nope",)),
    Case("R42 R36 R56", ToLatest(), STAYS, findings=("group-live",), group=live("g", member("ta"))),
    Case(
        "R43",
        ToLatest(),
        STAYS,
        AT_END,
        ALL_OR_NOTHING,
        findings=("group-live",),
        groups=("g", "busy"),
    ),
    Case(
        "R51",
        ToLatest(),
        (11, 100, 100),
        (16, 100, 100),
        "a read_committed reader behind an open transaction would never see its records",
        committed=(0, 50, 50),
        logs=(LogOffsets(0, 16, 11), WHOLE, WHOLE),
    ),
    Case(
        "A02",
        ToOffset(33),
        (None, None, None),
        (33, None, None),
        "a topic that the group never committed is a slip until --new-topics says otherwise",
        committed=(None, None, None),
        topics=("ta:0",),
        findings=("topic-never-used",),
    ),
    Case("R55", ToOffset(33), (33, 33, 33), group=replace(EMPTY, type=GroupType.CONSUMER)),
    Case("R57", ToOffset(10), (10, 50, 50), topics=("ta:0",), logs=(LogOffsets(0, 11, 11),) * 3),
)


def facts(case: Case) -> Snapshot:
    """Return the snapshot that a case is about."""
    places = [TopicPartition("ta", number) for number in range(3)]
    commits = [
        Commit("g", *place, offset)
        for place, offset in zip(places, case.committed, strict=True)
        if offset is not None
    ]
    logs = dict(zip(places, case.logs, strict=True))
    commits += [Commit("busy", *place, 50) for place in places]
    made = snapshot(case.group, live("busy", member("ta")), commits=tuple(commits))
    wanted = getattr(case.target, "at", None)
    return replace(
        made,
        logs=logs,
        problems=case.problems,
        at=wanted,
        at_time={place: first_since(wanted, logs[place]) for place in places} if wanted else {},
    )


def first_since(wanted: datetime, log: LogOffsets) -> TimedOffset | None:
    """Return what a broker answers: record i is of T0 + i minutes."""
    assert log.log_start is not None
    assert log.log_end is not None
    offset = max(log.log_start, math.ceil((wanted - T0) / timedelta(minutes=1)))
    if offset >= log.log_end:
        return None
    return TimedOffset(offset, T0 + timedelta(minutes=offset))


def committed_after(case: Case, plan: Plan) -> Offsets:
    """Return what is committed in ta after a plan; one that is blocked changes nothing."""
    if any(finding.severity is Severity.BLOCK for finding in plan.findings):
        return case.committed
    after = list(case.committed)
    for _, change in plan.changes:
        assert change.after is not None
        after[change.partition.partition] = change.after.offset
    return tuple(after)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.ids)
def test_a_reset_beside_the_real_tool(case: Case) -> None:
    """A plan does what the real tool does, or what the reason says, and reports it by rule."""
    plan = plan_reset(
        facts(case), case.target, groups=case.groups, topics=case.topics, new_topics=case.new_topics
    )

    assert case.ours == committed_after(case, plan)
    assert case.findings == tuple(finding.rule for finding in plan.findings)
    assert bool(case.differs) == (case.tool not in {None, case.ours})


def test_a_pending_commit_and_metadata_beside_the_real_tool() -> None:
    """R52: the tool writes over what a transaction is about to commit. R58: both erase metadata."""
    commits = (Commit("g", "ta", 0, 5, pending=True), Commit("g", "ta", 1, 50, metadata="mine"))
    made = snapshot(EMPTY, commits=commits, logs={("ta", n): (0, 100) for n in range(2)})
    plan = plan_reset(made, ToEarliest(), groups=["g"])

    assert [("pending-transaction", 0)] == [(f.rule, f.partition) for f in plan.findings]
    assert ["", ""] == [c.after.metadata for _, c in plan.changes if c.after]


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda: ToOffset(-5), id="R08: resets to 0"),
        pytest.param(lambda: parse_time("2025-11-20T00:30 Europe/Paris"), id="R21c: exit 0"),
        pytest.param(lambda: parse_time("2025-11-31T00:00:00.000"), id="R21d: exit 0"),
        pytest.param(lambda: parse_duration("PT0S"), id="R22b: the log end"),
        pytest.param(lambda: parse_duration("-PT1H"), id="R22c: the log end"),
        pytest.param(lambda: parse_duration("P1M"), id="R22f: exit 0"),
        pytest.param(lambda: rows(-5), id="R27b: refused too"),
        pytest.param(lambda: parse_topic("ta:"), id="R40e: refused too"),
        pytest.param(lambda: parse_topic("ta:x"), id="R40f: refused too"),
        pytest.param(lambda: parse_topic("ta,tb"), id="R40h: exit 0"),
    ],
)
def test_what_is_refused_beside_the_real_tool(ask: Callable[[], object]) -> None:
    """A request that cannot be meant is a usage error, whatever the tool makes of it."""
    with pytest.raises(UsageError):
        ask()
