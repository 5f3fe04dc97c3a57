"""Put back what a run changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolkit.journeys.change.change_facts import read_facts_of
from toolkit.kafka_io.read_snapshot import OnProgress
from toolkit.model import Cluster, Snapshot
from toolkit.plan import Intent, Plan
from toolkit.planning.changes.move import PlannedMove, move_back, plan_move
from toolkit.planning.changes.undo import Moved, plan_undo


@dataclass(frozen=True, slots=True)
class PlannedUndo:
    """The facts that were read, and the plan made of them; `live` where a live group is moved."""

    facts: Snapshot
    plan: Plan
    live: PlannedMove | None = None


def plan_run_undo(
    done: Plan,
    run_id: str,
    cluster: Cluster,
    *,
    even_if_moved: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> PlannedUndo:
    """
    Plan to undo a run from its undo record, `done`, and the facts of now.

    Offsets of a live group that were moved are moved back while it is live, however far it has read
    on since. `even_if_moved` also puts back what somebody else has moved. Raises
    ClusterUnreachable.
    """
    facts = read_facts_of(done, cluster, on_progress=on_progress)
    if done.intent is Intent.MOVE and any(group.is_live for group in facts.groups):
        back, then = plan_move(facts, move_back(done, run_id)), done.topic_ids
        # A topic that was deleted and created again since has other records at these offsets.
        plan = replace(back.plan, topic_ids=then)
        live = PlannedMove(plan, lambda later: replace(back.replan(later), topic_ids=then))
        return PlannedUndo(facts, plan, live)
    moved = Moved.RESTORE if even_if_moved else Moved.LEAVE
    request = f"undo run {run_id}: {done.request}"
    return PlannedUndo(facts, plan_undo(done, facts, moved=moved, request=request))
