"""
Write undo records: the offsets before a run, saved before it changes anything.

A record is a plan file, `runs/<run id>/plan.json` in the state folder: its `before` is what undo
brings back. A record is written once and never changed.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

from toolkit.errors import NotFound, StateFileError, UsageError
from toolkit.plan import Plan
from toolkit.storage.formats.atomic_files import make_folder, make_private, not_written, sync_folder
from toolkit.storage.plan_files import read_plan, write_plan
from toolkit.storage.state_folder import check_readable

FILE_NAME = "plan.json"


def new_run_id(now: datetime, fingerprint: str) -> str:
    """Return a name for a run, such as `20261121T101500Z-1a2b3c4d5e6f`; never the same twice."""
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{stamp}-{fingerprint[:4]}{secrets.token_hex(4)}"


def write_undo_record(state: Path, run_id: str, plan: Plan) -> Path:
    """
    Write what a run is about to change and return the file, on the disk before this returns.

    Raises StateFileError where it cannot be written or the run has a record already.
    """
    folder = make_folder(state / "runs") / run_id
    try:
        make_private(folder)
        sync_folder(folder.parent)
    except OSError as exc:
        raise not_written(folder, exc) from exc
    write_plan(folder / FILE_NAME, plan, private=True)
    return folder / FILE_NAME


def find_run(state: Path, run_id: str) -> str:
    """
    Return the full name of a run with an undo record, from a beginning that no other run shares.

    Raises NotFound that names the runs that may be meant.
    """
    # If a run is named in full, only its record is read, not thousands.
    check_readable(state)
    is_name = Path(run_id).name == run_id
    if is_name and (state / "runs" / run_id / FILE_NAME).is_file():
        return run_id
    runs = list_runs(state)
    matches = [run for run in runs if run_id and run.startswith(run_id)]
    if len(matches) != 1:
        meant = matches or get_close_matches(run_id, runs, n=3) or runs[:3]
        raise NotFound(
            f"run {run_id!r}: {'matches several runs' if matches else 'no undo record'} in {state}",
            hint=f"use one of: {', '.join(meant[:5])}"
            if meant
            else ("name another state directory"),
        )
    return matches[0]


def read_undo_record(state: Path, run_id: str) -> Plan:
    """
    Return the plan of a run, named as for `find_run`, whatever was made of it.

    Raises NotFound, and StateFileError where the record is damaged.
    """
    path = state / "runs" / find_run(state, run_id) / FILE_NAME
    try:
        return read_plan(path)
    except UsageError as exc:
        raise StateFileError(
            f"undo record: {exc.problem}", hint="restore it from a backup"
        ) from exc


def list_runs(state: Path) -> list[str]:
    """
    Return the ids of all runs that left an undo record, newest first.

    Raises StateFileError if the state folder cannot be read.
    """
    check_readable(state)
    return sorted((file.parent.name for file in state.glob(f"runs/*/{FILE_NAME}")), reverse=True)
