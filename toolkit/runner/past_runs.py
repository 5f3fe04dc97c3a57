"""The runs that were made in a folder, and the page that lists them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from toolkit.errors import UsageError
from toolkit.report.runs_index import RunRow, write_index
from toolkit.runner.result import FILE_NAME, InvalidResultFile, read_result

INDEX_NAME = "index.html"
NO_RESULT = "no result"
_REMOVING = ".removing-"


def refresh_index(folder: Path) -> Path:
    """
    Write `index.html` into a folder of runs and return its path.

    Raises UsageError where there is no such folder, or the page cannot be written into it.
    """
    path = folder / INDEX_NAME
    try:
        write_index(past_runs(folder), path, of=folder.resolve().name)
    except OSError as exc:
        raise UsageError(
            f"the list of runs cannot be written to {folder}: {exc.strerror or exc}",
            hint="pass a directory that offsetbook run created, such as runs",
        ) from exc
    return path


def past_runs(folder: Path) -> list[RunRow]:
    """
    Return a row for each run in a folder, the newest first.

    If `result.json` is missing or broken, the row says so; folders without a notebook and without
    a result are no runs. Raises OSError where the folder cannot be listed.
    """
    found = []
    for inside in folder.iterdir():
        with suppress(FileNotFoundError):  # removed meanwhile
            found += [_row(inside)] if _is_run(inside) else []
    return [row for _, row in sorted(found, key=lambda pair: pair[0], reverse=True)]


def remove_old(folder: Path, runbook: str, *, older_than: timedelta) -> int:
    """
    Remove the folders of a runbook's runs that ended longer ago, and return how many.

    The newest run on each cluster always stays, and so does every folder whose `result.json` does
    not say that it is one of them: a run without a result should be looked at by a person. Undo
    records and the audit log are elsewhere. What cannot be removed stays, too.
    """
    before, newest, removed = datetime.now(UTC) - older_than, set(), 0
    for inside, result in _newest_first(folder, runbook):
        clusters = tuple(result["clusters"])
        if clusters not in newest:
            newest.add(clusters)
        elif datetime.fromisoformat(result["finished"]) < before:
            removed += _is_removed(inside)
    return removed


def _is_removed(run: Path) -> bool:
    """Remove the folder of a run; one that is half removed is none in the eyes of others."""
    hidden = run.with_name(f"{_REMOVING}{run.name}")
    try:
        run.rename(hidden)
    except OSError:  # another process removes it, or it may not be removed
        return False
    shutil.rmtree(hidden, ignore_errors=True)
    if is_left := (hidden / FILE_NAME).exists():  # of another user
        hidden.rename(run)
    return not is_left


def _newest_first(folder: Path, runbook: str) -> list[tuple[Path, dict[str, Any]]]:
    found = []
    for left in folder.glob(f"{_REMOVING}*"):
        shutil.rmtree(left, ignore_errors=True)
    for inside in folder.iterdir():
        with suppress(InvalidResultFile):
            if inside.is_dir() and not inside.is_symlink():
                result = read_result(inside)
                if result.get("runbook") == runbook:
                    found.append((datetime.fromisoformat(result["started"]), inside, result))
    found.sort(key=lambda run: run[:2], reverse=True)
    return [(inside, result) for _, inside, result in found]


def _is_run(folder: Path) -> bool:
    if not folder.is_dir() or folder.name.startswith("."):
        return False
    try:
        return (folder / FILE_NAME).exists() or any(folder.glob("*.ipynb"))
    except OSError:
        return True  # it may be one: its row says why it cannot be read


def _row(folder: Path) -> tuple[tuple[datetime, str], RunRow]:
    try:
        result = read_result(folder)
    except InvalidResultFile as exc:
        # The time of the last write to its folder says most about a run without a result.
        touched = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
        notebook = next((path.stem for path in sorted(folder.glob("*.ipynb"))), "")
        report = "report.html" if (folder / "report.html").is_file() else ""
        row = RunRow(folder.name, NO_RESULT, str(exc), notebook=notebook, report=report)
        return (touched, folder.name), row
    began, ended = (datetime.fromisoformat(result[name]) for name in ("started", "finished"))
    error = result["error"]
    row = RunRow(
        folder=folder.name,
        status=_status(result),
        summary=result["summary"] if not error else _why(error),
        notebook=result.get("runbook") or result["notebook"],
        clusters=tuple(result["clusters"]),
        changed=_changed(result),
        problems=result["counts"].get("problems"),
        began=began,
        # If the clock was set back meanwhile, the duration is unknown.
        took_s=(ended - began).total_seconds() if ended >= began else None,
        who=result["who"],
        report=_report(folder, result["report"]),
    )
    return (began, folder.name), row


def _status(result: Mapping[str, Any]) -> str:
    is_dry = result["status"] == "done" and result["parameters"].get("dry_run") is True
    return "dry run" if is_dry else str(result["status"])


def _why(error: Mapping[str, Any]) -> str:
    return f"{error['step']}: {error['reason']}" if error["step"] else str(error["reason"])


def _changed(result: Mapping[str, Any]) -> str:
    """Say whether a run changed a cluster, as far as that is known."""
    changed = result["counts"].get("changed")
    if changed:
        undo = f"; undo {result['undo']}" if result["undo"] else ""
        return f"{changed:,}{undo}"
    dry_run = result["parameters"].get("dry_run")
    if changed == 0 or dry_run is True or result["status"] == "blocked":
        return "nothing"
    if dry_run is None:
        return "nothing" if result["status"] == "done" else "no details"
    return "nothing" if result["status"] == "done" else "unknown"


def _report(folder: Path, name: str | None) -> str:
    """Return the name of the report, where it is a file right in that folder."""
    is_there = name and name == Path(name).name and (folder / name).is_file()
    return name if name and is_there else ""
