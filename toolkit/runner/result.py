"""How a run ended, and the `result.json` that says so."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from toolkit.errors import RunFailed, StateFileError
from toolkit.model.input_files import read_input
from toolkit.report.run_command import offsetbook_command
from toolkit.storage.formats.atomic_files import write_whole

FILE_NAME = "result.json"
MOST_BYTES = 5_000_000  # no run writes as much


class RunStatus(StrEnum):
    """How a run ended."""

    DONE = "done"  # exit 0; also when there was nothing to do
    FAILED = "failed"  # exit 1, or 2 when the request was wrong
    BLOCKED = "blocked"  # exit 3: a guard-rail or a missing approval; nothing was changed
    PARTLY_APPLIED = "partly-applied"  # exit 4
    INCOMPLETE = "incomplete"  # exit 4: it only looked, and could not see everything
    INTERRUPTED = "interrupted"  # exit 1: it was stopped by a person or a process
    TIMED_OUT = "timed-out"  # exit 1: it was interrupted because it took too long
    KERNEL_DIED = "kernel-died"  # exit 1: how far the running cell came is not known


@dataclass(frozen=True, slots=True)
class StepFailed:
    """The cell at which a run stopped, and why in one line."""

    reason: str
    cell: int | None = None  # index in the executed notebook, from 0; None: between cells
    step: str = ""  # the heading of the cell


@dataclass(frozen=True, slots=True)
class RunResult:
    """
    The result of one run of a notebook.

    `result.json` holds these fields; `result.schema.json` in this folder says what each is.
    The file is written last and in one piece: where it is missing, the run did not end.
    """

    notebook: str
    runbook: str | None
    status: RunStatus
    exit_code: int
    summary: str
    counts: Mapping[str, int]
    undo: str | None
    error: StepFailed | None
    parameters: Mapping[str, object]
    clusters: tuple[str, ...]
    cluster_ids: Mapping[str, str | None]
    started: datetime
    finished: datetime
    who: str
    version: str
    folder: Path
    report: str | None = None
    notebook_digest: str | None = None

    def as_dict(self) -> dict[str, object]:
        """The content of `result.json`, in its order."""
        return asdict(self) | {
            "status": str(self.status),
            "counts": dict(self.counts),
            "parameters": dict(self.parameters),
            "clusters": list(self.clusters),
            "cluster_ids": dict(self.cluster_ids),
            "started": self.started.isoformat(),
            "finished": self.finished.isoformat(),
            "folder": str(self.folder),
        }

    @property
    def message(self) -> str:
        return message_of(self.as_dict())

    def write(self) -> Path:
        """Write `result.json` into the run's folder: whole or not at all; raises RunFailed."""
        path = self.folder / FILE_NAME
        text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False)
        try:
            # A lone surrogate in a name from a cluster must not cost the whole result.
            write_whole(path, f"{text}\n", errors="backslashreplace")
        except StateFileError as exc:
            undo = f"; undo: {undo_command(self.undo, self.parameters)}" if self.undo else ""
            raise RunFailed(
                f"the run ended ({self.status}: {self.message}){undo}, but {exc.problem}",
                hint="free disk space; see the audit log for what was changed",
            ) from exc
        return path


def message_of(result: Mapping[str, Any]) -> str:
    """Return what a run did, and why it stopped and where, in one line; see `read_result`."""
    error, changed = result["error"], result["counts"].get("changed", 0)
    if error is None:
        return str(result["summary"])
    where = f"at {error['step']!r}: " if error["step"] else ""
    return f"{where}{error['reason']}" + (f"; changed: {changed}" if changed else "")


def undo_command(run_id: str, parameters: Mapping[str, Any]) -> str:
    """Return the command that undoes a run of a notebook with these parameters."""
    return offsetbook_command("undo", run_id, fleet_file=parameters.get("fleet_file"))


class InvalidResultFile(ValueError):
    """A file is no `result.json`; `str()` says why in a few words."""


def read_result(folder: Path) -> dict[str, Any]:
    """
    Return the content of the `result.json` in a folder, with the fields that `RunResult` names.

    Raises InvalidResultFile where there is none, where it cannot be read, or is not valid.
    """
    path = folder / FILE_NAME
    try:
        content = json.loads(read_input(path, most_bytes=MOST_BYTES).decode())
    except FileNotFoundError:
        why = f"no {FILE_NAME}: the run is still in progress, or was killed"
        raise InvalidResultFile(why) from None
    except OSError as exc:
        raise InvalidResultFile(f"{FILE_NAME} cannot be read: {exc.strerror or exc}") from exc
    except (UnicodeDecodeError, RecursionError, json.JSONDecodeError) as exc:
        raise InvalidResultFile(f"{FILE_NAME} is not JSON") from exc
    if not isinstance(content, dict):
        raise InvalidResultFile(f"{FILE_NAME} is not an object")
    for name in _KINDS:
        if name not in content or not _is_valid(name, content[name]):
            raise InvalidResultFile(f"in {FILE_NAME}, {name} is missing or invalid")
    return content


def digest_of(notebook: Path) -> str | None:
    """Return the SHA-256 of an executed notebook; None where there is none to read."""
    try:
        return hashlib.sha256(notebook.read_bytes()).hexdigest()
    except OSError:
        return None


def is_time(value: object) -> bool:
    """Whether a value is an instant with its zone, as text in ISO 8601."""
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


# Of the fields that readers need; a result may have more.
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("notebook", "status", "summary", "who", "version"), str),
    **dict.fromkeys(("started", "finished"), str),
    **dict.fromkeys(("undo", "report"), str | None),
    "error": dict | None,
    "counts": dict,
    "clusters": list,
    "parameters": dict,
}


def _is_valid(name: str, value: Any) -> bool:
    if not isinstance(value, _KINDS[name]):
        return False
    if name in {"started", "finished"}:
        return is_time(value)
    if name == "error":
        return value is None or _are_texts([value.get("reason"), value.get("step")])
    if name == "counts":
        return all(type(number) is int for number in value.values())
    return name != "clusters" or _are_texts(value)


def _are_texts(values: list[object]) -> bool:
    return all(isinstance(value, str) for value in values)
