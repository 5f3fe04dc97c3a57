"""
Move the committed offsets of a live group: hold its partitions, move, release, watch.

Each step is an ordinary plan, applied and logged like any other. Because the partitions are revoked
from their owners, every client fetches its new position. A client may commit a record that it had
read before over that: the move waits for such commits while the partitions are held, watches the
group until it continues from the new offsets, and moves overwritten offsets once more. The hold
ends with this process.

Partitions that cannot be held are moved by evicting their owners, see
`toolkit.operate.move_streams`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.errors import Blocked, BrokerRefused, Interrupted, PartlyApplied, ToolkitError
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.model import CaptureMode, Cluster, Snapshot, TopicPartition
from toolkit.operate.apply import AppliedPlan, apply_plan, check_approval, record_outcome
from toolkit.operate.apply_steps import OnStep
from toolkit.operate.deferred_signals import defer_signals
from toolkit.operate.group_commits import GroupCommits, wait_until_still
from toolkit.operate.hold_facts import read_at_rest
from toolkit.operate.hold_steps import LOOK_EVERY_S, SEEN_WITHIN_S, release_by_keeper
from toolkit.operate.keeper_handle import KeeperHandle
from toolkit.operate.reconcile_runs import InterruptedRun
from toolkit.operate.watch_move import MoveWatch, judged, with_results
from toolkit.plan import (
    MAY_HAVE_CHANGED,
    Action,
    ChangeStatus,
    Outcome,
    Plan,
    Result,
    Severity,
    StepOutcome,
)
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.move import PlannedMove, is_holdable, move_again
from toolkit.planning.changes.pause import plan_pause, plan_resume
from toolkit.planning.guardrails.registry import blocking, overridable
from toolkit.planning.holds.continuation import MovedOffset
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.planning.holds.hold_rules import is_own_hold
from toolkit.planning.selection.partition_selection import scopes_of
from toolkit.storage.hold_files import hold_path
from toolkit.storage.state_folder import Operator

if TYPE_CHECKING:
    from toolkit.kafka_io.client.connection import Connection

_ACCEPTED = frozenset({ChangeStatus.NOT_CONFIRMED, ChangeStatus.FAILED})
LONGEST = timedelta(minutes=15)  # a move takes seconds; a hanging one must not hold forever
STOPPED = "stopped by SIGINT"
MOST_MOVES_WHILE_HELD = 3  # of a partition whose new offset is overwritten before its release


def move(
    planned: PlannedMove,
    cluster: Cluster,
    approval: Approval,
    *,
    state: Path,
    on_step: OnStep = lambda _: None,
) -> AppliedPlan:
    """
    Apply a plan that moves offsets of one live group, and return the result.

    The offsets in the approved plan are older; the plan with the offsets of the held partitions is
    checked by the same rules. Partitions that were already paused stay paused. A partition is done
    when the application was seen to continue from the new offset, otherwise not confirmed. Raises
    the errors of `apply_plan`, with nothing moved.
    """
    check_approval(planned.plan, approval, cluster.policy)
    mover = _Mover(planned.plan, cluster, approval, state, on_step)
    try:
        mover.hold_move_release(planned)
        if again := mover.overwritten():
            try:
                mover.hold_move_release(again)
            except ToolkitError as exc:
                mover.note(again.plan, f"it could not be moved again: {exc.problem}")
    except KeyboardInterrupt:  # between two parts, or the second Ctrl-C in a part
        if not mover.moved:
            raise mover.stopped() from None
        mover.interrupted_by = STOPPED
    return AppliedPlan(mover.outcome, [], tuple(mover.interrupted))


@dataclass
class _Mover:
    """Applies the parts of one move, and collects their results."""

    plan: Plan  # the approved one
    cluster: Cluster
    approval: Approval
    state: Path
    on_step: OnStep
    outcomes: list[Outcome] = field(default_factory=list)
    handles: list[KeeperHandle] = field(default_factory=list)
    interrupted: list[InterruptedRun] = field(default_factory=list)
    exact: Plan | None = None  # with the offsets once the partitions were held
    moved: dict[TopicPartition, Result] = field(default_factory=dict)
    held: frozenset[TopicPartition] = frozenset()  # what this move has paused, or may have
    interrupted_by: str = ""
    unheld: set[TopicPartition] = field(default_factory=set)  # resumed before this move did so

    def stopped(self) -> ToolkitError:
        """Return the error for a move that was stopped before its result was known."""
        if self.exact is None and self.held:
            return Interrupted(
                f"{STOPPED}: nothing was moved, but what it paused was not seen to be resumed",
                hint="see 'offsetbook paused-partitions'",
            )
        if self.exact is None:
            return Interrupted(f"{STOPPED}: nothing was moved, and what it paused is resumed")
        for run in self.interrupted:  # as the resume has found it
            if run.intent.fingerprint == self.exact.fingerprint:
                name, summary = run.outcome.run_id, run.outcome.summary
                hint = f"'offsetbook undo {name}' undoes it"
                return PartlyApplied(f"{STOPPED} in run {name}: {summary}", hint=hint)
        return PartlyApplied(
            f"{STOPPED} while the offsets were moved: whether they were is not known",
            hint="the next command compares the run with the cluster",
        )

    @property
    def group_id(self) -> str:
        return self.plan.group_ids[0]

    def overwritten(self) -> PlannedMove | None:
        """Return the move of partitions that do not continue from their new offsets, if any."""
        targets = {c.partition: c.after for _, c in self.exact.changes} if self.exact else {}
        late = [
            place
            for place, one in self.moved.items()
            if one.status is ChangeStatus.FAILED and one.found == targets.get(place)
        ]
        return move_again(self.exact, late) if self.exact and late else None

    def hold_move_release(self, planned: PlannedMove) -> None:
        """Hold partitions, move them, release them, and watch the group continue."""
        pause = self.plan_pause(planned)
        with ExitStack() as afterwards:
            if pause and pause.steps:
                # On any error from here on, the partitions are released: by a logged plan or, if
                # that fails, by ending the keeper.
                afterwards.callback(self.terminate_keepers)
                afterwards.push(lambda _type, exc, _trace: self.release_at_last(planned, exc))
                self.held = frozenset(change.partition for _, change in pause.changes)
                self.unheld.clear()
            if pause and not self.hold(pause, planned):
                return
            facts = self.facts(planned)
            exact = planned.exact(facts)
            if not (pause and pause.steps):  # else the pause was as young, and of these topics
                exact = replace(exact, made_at=planned.plan.made_at)
            if exact.steps:
                self.exact = self.exact or exact
                applied = self.apply(exact)
                if pause:
                    held = {change.partition for _, change in pause.changes}
                    self.release_and_watch(planned, _moved_offsets(exact, facts), facts, held)
                    self.record(applied)
            elif stopping := blocking(exact.findings, self.approval.overrides, plan=exact):
                raise Blocked(f"nothing was moved: {'; '.join(f.why for f in stopping)}")
            elif not self.outcomes:
                raise Blocked("nothing to move: the offsets are already at the target")

    def hold(self, pause: Plan, planned: PlannedMove) -> bool:
        """
        Hold what is not paused, and wait until consumers have committed what they had read.

        Late commits are also possible for partitions that were paused a moment before.
        """
        if not pause.steps and any(one.severity is Severity.BLOCK for one in pause.findings):
            return True  # nothing is held; the move will be refused
        with connected(self.cluster) as connection:
            commits = GroupCommits(connection, self.group_id)
            if pause.steps and not self.pause(pause):
                return False
            wait_until_still(commits, {change.partition for _, change in planned.plan.changes})
        return True

    def pause(self, pause: Plan) -> bool:
        try:
            outcome = self.apply(pause).outcome
        except Blocked:
            self.held = frozenset()  # nothing was changed
            raise
        steps = (step for step in outcome.steps if step.action is Action.HOLD)
        results = (result for step in steps for result in step.results)
        self.held = frozenset(r.partition for r in results if r.status in MAY_HAVE_CHANGED)
        return outcome.is_done

    def release_and_watch(
        self,
        planned: PlannedMove,
        moved: Mapping[TopicPartition, MovedOffset],
        facts: Snapshot,
        held: Collection[TopicPartition],
    ) -> None:
        """Release the held partitions, and watch the moved offsets."""
        for place in moved.keys() - held:
            one = self.moved[place]
            if one.status is ChangeStatus.NOT_CONFIRMED:
                # It stays paused: it is read from the new offset once it is resumed.
                self.moved[place] = replace(one, status=ChangeStatus.DONE, why="")
        # A late commit may come before the read-back, which fails then.
        accepted = [p for p in moved.keys() & held if self.moved[p].status in _ACCEPTED]
        if not accepted:
            return
        try:
            with connected(self.cluster) as connection:
                watch = self.watch(connection, {p: moved[p] for p in accepted}, facts)
                self.release(planned)
                with defer_signals() as stopped:
                    ended = "while it is paused" if self.held else watch.run(stopped)
        except ToolkitError as exc:  # it is moved all the same
            for place in accepted:
                one = self.moved[place]
                self.moved[place] = replace(one, why=f"{one.why}: {exc.problem}")
            return
        for place, seen in watch.partitions.items():
            self.moved[place] = judged(self.moved[place], seen, ended)
            if place in self.unheld and self.moved[place].status is ChangeStatus.DONE:
                why = f"moved to {seen.moved.target}, but its pause had ended before it was resumed"
                status = ChangeStatus.NOT_CONFIRMED
                self.moved[place] = replace(self.moved[place], status=status, why=why)

    def watch(
        self, connection: Connection, moved: Mapping[TopicPartition, MovedOffset], facts: Snapshot
    ) -> MoveWatch:
        """Start to watch; offsets that are overwritten while still held are moved again."""
        (group,) = (one for one in facts.groups if one.group_id == self.group_id)
        for moves_left in reversed(range(MOST_MOVES_WHILE_HELD)):
            watch = MoveWatch(connection, group, moved)
            late = watch.overwritten_while_held()
            if not late or not self.exact or not moves_left:
                break
            again = move_again(self.exact, late)
            exact = again.exact(self.facts(again))
            if exact.steps:
                self.apply(exact)
        return watch

    def note(self, plan: Plan, why: str) -> None:
        """Add a reason to the results of partitions that were overwritten."""
        for _, change in plan.changes:
            one = self.moved[change.partition]
            if one.status is ChangeStatus.FAILED:
                self.moved[change.partition] = replace(one, why=f"{one.why}; {why}")

    def record(self, applied: AppliedPlan) -> None:
        """Replace the outcome of the run in the audit log by what was seen since."""
        steps = tuple(self.seen(step) for step in applied.outcome.steps)
        if applied.intent and steps != applied.outcome.steps:
            outcome = replace(applied.outcome, steps=steps, finished_at=datetime.now(UTC))
            record_outcome(outcome, applied.intent, self.state)

    def seen(self, step: StepOutcome) -> StepOutcome:
        """Return the outcome of a move, updated with what was seen since."""
        if step.action is not Action.MOVE:
            return step
        return with_results(step, [self.moved[one.partition] for one in step.results])

    def plan_pause(self, planned: PlannedMove) -> Plan | None:
        """Return a plan that holds the partitions to move; None if they cannot be held."""
        prefer = CaptureMode(self.plan.terms.get("prefer", CaptureMode.LOSSLESS))
        missing = self.plan.terms.get("commit_missing", "")
        terms = HoldTerms(prefer, LONGEST, for_move=True, commit_missing=missing)
        facts = read_at_rest(partial(self.facts, planned), {self.group_id})
        if not is_holdable(facts, self.group_id):
            return None
        pause = plan_pause(facts, group=self.group_id, topics=_scopes(planned.plan), terms=terms)
        # The guard rails check the pause as part of what was approved, and when.
        topic_ids = {**pause.topic_ids, **planned.plan.topic_ids}
        return replace(pause, made_at=planned.plan.made_at, topic_ids=topic_ids)

    def facts(self, planned: PlannedMove) -> Snapshot:
        topics = sorted({change.partition.topic for _, change in planned.plan.changes})
        return read_plan_facts(self.cluster, groups=[self.group_id], topics=topics, at=planned.at)

    def apply(self, part: Plan) -> AppliedPlan:
        words = f"{self.approval.reason} (part of: {self.plan.request})"
        # Overrides of rules about another part of the move do not apply to this one.
        overrides = overridable(part.intent).intersection(self.approval.overrides)
        approved = replace(
            self.approval, fingerprint=part.fingerprint, reason=words, overrides=overrides
        )
        applied = apply_plan(part, self.cluster, approved, state=self.state, on_step=self.on_step)
        self.outcomes.append(applied.outcome)
        self.handles += applied.handles
        self.interrupted += applied.interrupted
        for step in applied.outcome.steps:
            if step.action is Action.MOVE:
                self.moved |= {result.partition: result for result in step.results}
        return applied

    def release(self, planned: PlannedMove) -> None:
        """Release what this move has paused, once; what was paused before stays paused."""
        stopped: Outcome | None = None
        while resume := self.plan_release(planned, again=bool(stopped)) if self.held else None:
            released = self.apply(resume).outcome
            if not released.interrupted:
                self.held = frozenset() if released.is_done else self.held
                return
            stopped = released  # no partition should stay paused
            self.outcomes.remove(released)
        self.held = frozenset()
        if stopped:
            groups = self.facts(planned).groups
            paused = {place for group in groups for place in group.paused}
            self.outcomes.append(_released_all_the_same(stopped, paused))

    def plan_release(self, planned: PlannedMove, *, again: bool = False) -> Plan | None:
        """
        Return the plan that releases what this move has paused; None if none of that is held.

        Partitions that another operator holds by now are left out. Partitions that nobody holds are
        noted as resumed before, unless this move tries to release them `again`. Raises
        BrokerRefused if what is held cannot be read for a while.
        """
        give_up_at = time.monotonic() + SEEN_WITHIN_S
        while True:
            facts, here = self.facts(planned), Operator.here()
            paused = {p: member for group in facts.groups for p, member in group.paused.items()}
            mine = {p for p in self.held if p not in paused or is_own_hold(paused[p], here)}
            if not mine:
                return None
            scopes = [str(scope) for scope in scopes_of(mine)]
            resume = plan_resume(facts, group=self.group_id, topics=scopes, by=here)
            why = [one.why for one in resume.findings if one.severity is Severity.BLOCK]
            if resume.steps or not why:
                if not again:
                    self.unheld |= {place for place in mine if place not in paused}
                return resume if resume.steps else None
            if time.monotonic() > give_up_at:
                raise BrokerRefused(f"what is paused cannot be seen: {why[0]}")
            time.sleep(LOOK_EVERY_S)

    def release_at_last(self, planned: PlannedMove, error: BaseException | None) -> None:
        """Release what is still held; a failure does not hide earlier errors or results."""
        try:
            self.release(planned)
        except ToolkitError as exc:
            if not self.moved and error is None:
                raise
            words = f"not resumed by a plan, so its keeper is ended: {exc.problem}"
            for place, one in self.moved.items():
                self.moved[place] = replace(one, why="; ".join(filter(None, [one.why, words])))

    def terminate_keepers(self) -> None:
        for handle in self.handles:
            handle.terminate()
        if self.held and not self.handles:  # they were added to an existing hold
            path = hold_path(self.state, self.plan.cluster_id, self.group_id)
            with suppress(ToolkitError):
                release_by_keeper(path, self.held)

    @property
    def outcome(self) -> Outcome:
        """The combined result; undo it by undoing the move."""
        moved = next((o for o in self.outcomes if _has_moved(o)), self.outcomes[0])
        # A repeated move is part of the result of the first.
        steps = (
            self.seen(step)
            for outcome in self.outcomes
            for step in outcome.steps
            if step.action is not Action.MOVE or outcome is moved
        )
        return replace(
            moved,
            fingerprint=self.plan.fingerprint,
            started_at=self.outcomes[0].started_at,
            finished_at=datetime.now(UTC),
            steps=tuple(steps),
            interrupted=self.interrupted_by
            or next((o.interrupted for o in self.outcomes if o.interrupted), ""),
        )


def _scopes(plan: Plan) -> list[str]:
    return [str(scope) for scope in scopes_of(change.partition for _, change in plan.changes)]


def _has_moved(outcome: Outcome) -> bool:
    return any(step.action is Action.MOVE for step in outcome.steps)


def _released_all_the_same(stopped: Outcome, paused: Collection[TopicPartition]) -> Outcome:
    """Return the outcome of a stopped resume: partitions not shown as paused are done."""

    def seen(one: Result) -> Result:
        is_paused = one.partition in paused
        return one if is_paused else replace(one, status=ChangeStatus.DONE, why="")

    steps = (with_results(step, [*map(seen, step.results)]) for step in stopped.steps)
    return replace(stopped, steps=tuple(steps), interrupted="")


def _moved_offsets(exact: Plan, facts: Snapshot) -> dict[TopicPartition, MovedOffset]:
    """Return the new offset of each partition, with its facts at the time it was held."""
    return {
        change.partition: MovedOffset(
            change.after.offset,
            change.before.offset if change.before else None,
            log.log_end if (log := facts.logs.get(change.partition)) else None,
        )
        for _, change in exact.changes
        if change.after
    }
