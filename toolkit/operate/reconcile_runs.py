"""
Earlier runs on the groups of a plan: interrupted and partly applied ones.

The intent of an interrupted run is in the audit log with all planned changes, without an outcome.
Each change is compared with the cluster, and the result is logged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import Blocked
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.commits import FIRST_COMMIT, read_commits, read_first_commits
from toolkit.kafka_io.groups.describe_groups import Paused, describe_groups
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.model import Cluster, Commit, Problem, TopicPartition
from toolkit.model.names import shown_name
from toolkit.plan import Action, ChangeStatus, Intent, Outcome, Plan, Position, Result, StepOutcome
from toolkit.plan.approvals import Approval
from toolkit.planning.holds.hold_rules import is_own_hold
from toolkit.storage import audit
from toolkit.storage.state_folder import Operator, locked

HOLDING = frozenset({Action.HOLD, Action.RELEASE})
UNAFFECTED = frozenset({Intent.UNDO, Intent.PAUSE, Intent.RESUME})
LEAVES_OFFSETS = frozenset({Intent.PAUSE, Intent.RESUME, Intent.RESCUE})
IN_TRANSACTION = "an open transaction is about to commit offsets; one of a run ends within 45 s"
TRANSACTION_ENDED_AFTER = timedelta(minutes=5)
CUT_OFF_RUN = "cut-off-run"  # the rule that blocks a plan until the run is reviewed


class InterruptedRun(NamedTuple):
    """An interrupted run, and what it did."""

    intent: audit.AuditEntry
    outcome: Outcome


class ReconciledRuns(NamedTuple):
    """The reconciled runs, and those whose effect cannot be determined now."""

    known: list[InterruptedRun]
    unseen: list[UnresolvedRun]


class UnresolvedRun(NamedTuple):
    """An interrupted run, and why its effect cannot be determined now."""

    intent: audit.AuditEntry
    why: str

    @property
    def is_in_transaction(self) -> bool:
        """Whether its effect is known as soon as its transaction has ended."""
        return self.why == IN_TRANSACTION


def reconcile_runs(cluster: Cluster, state: Path) -> ReconciledRuns:
    """
    Return what every interrupted run on a cluster did; each is reported once.

    Runs in progress are excluded. The cluster is identified by its id, not its name. Raises
    ClusterUnreachable and StateFileError.
    """
    ids = {entry.cluster_id for entry in audit.unfinished(state)}
    if not ids:
        return ReconciledRuns([], [])
    with connected(cluster) as connection:
        cluster_id = connection.cluster_id
    if cluster_id in ids:
        with suppress(Blocked), locked(state, cluster_id, Operator.here().who):
            return reconcile_under_lock(cluster, cluster_id, state)
    return ReconciledRuns([], [])  # none on this cluster, or the lock holder is doing it


def reconcile_under_lock(cluster: Cluster, cluster_id: str, state: Path) -> ReconciledRuns:
    """Reconcile the runs on the cluster whose lock the caller holds."""
    intents = [entry for entry in audit.unfinished(state) if entry.cluster_id == cluster_id]
    reconciled = ReconciledRuns([], [])
    if not intents:
        return reconciled
    with connected(cluster) as connection:
        if connection.cluster_id != cluster_id:
            return reconciled  # another cluster has the name now, unrelated to these runs
        for intent in intents:
            outcome = _compare(intent, connection)
            if isinstance(outcome, str):
                reconciled.unseen.append(UnresolvedRun(intent, outcome))
                continue
            here = Operator.here()
            audit.append(state, audit.found_entry(intent, outcome, who=here.who, host=here.host))
            reconciled.known.append(InterruptedRun(intent, outcome))
    return reconciled


def _compare(intent: audit.AuditEntry, connection: Connection) -> Outcome | str:
    """Return what a run did, or why that cannot be determined now."""
    # In this order: a broker that has just started lists no group before it has loaded its
    # commits, while a coordinator responds that it is still loading.
    commits, problems = read_commits(connection, [step.group_id for step in intent.steps])
    listed, unlisted = list_groups(connection)
    needs_list = any(step.action in HOLDING or _tells_by_absence(step) for step in intent.steps)
    if unknown := [*problems, *(unlisted if needs_list else [])]:
        return f"{unknown[0].what}: {unknown[0].why}"
    if why := _open_transaction(intent, commits, connection):
        return why
    committed = {
        (c.group_id, TopicPartition(c.topic, c.partition)): Position.of(c) for c in commits
    }
    exists = {group.group_id for group in listed}
    holding = {step.group_id for step in intent.steps if step.action in HOLDING}
    paused: dict[str, Paused] = {}
    described = describe_groups(connection, (g for g in listed if g.group_id in holding))
    for found in described:
        if isinstance(found, Problem):
            return f"{found.what}: {found.why}"
        if not found.described:
            return f"members: group {shown_name(found.group_id)} has ended"
        paused[found.group_id] = found.paused
    return Outcome(
        run_id=intent.run.run_id,
        fingerprint=intent.fingerprint,
        started_at=intent.at,
        finished_at=datetime.now(UTC),
        steps=tuple(
            _hold_step(step, paused.get(step.group_id, {}), intent.run)
            if step.action in HOLDING
            else _step(step, committed, is_there=step.group_id in exists)
            for step in intent.steps
        ),
        interrupted="the run was interrupted",
    )


def _tells_by_absence(step: audit.AuditStep) -> bool:
    """Return whether only the group list shows that a step was done."""
    return step.action is Action.DELETE_GROUP and not step.changes


def _step(
    step: audit.AuditStep,
    committed: Mapping[tuple[str, TopicPartition], Position],
    *,
    is_there: bool,
) -> StepOutcome:
    results = tuple(_result(c, committed.get((step.group_id, c.partition))) for c in step.changes)
    kinds = {result.status for result in results}
    status = kinds.pop() if len(kinds) == 1 else ChangeStatus.FAILED
    if _tells_by_absence(step):
        status = ChangeStatus.NOT_TRIED if is_there else ChangeStatus.DONE
    if step.action is Action.REJOIN:
        status = ChangeStatus.NOT_TRIED
    why = "partly done" if status is ChangeStatus.FAILED else ""
    return StepOutcome(step.group_id, step.action, status, why, results)


def _open_transaction(
    intent: audit.AuditEntry, commits: Iterable[Commit], connection: Connection
) -> str:
    """
    Return that a transaction may still change what the run was to commit in one; "" if not.

    The broker ends its own after 30 s, or it was committed and is not visible in the group yet.
    A transaction that is open for minutes is an application's.
    """
    steps = [one for one in intent.steps if one.action in {Action.MOVE, Action.FIRST_COMMIT}]
    left = {step.group_id: {change.partition for change in step.changes} for step in steps}
    if not left or datetime.now(UTC) - intent.at > TRANSACTION_ENDED_AFTER:
        return ""
    for commit in commits:
        place = TopicPartition(commit.topic, commit.partition)
        if place in left.get(commit.group_id, ()):
            if commit.pending:
                return IN_TRANSACTION
            left[commit.group_id].remove(place)
    firsts = read_first_commits(connection, {name: some for name, some in left.items() if some})
    whys = [IN_TRANSACTION if one.why == FIRST_COMMIT else one.why for one in firsts]
    return whys[0] if whys else ""


def _hold_step(step: audit.AuditStep, paused: Paused, run: audit.RunInfo) -> StepOutcome:
    """Return the outcome of a hold or release step by what the run's operator holds now."""
    should_be_held = step.action is Action.HOLD
    if should_be_held:
        by = (run.who, run.host)
        paused = {p: member for p, member in paused.items() if is_own_hold(member, by)}
    results = tuple(
        Result(change.partition, ChangeStatus.DONE)
        if (change.partition in paused) == should_be_held
        else Result(
            change.partition,
            ChangeStatus.NOT_TRIED,
            "the partition is not held" if should_be_held else ("the partition is held"),
        )
        for change in step.changes
    )
    kinds = {result.status for result in results}
    status = kinds.pop() if len(kinds) == 1 else ChangeStatus.FAILED
    return StepOutcome(step.group_id, step.action, status, "", results)


def _result(change: audit.AuditChange, found: Position | None) -> Result:
    if change.before == change.after:  # a rescue, which can be repeated safely
        return Result(change.partition, ChangeStatus.NOT_TRIED, "not known", found)
    if found == change.after:
        return Result(change.partition, ChangeStatus.DONE, "", found)
    if found == change.before:
        return Result(change.partition, ChangeStatus.NOT_TRIED, "unchanged", found)
    return Result(change.partition, ChangeStatus.FAILED, "changed by another client since", found)


def is_finishing(plan: Plan, runs: list[audit.EntrySummary]) -> bool:
    """
    Return whether a last run on these groups applied a part of this plan.

    Other runs may have changed some of the groups since: each change is compared with the cluster.
    Changes that were undone since are not made again.
    """
    applied = (run.entry.fingerprint == plan.fingerprint and run.is_partly_done for run in runs)
    return any(applied) and not _is_undone(plan.fingerprint, runs)


def _is_undone(fingerprint: str, runs: Sequence[audit.EntrySummary]) -> bool:
    """Whether something was undone since a plan was applied, other than by this plan."""
    since = dropwhile(lambda run: run.entry.fingerprint != fingerprint, runs)
    return any(
        run.entry.intent is Intent.UNDO and run.entry.fingerprint != fingerprint for run in since
    )


def last_runs(plan: Plan, state: Path) -> list[audit.EntrySummary]:
    """
    Return the relevant last runs that changed the plan's groups.

    For a plan that changes offsets: the last run that may have changed one; pauses do not count.
    """
    passed_over = frozenset() if plan.intent in LEAVES_OFFSETS else LEAVES_OFFSETS
    return audit.last_runs(
        state,
        plan.cluster_id,
        plan.group_ids,
        fingerprint=plan.fingerprint,
        apart_from=passed_over,
    )


def refuse_over_unseen_runs(plan: Plan, unseen: Sequence[UnresolvedRun]) -> None:
    """Raise Blocked if the effect of an interrupted run on the same groups is unknown."""
    for run in unseen:
        if run.is_in_transaction and plan.intent in UNAFFECTED:
            continue
        if {step.group_id for step in run.intent.steps} & set(plan.group_ids):
            when = "in a minute" if run.is_in_transaction else "when all brokers are up"
            raise Blocked(
                f"run {run.intent.run.run_id} was interrupted, and its effect on these groups "
                f"cannot be determined now: {run.why}",
                hint=f"run the command again {when}",
            )


def refuse_after_a_cut_off_run(
    plan: Plan, runs: list[audit.EntrySummary], approval: Approval
) -> None:
    """
    Raise Blocked if an interrupted run has changed offsets of the plan's groups.

    Running the same command again would start from the changed offsets, for example shift them
    twice. An undo does not start from offsets, and a rescue commits what is committed.
    """
    if plan.intent in {Intent.UNDO, *LEAVES_OFFSETS} or CUT_OFF_RUN in approval.overrides:
        return
    for run in runs:
        entry, approved = run.entry, run.entry.fingerprint
        if entry.ended_early and approved != plan.fingerprint:
            name = entry.run.run_id
            # The offsets of a live group advance: its plan cannot be applied a second time.
            finish = (
                ""
                if entry.intent is Intent.MOVE
                or not run.is_partly_done
                or _is_undone(approved, runs)
                else f"finish it with 'offsetbook apply --run {name} --approve {approved} "
                "--reason TEXT', "
            )
            raise Blocked(
                f"interrupted run {name} ({entry.request}) has already changed groups of this "
                "plan; nothing was changed",
                hint=f"undo it with 'offsetbook undo {name}', {finish}or continue from the current "
                f"state by overriding {CUT_OFF_RUN}",
            )
