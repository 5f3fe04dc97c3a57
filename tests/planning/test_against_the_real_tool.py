"""
What a reset leaves committed, case by case as kafka-consumer-groups 4.3.1 was measured.

The group g has committed 50 in the three partitions of topic ta, each with 100 records. A plan that
is blocked changes nothing. What the tool itself leaves, and why ours differs, is in
tests/differential/test_resets.py, where it runs; the ids are the same there. Times are in
changes/test_reset.py; flags, files and texts are read elsewhere, before anything is planned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from facts import idle, live, member, snapshot

from toolkit.errors import UsageError
from toolkit.model import Commit, Group, GroupType, Snapshot, TopicPartition
from toolkit.plan import Plan
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.targets import (
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    from_offsets,
)

EMPTY = idle()
LOG_END = 100
PLACES = tuple(TopicPartition("ta", number) for number in range(3))
Offsets = tuple[int | None, ...]


@dataclass(frozen=True)
class Case:
    """One reset: what was asked of which facts, what is committed afterwards, and the findings."""

    ids: str
    target: Target
    after: Offsets
    findings: tuple[str, ...] = ()
    committed: Offsets = (50, 50, 50)
    log_starts: tuple[int, ...] = (0, 0, 0)
    log_end: int = LOG_END
    topics: tuple[str, ...] = ("ta",)
    groups: tuple[str, ...] = ("g",)
    group: Group = EMPTY


def rows(*offsets: int, group: str | None = None) -> Target:
    """Return the target of a file with one row for each partition."""
    numbered = enumerate(offsets)
    return from_offsets({(group, TopicPartition("ta", n)): o for n, o in numbered}, source="file")


STAYS, AT_START, AT_END = (50, 50, 50), (0, 0, 0), (100, 100, 100)
FIRST_CUT = (40, 0, 0)
DELETED, CLAMPED, NO_COMMIT = "before-log-start", "clamped", "no-commit"
ONE_NEW = (50, None, 50)
KIP848 = replace(EMPTY, type=GroupType.CONSUMER)

CASES = (
    Case("R01", ToEarliest(), AT_START),
    Case("R05", ToOffset(20), (20, 20, 20)),
    Case("R06", ToOffset(5), (40, 5, 5), (DELETED,), log_starts=FIRST_CUT),
    Case("R07", ToOffset(1000), AT_END, (CLAMPED,) * 3),
    Case("R09", ShiftBy(10), (60, 60, 60)),
    Case("R10", ShiftBy(-10), (40, 40, 40)),
    Case("R11", ShiftBy(-1000), AT_START, (CLAMPED,) * 3),
    Case("R12", ShiftBy(1000), AT_END, (CLAMPED,) * 3),
    Case("R13", ShiftBy(10), (60, None, 60), (NO_COMMIT,), committed=ONE_NEW),
    Case("R14", ShiftBy(-10), (100, 40, 40), (CLAMPED,), committed=(500, 50, 50)),
    Case("R14b", ShiftBy(5), (40, 55, 55), (DELETED,), (10, 50, 50), log_starts=FIRST_CUT),
    Case("R23", ToCurrent(), STAYS),
    Case("R23b", ToCurrent(), ONE_NEW, (NO_COMMIT,), committed=ONE_NEW),
    Case("R23c R23d", ToCurrent(), (40, 100, 50), (), (10, 500, 50), log_starts=FIRST_CUT),
    Case("R24 R25", rows(7, 8, 9), (7, 8, 9), topics=()),
    Case("R28", rows(7, 8, 9, 1), STAYS, ("no-such-partition",), topics=()),
    Case(
        *("R29 R29b", rows(10, 1000, 50), (40, 100, 50), (DELETED, CLAMPED)),
        topics=(),
        log_starts=FIRST_CUT,
    ),
    Case("R30", rows(7, 8, 9, group="x"), STAYS, ("other-groups", "no-row"), topics=()),
    Case("R36b", rows(7, 8, 9), (7, 50, 50), ("other-partitions",), topics=("ta:0",)),
    Case("R39 R45b", ToEarliest(), (0, None, 0), committed=ONE_NEW, topics=()),
    Case("R39b", ToLatest(), (None,) * 3, (NO_COMMIT,), (None,) * 3, topics=()),
    Case("R39c", ToLatest(), (100, None, 100), (NO_COMMIT,), committed=ONE_NEW),
    Case("R40", ToEarliest(), (0, 0, 50), topics=("ta:0,1",)),
    # The tool resets the idle one; what cannot be done blocks the plan, and the exit code says so.
    Case("R43", ToLatest(), STAYS, ("group-live",), groups=("g", "busy")),
    Case("R55", ToOffset(33), (33, 33, 33), group=KIP848),
    Case("R57", ToOffset(10), (10, 50, 50), topics=("ta:0",), log_end=11),
)


def facts(case: Case) -> Snapshot:
    """Return the snapshot that a case is about."""
    committed = zip(PLACES, case.committed, strict=True)
    commits = [Commit("g", *place, offset) for place, offset in committed if offset is not None]
    commits += [Commit("busy", *place, 50) for place in PLACES]
    logs = {p: (n, case.log_end) for p, n in zip(PLACES, case.log_starts, strict=True)}
    groups = case.group, live("busy", member("ta"))
    return snapshot(*groups, commits=tuple(commits), logs=logs)


def committed_after(case: Case, plan: Plan) -> Offsets:
    """Return what is committed in ta after a plan; one that is blocked changes nothing."""
    after = list(case.committed)
    for _, change in () if any(finding.blocks for finding in plan.findings) else plan.changes:
        assert change.after is not None
        after[change.partition.partition] = change.after.offset
    return tuple(after)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.ids)
def test_a_reset_beside_the_real_tool(case: Case) -> None:
    """A plan leaves these offsets, and reports by rule what it clamped, skipped or refused."""
    plan = plan_reset(facts(case), case.target, groups=case.groups, topics=case.topics)

    assert case.after == committed_after(case, plan)
    assert case.findings == tuple(finding.rule for finding in plan.findings)


def test_a_negative_offset_is_refused() -> None:
    """R08: the tool resets to 0."""
    with pytest.raises(UsageError, match="negative"):
        ToOffset(-5)
