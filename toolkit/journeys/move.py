"""Move the committed offsets of a live group, without stopping a consumer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toolkit.journeys.change.change_facts import read_facts, sample_group
from toolkit.journeys.change.group_choice import one_group
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.journeys.reset import RequestedTarget, reset_call, resolve_target
from toolkit.model.names import ExactName
from toolkit.planning.changes.move import MoveRequest, plan_move
from toolkit.planning.changes.pause import check_position
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.targets import Target
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.planning.selection.partition_selection import parse_topics


def move(  # noqa: PLR0913 - one of them is the cluster
    access: ClusterAccess,
    group: str | Sequence[str],
    *,
    to: RequestedTarget | Target,
    topics: Sequence[str] = (),
    new_topics: bool = False,
    prefer: str = "",
    commit_missing: str = "",
) -> PlannedChange:
    """
    Plan to move offsets of one live group while its partitions are held.

    A group without members gets an ordinary reset. `prefer` is how partitions are captured:
    lossless, quiet or fast. `commit_missing` (earliest, latest or an offset) is committed first for
    other partitions that stop and have no committed offset. Raises UsageError, NotFound and
    ClusterUnreachable.
    """
    name = one_group(group, "a live move")
    terms = HoldTerms.read(prefer, commit_missing=commit_missing)
    if commit_missing:
        check_position(commit_missing)
    parse_topics(topics)  # before anything is read
    where = resolve_target(access, to)
    request = MoveRequest(where, name, tuple(topics), new_topics, terms.prefer)
    hold_facts = sample_group(access, name, prefer=terms.prefer)
    facts = read_facts(access, [ExactName(name)], topics=topics, target=where)
    live_parameters = {"live": terms.prefer, "commit_missing": commit_missing}
    call = reset_call([ExactName(name)], to, topics, new_topics=new_topics, **live_parameters)
    if any(found.group_id == name and not found.is_live for found in facts.groups):
        plan = plan_reset(facts, where, groups=[name], topics=topics, new_topics=new_topics)
        return PlannedChange(access=access, plan=plan, facts=facts, call=call)
    live = plan_move(facts, replace(request, hold_facts=hold_facts, commit_missing=commit_missing))
    return PlannedChange(access=access, plan=live.plan, facts=facts, live=live, call=call)
