"""Pause partitions of a live group, while its members read the others (KIP-1249)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from toolkit.errors import UsageError
from toolkit.journeys.change.change_facts import read_facts, sample_group
from toolkit.journeys.change.checked_plan import CheckedPlan
from toolkit.journeys.change.group_choice import one_group
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.journeys.resume import resume
from toolkit.model.names import ExactName, shown_name
from toolkit.operate.keeper_handle import follow
from toolkit.operate.orphaned_holds import still_withheld
from toolkit.plan import Intent, Plan
from toolkit.planning.changes.pause import check_position, plan_pause
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.planning.selection.partition_selection import parse_topics
from toolkit.report.display import is_headless
from toolkit.report.run_command import NotebookCall
from toolkit.storage.hold_files import HoldRecord, hold_path

PAUSE, RESUME = "pause", "resume"


def pause(  # noqa: PLR0913 - one of them is the cluster
    access: ClusterAccess,
    group: str,
    topics: Sequence[str] | None,
    *,
    pause_for: str = "",
    prefer: str = "",
    commit_missing: str = "",
) -> PlannedChange:
    """
    Plan to keep partitions of a live group from its members until they are resumed.

    `topics` are scopes (`TOPIC` or `TOPIC:0,1`), none for a Streams application (KIP-1071), which
    is paused as a whole; None means that nothing is chosen yet, and plans nothing. `pause_for` is
    how long at most, such as "30m"; `prefer` is how partitions are
    captured: lossless, quiet or fast. `commit_missing` (earliest, latest or an offset) is committed
    first where there is no committed offset, which blocks otherwise. A hold whose keeper died is
    continued while the broker still withholds its partitions. Raises UsageError and
    ClusterUnreachable.
    """
    if not group:
        raise UsageError("no group is named", hint="name one live group")
    terms = HoldTerms.read(prefer, pause_for, commit_missing)
    if commit_missing:
        check_position(commit_missing)
    parse_topics(topics or ())  # before anything is read
    parameters = {
        "groups": [ExactName(group)],
        "topics": topics or (),
        "prefer": prefer,
        "pause_for": pause_for or None,
        "commit_missing": commit_missing,
    }
    call = NotebookCall("40_pause_partitions", parameters)
    if topics is None:
        facts = read_facts(access, [ExactName(group)])
        words = f"pause nothing of {shown_name(group)} yet"
        place = facts.cluster, facts.cluster_id
        plan = Plan(Intent.PAUSE, words, *place, facts.taken_at, ())
        return PlannedChange(access=access, plan=plan, facts=facts, call=call)
    hold_facts = replace(
        sample_group(access, group, prefer=terms.prefer),
        orphaned=still_withheld(access.cluster, group, access.state),
    )
    facts = read_facts(access, [ExactName(group)], topics=topics)
    plan = plan_pause(facts, group=group, topics=topics, terms=terms, hold_facts=hold_facts)
    return PlannedChange(access=access, plan=plan, facts=facts, call=call)


def pause_or_resume(
    access: ClusterAccess,
    /,
    action: str,
    group: str | Sequence[str],
    topics: Sequence[str] = (),
    **terms: str,
) -> PlannedChange:
    """
    Plan what an `action` asks for: "pause" with the `terms` of `pause`, or "resume".

    Without topics, a pause plans nothing in an interactive notebook, where a board offers them; a
    headless run refuses it. Raises UsageError and ClusterUnreachable.
    """
    if action not in {PAUSE, RESUME}:
        raise UsageError(f"{action!r} is no action", hint=f"one of: {PAUSE}, {RESUME}")
    name = one_group(group, f"a {action}")
    if action == RESUME:
        return resume(access, name, topics)
    return pause(access, name, topics if topics or is_headless() else None, **terms)


def follow_pause(pause: CheckedPlan) -> Iterator[HoldRecord]:
    """Yield the status of the hold of an applied pause, on every change, until it has ended."""
    (group_id,) = pause.plan.group_ids
    yield from follow(hold_path(pause.access.state, pause.plan.cluster_id, group_id))


def pause_length(plan: Plan) -> str:
    """Return how long a pause lasts, as text: "until resumed", "for 30 min"."""
    return HoldTerms.of(plan).words
