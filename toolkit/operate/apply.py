"""
Apply a plan, from the last check of the facts to the outcome in the audit log.

    check that the facts still hold → write the undo record → write the audit intent →
    carry out step by step, reading each back → write the audit outcome

A broker's response is not trusted until the result has been read back. If a run is cut off, its
intent stays in the audit log and its undo record in the state directory, so that the next command
can compare them with the cluster and report what was done.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import (
    Blocked,
    OutcomeNotRecorded,
    PartlyApplied,
    StateFileError,
    ToolkitError,
    UsageError,
)
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.model import Cluster, GroupState, Policy
from toolkit.model.names import shown_name
from toolkit.operate.apply_steps import OnStep, carry_out
from toolkit.operate.deferred_signals import defer_signals
from toolkit.operate.first_records import with_first_records
from toolkit.operate.hold_facts import read_at_rest, read_hold_facts
from toolkit.operate.hold_steps import HoldExecutor
from toolkit.operate.keeper_handle import KeeperHandle
from toolkit.operate.reconcile_runs import (
    InterruptedRun,
    is_finishing,
    last_runs,
    reconcile_under_lock,
    refuse_after_a_cut_off_run,
    refuse_over_unseen_runs,
)
from toolkit.operate.rescue import left_out, verify_retention_reset
from toolkit.operate.watch_move import not_seen_yet
from toolkit.plan import (
    HOLD_INTENTS,
    Action,
    Finding,
    Intent,
    Outcome,
    Plan,
    Step,
    StepOutcome,
    same_fingerprint,
)
from toolkit.plan.approvals import Approval, Limits, lacks_reason
from toolkit.planning.guardrails.check_context import CheckContext, EarlierSightings
from toolkit.planning.guardrails.group_rules import QUIET_AFTER
from toolkit.planning.guardrails.registry import (
    FINAL,
    RULES,
    blocking,
    check,
    check_overrides,
    check_standing,
)
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.storage import audit
from toolkit.storage.sightings import empty_since, unsubscribed_since
from toolkit.storage.state_folder import Operator, locked
from toolkit.storage.undo_records import new_run_id, write_undo_record

SHOWN_FINDINGS = 5
OF_ANOTHER_CHANGE = frozenset({"facts-moved", "keeps-committing"})


class AppliedPlan(NamedTuple):
    """
    The outcome of a plan, and what belongs to it.

    `handles` are those of the started keepers. `interrupted` are earlier runs that were found
    interrupted, and recorded, before the plan was applied. `intent` is the audit log entry.
    """

    outcome: Outcome
    handles: list[KeeperHandle]
    interrupted: tuple[InterruptedRun, ...] = ()
    intent: audit.AuditEntry | None = None


def apply_plan(
    plan: Plan,
    cluster: Cluster,
    approval: Approval,
    *,
    state: Path,
    on_step: OnStep = lambda _: None,
) -> AppliedPlan:
    """
    Apply an approved plan; its holds end with this process until their handles are detached.

    `state` is the folder of undo records and the audit log. Raises Blocked, with nothing changed,
    if a guard rail objects, the approval is for another plan, another run is changing the cluster,
    or an earlier one was cut off; StateFileError, with nothing changed, if the undo record or the
    audit log cannot be written. Later failures are in the outcome, except OutcomeNotRecorded, if it
    could not be written, and PartlyApplied for a bug in offsetbook.
    """
    check_approval(plan, approval, cluster.policy)
    operator = Operator.here()
    with locked(state, plan.cluster_id, operator.who, name=cluster.name):
        reconciled = reconcile_under_lock(cluster, plan.cluster_id, state)
        refuse_over_unseen_runs(plan, reconciled.unseen)
        runs = last_runs(plan, state)
        finishing = is_finishing(plan, runs)
        refuse_after_a_cut_off_run(plan, runs, approval)
        case = reread_facts(plan, cluster, approval, state=state, finishing=finishing)
        stopping = blocking(check(case), approval.overrides, plan=plan)
        if alone := left_out(case, stopping):
            steps = tuple(step for step in plan.steps if step.group_id not in alone)
            case = replace(case, plan=replace(plan, steps=steps))
            stopping = blocking(check(case), approval.overrides, plan=plan)
        if stopping:
            raise _blocked(stopping, _changed_by(plan, stopping, state))
        run_id = new_run_id(case.now, plan.fingerprint)
        overrides = tuple(sorted(approval.overrides))
        run = audit.RunInfo(run_id, *operator, approval.reason, overrides)
        try:
            context = _ApplyContext(cluster, state, on_step)
            intent, outcome = _carry_out_on_record(plan, case, run, context, alone)
        except ToolkitError:
            leave_keepers(plan, context.handles)
            raise
        except Exception as exc:
            leave_keepers(plan, context.handles)
            done = _done_by_a_cut_off_run(cluster, plan.cluster_id, state)
            raise PartlyApplied(
                f"run {run_id} was ended by {type(exc).__name__}: {exc}; what it did: {done}",
                hint=f"'offsetbook undo {run_id}' undoes it",
            ) from exc
    return AppliedPlan(outcome, context.handles, tuple(reconciled.known), intent)


def _done_by_a_cut_off_run(cluster: Cluster, cluster_id: str, state: Path) -> str:
    """Return what the failed run did, as the next command would report it after a kill."""
    with suppress(ToolkitError):
        if known := reconcile_under_lock(cluster, cluster_id, state).known:
            return known[0].outcome.summary
    return "not known, or nothing"


def leave_keepers(plan: Plan, handles: Iterable[KeeperHandle]) -> None:
    """Detach keepers whose outcome is not recorded; those of a move end with the move."""
    for handle in handles:
        if HoldTerms.of(plan).for_move:
            handle.terminate()
        else:
            handle.detach()


@dataclass(frozen=True, slots=True)
class _ApplyContext:
    """The inputs of applying a plan, and the handles of the keepers started for it."""

    cluster: Cluster
    state: Path
    on_step: OnStep
    handles: list[KeeperHandle] = field(default_factory=list)


def check_approval(plan: Plan, approval: Approval, policy: Policy) -> None:
    """Raise Blocked or UsageError unless the approval is valid for this plan."""
    check_overrides(approval.overrides, intent=plan.intent)
    if approval.limits:
        check_standing(approval.overrides)
    if not plan.steps:
        raise UsageError("the plan is empty; nothing to apply")
    if lacks_reason(approval.reason, policy):
        raise Blocked("no reason given: nothing was changed", hint="give a reason")
    if not same_fingerprint(approval.fingerprint, plan.fingerprint):
        raise Blocked(
            f"the approval is for plan {approval.fingerprint or 'none'}, this plan is "
            f"{plan.fingerprint}",
            hint="look at the plan again and approve what it is now",
        )


def _carry_out_on_record(
    plan: Plan,
    case: CheckContext,
    run: audit.RunInfo,
    context: _ApplyContext,
    alone: Mapping[str, StepOutcome],
) -> tuple[audit.AuditEntry, Outcome]:
    """
    Carry out a plan after writing its undo record and intent, and write its outcome.

    The plan of `case` lacks the steps of the groups in `alone`, which are left out.
    """
    with defer_signals() as stopped:
        write_undo_record(context.state, run.run_id, plan)
        intent = audit.intent_entry(plan, run, case.now)
        audit.append(context.state, intent)
        if plan.intent in HOLD_INTENTS:
            holds = HoldExecutor(case, context.cluster, run, state=context.state, stopped=stopped)
            steps, ended = holds.carry_out(context.on_step, context.handles)
        else:
            steps, ended = carry_out(
                case, context.cluster, stopped=stopped, on_step=context.on_step
            )
        if plan.intent is Intent.RESCUE:
            steps = _with_clocks(steps, case, context.cluster)
            tried = iter(steps)
            steps = tuple(alone.get(step.group_id) or next(tried) for step in plan.steps)
        if plan.intent is Intent.MOVE:
            steps = not_seen_yet(plan.steps, steps)
        now = datetime.now(UTC)
        outcome = Outcome(run.run_id, plan.fingerprint, case.now, now, steps, ended)
        record_outcome(outcome, intent, context.state)
    return intent, outcome


def reread_facts(
    plan: Plan, cluster: Cluster, approval: Approval, *, state: Path, finishing: bool = False
) -> CheckContext:
    """Re-read the facts for the rules, after the minimum watch time of empty groups."""
    early = plan.made_at + approval.watch - datetime.now(UTC)
    watched = "keeps-committing" in approval.overrides or early <= timedelta(0)
    if not watched and any(map(partial(_is_young, plan), plan.steps)):
        time.sleep(min(early, approval.watch).total_seconds())
    # A topic without committed offsets is not among the facts about a group.
    topics = {change.partition.topic for _, change in plan.changes if change.before is None}
    limits = approval.limits
    with connected(cluster) as connection:
        held = {step.group_id for step in plan.steps if step.action is Action.HOLD}
        read = partial(read_plan_facts, cluster, groups=plan.group_ids, topics=sorted(topics))
        facts = read_at_rest(read, held)
        groups = {group.group_id: group for group in facts.groups}
        hold_facts = {name: read_hold_facts(connection, name, groups.get(name)) for name in held}
        facts = with_first_records(plan, facts, cluster)
    return CheckContext(
        plan=plan,
        facts=facts,
        policy=limits.narrow(cluster.policy) if limits else cluster.policy,
        now=datetime.now(UTC),
        reason=approval.reason,
        applying=True,
        finishing=finishing,
        watch=approval.watch,
        limits=limits,
        seen=seen_before(plan.cluster_id, limits, state),
        hold_facts=hold_facts,
        by=Operator.here(),
    )


def _is_young(plan: Plan, step: Step) -> bool:
    """Whether a step is about an empty group to which a client may be committing."""
    if step.state is not GroupState.EMPTY or not step.changes:
        return False
    return step.last_commit_at is None or plan.made_at - step.last_commit_at <= QUIET_AFTER


def _with_clocks(
    steps: tuple[StepOutcome, ...], case: CheckContext, cluster: Cluster
) -> tuple[StepOutcome, ...]:
    if not steps:
        return ()
    after = replace(case.facts, groups=(), commits=())
    with suppress(ToolkitError):  # timers that cannot be read count as not reset
        after = read_plan_facts(cluster, groups=case.plan.group_ids)
    return verify_retention_reset(steps, before=case.facts, after=after)


def record_outcome(outcome: Outcome, intent: audit.AuditEntry, state: Path) -> None:
    """
    Write the outcome of a run to the audit log; a later outcome replaces an earlier one.

    Raises OutcomeNotRecorded if it cannot be written.
    """
    try:
        audit.append(state, audit.outcome_entry(intent, outcome))
    except StateFileError as exc:
        raise OutcomeNotRecorded(
            f"run {outcome.run_id} finished ({outcome.summary}), but its outcome could not be "
            f"written to the audit log: {exc.problem}",
            hint="free disk space; the next command compares the run with the cluster and logs it",
        ) from exc


def _changed_by(plan: Plan, stopping: Sequence[Finding], state: Path) -> str:
    """Name the recorded runs that have changed the blocking groups since the plan was made."""
    about = {found.group_id for found in stopping if found.rule in OF_ANOTHER_CHANGE}
    groups = [name for name in plan.group_ids if name in about]
    if not groups:
        return ""
    runs = audit.changed_since(state, plan.cluster_id, groups, plan.made_at)
    names = [f"{one.run.run_id} by {one.run.who}@{one.run.host} ({one.request})" for one in runs]
    return f"; changed since the plan was made by run {', '.join(names[-3:])}" if names else ""


def _blocked(findings: Sequence[Finding], changed_by: str) -> Blocked:
    # Show one finding of each kind, not five of the same.
    kinds = Counter((finding.rule, finding.group_id) for finding in findings)
    first = {(finding.rule, finding.group_id): finding for finding in reversed(findings)}
    shown = []
    for (rule, group_id), count in list(kinds.items())[:SHOWN_FINDINGS]:
        about = rule if group_id is None else f"{rule} ({shown_name(group_id)})"
        again = f" ({count:,} times)" if count > 1 else ""
        shown.append(f"{about}: {first[rule, group_id].why}{again}")
    more = f"; and {len(kinds) - len(shown)} more" if len(kinds) > len(shown) else ""
    rules = sorted({finding.rule for finding in findings})
    known = [RULES[name] for name in rules if name in RULES]
    is_lasting = any(rule.lasting for rule in known)
    hint = "" if is_lasting else "make a new plan from the current state"
    if len(known) == len(rules) and all(rule.only_standing for rule in known):
        hint = "change the limits in the runbook or the `limits` parameter"
    if FINAL.isdisjoint(rules):
        hint = f"if this is intended, override {', '.join(rules)}"
    return Blocked(f"nothing was changed: {'; '.join(shown)}{more}{changed_by}", hint=hint)


def seen_before(cluster_id: str, limits: Limits | None, state: Path) -> EarlierSightings:
    """Return the sightings that limits need; raises StateFileError."""
    if limits is None:
        return EarlierSightings()
    by_age = limits.empty_for_days is not None
    by_topic = (limits.unsubscribed_for_days, limits.unsubscribed_in_runs) != (None, None)
    return EarlierSightings(
        empty=empty_since(state, cluster_id) if by_age else {},
        unsubscribed=unsubscribed_since(state, cluster_id) if by_topic else {},
    )
