"""What an operator must know before a change: interrupted runs, and holds without a keeper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import StateFileError
from toolkit.model import Cluster
from toolkit.operate.orphaned_holds import find_orphaned_holds
from toolkit.operate.reconcile_runs import InterruptedRun, reconcile_runs
from toolkit.plan import Intent
from toolkit.report.next_step_list import undo_call
from toolkit.report.run_command import run_command
from toolkit.storage.state_folder import check_readable, open_to_others


@dataclass(frozen=True, slots=True)
class RunNotice:
    """
    Something to know of an earlier run or hold on the cluster.

    `run_id` is a run that can be undone or, by approving its `fingerprint`, finished; "" for none.
    """

    words: str
    run_id: str = ""
    fingerprint: str = ""

    def undo_command(self, where: Mapping[str, object]) -> str:
        """Return the command that shows what an undo would do; "" if there is nothing to undo."""
        return run_command(undo_call(self.run_id), where) if self.run_id else ""


def find_run_notices(cluster: Cluster, state: Path) -> tuple[RunNotice, ...]:
    """
    Compare interrupted runs and orphaned holds with the cluster; record and return the result.

    What is recorded is returned only once. Raises ClusterUnreachable, and StateFileError for a
    damaged log. Who may not read the state folder may plan all the same, but apply nothing.
    """
    try:
        check_readable(state)
    except StateFileError as exc:
        unseen = f"not looked for interrupted runs and holds without a keeper: {exc.problem}"
        return (RunNotice(unseen),)
    holds = tuple(RunNotice(hold.in_words) for hold in find_orphaned_holds(cluster, state))
    runs = reconcile_runs(cluster, state)
    unseen_runs = tuple(
        RunNotice(
            f"run {intent.run.run_id} ({intent.request}) was interrupted, and what it did cannot "
            f"be seen now: {why}"
        )
        for intent, why in runs.unseen
    )
    open_state = (RunNotice(words) for words in [open_to_others(state)] if words)
    return (*open_state, *holds, *unseen_runs, *notices_of(runs.known))


def notices_of(runs: Iterable[InterruptedRun]) -> tuple[RunNotice, ...]:
    return tuple(
        RunNotice(
            f"run {outcome.run_id} ({intent.request}) was interrupted: {outcome.summary}",
            outcome.run_id,
            # The offsets of a live group advance: its plan cannot be applied a second time.
            "" if intent.intent is Intent.MOVE or outcome.is_done else intent.fingerprint,
        )
        for intent, outcome in runs
    )
