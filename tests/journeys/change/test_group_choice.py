"""All idle groups, where not every group could be listed."""

from dataclasses import replace
from pathlib import Path

import pytest
from facts import idle, live, snapshot

from toolkit.errors import BrokerRefused, NotFound
from toolkit.journeys.change.group_choice import ChosenGroups, GroupChoice
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.model import Cluster, Group, Problem, Snapshot, Unread
from toolkit.plan import ConclusionStatus
from toolkit.planning.changes.delete_groups import plan_delete_groups

SILENT = Problem(Unread.GROUPS, "those coordinated by broker 2: it did not answer")
ALL_IDLE = GroupChoice(all_idle=True)


def facts(*groups: Group, problem: Problem | None = None) -> Snapshot:
    return replace(snapshot(*groups), problems=(problem,) if problem else ())


def deletion(chosen: ChosenGroups, folder: Path) -> PlannedChange:
    plan = chosen.with_lacking(plan_delete_groups(chosen.facts, groups=chosen.names))
    access = ClusterAccess(Cluster("eu", "localhost:1"), folder)
    return PlannedChange(access=access, plan=plan, facts=chosen.facts, skipped=chosen.skipped)


@pytest.mark.parametrize(
    ("made", "is_whole"),
    [
        (facts(idle()), True),
        (facts(idle(), problem=SILENT), False),
        (facts(idle(), live("h")), False),
    ],
    ids=["all", "a silent broker", "a live group"],
)
def test_not_all_empty_groups_were_listed(
    made: Snapshot, *, is_whole: bool, tmp_path: Path
) -> None:
    """A broker that listed no groups is named, and the change is not called one of all groups."""
    change = deletion(ALL_IDLE.narrow(made), tmp_path)

    assert (("g",), is_whole) == (change.plan.group_ids, change.is_whole)
    told = [f.rule for f in change.plan.findings if f.rule == "incomplete"]
    assert ["incomplete"] * (SILENT in made.problems) == told


@pytest.mark.parametrize(
    ("problem", "ending"), [(None, ConclusionStatus.DONE), (SILENT, ConclusionStatus.INCOMPLETE)]
)
def test_a_dry_run_ends_incomplete_where_groups_may_be_missing(
    problem: Problem | None, ending: ConclusionStatus, tmp_path: Path
) -> None:
    """A scheduler that reads no more than the exit code hears of it."""
    change = deletion(ALL_IDLE.narrow(facts(idle(), problem=problem)), tmp_path)

    ended = change.decide(dry_run=True).apply()

    assert ending == ended.ending


def test_no_empty_group_was_listed() -> None:
    """That there is none is reported only if all groups were listed."""
    with pytest.raises(NotFound):
        ALL_IDLE.narrow(facts(live("g")))
    with pytest.raises(BrokerRefused, match="broker 2"):
        ALL_IDLE.narrow(facts(live("g"), problem=SILENT))


def test_a_group_that_is_named_is_all_that_is_meant(tmp_path: Path) -> None:
    """Which other groups there are does not matter then."""
    chosen = GroupChoice(("g",)).narrow(facts(idle(), problem=SILENT))

    assert deletion(chosen, tmp_path).is_whole
