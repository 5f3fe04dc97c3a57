"""What notebooks about live groups read before they plan, and what they show of holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.journeys.change.change_outcome import NOTHING, run_command
from toolkit.journeys.move import PlannedGroupMove, plan_group_move
from toolkit.journeys.pause import HoldPlan, plan_group_pause, plan_group_resume
from toolkit.journeys.paused import PauseBoardSource, find_paused
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, Snapshot
from toolkit.plan import Action, Intent, Outcome, Plan
from toolkit.planning.changes.move import MoveRequest
from toolkit.planning.changes.targets import Target
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.planning.selection.scope import parse_topics
from toolkit.report.display import is_headless
from toolkit.report.notices import show_notice
from toolkit.report.tables import show_table

PAUSE, RESUME = "pause", "resume"


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """
    What a notebook is asked for: to pause or to resume which partitions of which group.

    `topics` are scopes as in `topic:0-5`, `prefer` and `hold_for` as people write them. Raises
    UsageError for what cannot be read.
    """

    action: str
    group: str
    topics: Sequence[str] = ()
    prefer: str = ""
    hold_for: str = ""

    def __post_init__(self) -> None:
        """Check what was written."""
        if self.action not in {PAUSE, RESUME}:
            raise UsageError(f"{self.action!r} is no action", hint=f"one of: {PAUSE}, {RESUME}")
        if not self.group:
            raise UsageError("no group is named", hint="set the parameter group")
        HoldTerms.read(self.prefer, self.hold_for)
        parse_topics(self.topics)

    def watch(self, cluster: Cluster, *, state: Path) -> PauseBoardSource:
        """Return what looks at the group's partitions, each time that it is called."""
        return PauseBoardSource(cluster, self.group, state)


def plan_hold(cluster: Cluster, request: HoldRequest, *, state: Path) -> tuple[Snapshot, Plan]:
    """
    Read the group and what is to be known beside, and return the facts and the plan made of them.

    Where somebody may still choose partitions on a board, a pause without any is a plan without
    steps; a run that nobody looks at refuses it with UsageError.
    """
    group, topics = request.group, tuple(request.topics)
    if request.action == RESUME:
        planned = plan_group_resume(cluster, group, topics=topics)
    elif topics or is_headless():
        terms = HoldTerms.read(request.prefer, request.hold_for)
        planned = plan_group_pause(cluster, group, topics=topics, terms=terms, state=state)
    else:
        facts = read_plan_facts(cluster, groups=[group])
        asked, place = f"pause nothing of {group} yet", (facts.cluster, facts.cluster_id)
        planned = HoldPlan(facts, Plan(Intent.PAUSE, asked, *place, facts.taken_at, ()))
    for one in planned.ended:
        show_notice("A hold has ended", [one.in_words])
    return planned.facts, planned.plan


@dataclass(frozen=True, slots=True)
class MoveWish:
    """What a notebook is asked for: where the offsets of one live group go, and how it is held."""

    target: Target
    groups: Sequence[str]
    topics: Sequence[str] = ()
    new_topics: bool = False
    prefer: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be moved; raises UsageError."""
        if len(self.groups) != 1:
            raise UsageError("a move is of exactly one live group", hint="name one in groups")
        HoldTerms.read(self.prefer)


def plan_live_move(cluster: Cluster, wish: MoveWish) -> PlannedGroupMove:
    """Plan what a notebook is asked for; of a group without members it is an ordinary reset."""
    (group,) = wish.groups
    prefer = HoldTerms.read(wish.prefer).prefer
    request = MoveRequest(wish.target, group, tuple(wish.topics), wish.new_topics, prefer)
    return plan_group_move(cluster, request)


def show_paused(cluster: Cluster, group: str, *, state: Path) -> None:
    """Show what the brokers say is paused in a group now, by whom and until when."""
    snapshot = read_snapshot(cluster, groups=[group])
    frame = find_paused(snapshot, state)
    show_table(
        frame[frame["group"] == group].drop(columns=["cluster", "group"]),
        caption_text="Paused now, as the brokers tell",
        empty_text="Nothing of this group is paused now.",
    )


def show_resume(outcome: Outcome | None, plan: Plan, values: Mapping[str, object]) -> None:
    """Show how a pause is ended; `values` are the notebook's parameters."""
    if outcome is None or not any(step.action is Action.HOLD for step in outcome.steps):
        show_table(NOTHING, empty_text="Nothing was paused, so there is nothing to resume.")
        return
    changed: dict[str, object] = {"action": RESUME, "dry_run": True, "approve": "", "reason": ""}
    command = run_command("40_pause_partitions", values, **changed)
    line = (
        f"The hold goes on in the background {HoldTerms.of(plan).words}. This shows what a resume "
        "would do, and with what approval it does it:"
    )
    show_notice("The partitions stay paused", [line], command=command)
