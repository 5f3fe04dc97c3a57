"""A session on one cluster: every query and every change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.errors import UsageError
from toolkit.journeys.cluster_access import ClusterAccess, over_one_connection
from toolkit.journeys.copy import copy, rename
from toolkit.journeys.delete_groups import delete_groups
from toolkit.journeys.delete_offsets import delete_offsets
from toolkit.journeys.group_choices import choices, deletable_groups
from toolkit.journeys.health import health
from toolkit.journeys.lag import lag
from toolkit.journeys.move import move
from toolkit.journeys.pause import pause, pause_or_resume
from toolkit.journeys.paused import board, paused
from toolkit.journeys.peek import peek
from toolkit.journeys.rescue import rescue
from toolkit.journeys.reset import reset
from toolkit.journeys.restore import export, restore
from toolkit.journeys.resume import resume
from toolkit.journeys.saved_change import saved_change
from toolkit.journeys.troubleshoot import sample, troubleshoot
from toolkit.journeys.undo import undo
from toolkit.journeys.unsubscribed import unsubscribed
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.model.names import shown_name
from toolkit.report.change_cards import show_newest_run, show_notices
from toolkit.report.display import display_output, is_headless, show_frames_letter_by_letter
from toolkit.report.notices import nothing_selected
from toolkit.report.plan_inputs import NotebookParameters
from toolkit.report.safe_names import in_html, sentence
from toolkit.storage.audit import newest_run
from toolkit.storage.state_folder import Operator, state_dir
from toolkit.storage.undo_records import read_undo_record

if TYPE_CHECKING:
    from toolkit.journeys.change.run_notices import RunNotice

RECENT = timedelta(days=1)  # how old a run is shown where a notebook begins


class Session(ClusterAccess):
    """
    One cluster under its policy, with its state directory.

    Each method is a journey of `toolkit.journeys`, where it is described. Those that change
    something return a `PlannedChange`: nothing is changed before its decision is applied.
    """

    copy = over_one_connection(copy)
    delete_groups = over_one_connection(delete_groups)
    delete_offsets = over_one_connection(delete_offsets)
    move = over_one_connection(move)
    pause = over_one_connection(pause)
    pause_or_resume = over_one_connection(pause_or_resume)
    rename = over_one_connection(rename)
    rescue = over_one_connection(rescue)
    reset = over_one_connection(reset)
    restore = over_one_connection(restore)
    resume = over_one_connection(resume)
    saved_change = over_one_connection(saved_change)
    undo = over_one_connection(undo)

    board = over_one_connection(board)
    choices = over_one_connection(choices)
    deletable_groups = over_one_connection(deletable_groups)
    export = over_one_connection(export)
    health = over_one_connection(health)
    lag = over_one_connection(lag)
    paused = over_one_connection(paused)
    peek = over_one_connection(peek)
    sample = over_one_connection(sample)
    troubleshoot = over_one_connection(troubleshoot)
    unsubscribed = over_one_connection(unsubscribed)

    def __repr__(self) -> str:
        policy = self.cluster.policy
        parts = [f"cluster {self.cluster.name} at {self.cluster.bootstrap_servers}"]
        parts += ["read-only"] if policy.read_only else []
        protected = ", ".join(map(shown_name, policy.protected_groups))
        parts += [f"protected groups: {protected}"] if protected else []
        ignored = ", ".join(map(shown_name, policy.ignored_groups))
        parts += [f"ignored groups: {ignored}"] if ignored else []
        return f"{'; '.join(parts)}; state directory {self.state}"

    def _ipython_display_(self) -> None:
        """Show the same, the results of interrupted runs and holds, and the newest run."""
        text = sentence(repr(self))
        display_output({"text/html": f"<p>{in_html(text)}</p>", "text/plain": text})
        notices = self.run_notices()
        show_notices((notice.words, notice.undo_command(self.where)) for notice in notices)
        # Elsewhere than in a notebook nothing is sent before the first question.
        if self.notebook_parameters and not is_headless():
            self._show_newest_run(notices)

    def _show_newest_run(self, notices: Sequence[RunNotice]) -> None:
        """Show how the operator's newest run of today stands: its page may have been closed."""
        now = datetime.now(UTC)
        with self.connections.in_use(), connected(self.cluster) as connection:
            entries = newest_run(self.state, connection.cluster_id, Operator.here())
        is_shown = any(entries[0].entry.run.run_id in notice.words for notice in notices if entries)
        if entries and not is_shown and now - entries[0].entry.at < RECENT:
            show_newest_run(entries, now)


def connect(
    cluster: str | Sequence[str] = "",
    fleet_file: Path | str | None = None,
    state: Path | str | None = None,
    *,
    run: str | None = None,
    asked: NotebookParameters | None = None,
) -> Session:
    """
    Open a cluster by its name in the fleet file, or by its address HOST:PORT.

    Without a name it is the cluster of a `run` that was recorded, which "" is not, else the only
    one of the fleet file. An address has the policy that the fleet file gives to its cluster.
    Nothing is sent before the first question, except from a notebook: its first cell then says that
    the cluster does not answer. `asked` are the parameters of that notebook, by which its plans are
    known to be out of date. Raises UsageError, FleetFileError, NotFound for an unknown run, and in
    a notebook ClusterUnreachable and BrokerRefused.
    """
    names = [cluster] if isinstance(cluster, str) else [*cluster]
    if len(names) > 1:
        problem = f"a change is on one cluster, and {len(names)} were chosen"
        raise UsageError(problem, hint="name one cluster")
    name = names[0] if names else ""
    if run == "":
        hint = "select one above, or set the parameter run"
        raise nothing_selected("no run selected", hint=hint)
    if run and not name:
        folder = Path(state) if state else state_dir(Path(fleet_file) if fleet_file else None)
        name = read_undo_record(folder, run).cluster
    session = Session.named(name, fleet_file, state)
    session.notebook_parameters = asked
    show_frames_letter_by_letter()
    # A saved plan may be for a mirror, and its source be gone.
    if asked and not asked.values.get("plan_file"):
        session.require_answer()
    return session
