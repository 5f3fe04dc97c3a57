"""Adding to the audit log and reading it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolkit.errors import StateFileError, UsageError
from toolkit.plan import ChangeStatus
from toolkit.storage.audit.chain import (
    HEAD,
    LOCK,
    LOG,
    START,
    ChainPosition,
    LogHead,
    SealedLine,
    open_line,
    read_head,
    seal,
)
from toolkit.storage.audit.entry import AuditEntry, AuditStep, Event
from toolkit.storage.audit.lines import entry_content, read_entry, read_head_of
from toolkit.storage.formats.atomic_files import (
    file_name,
    make_folder,
    not_written,
    sync_folder,
    write_whole,
)
from toolkit.storage.formats.file_lock import PATIENCE_S, exclusively
from toolkit.storage.formats.private_files import open_private

SLACK_BYTES = 65_536  # for the broker's reasons, the head and what the file system needs itself


def append(state: Path, entry: AuditEntry) -> None:
    """
    Add an entry to the log, on the disk before this returns.

    An intent also reserves the room that the outcome of its run will need. Raises StateFileError
    where either cannot be had; the log is then as it was.
    """
    with exclusively(make_folder(state) / LOCK, within_s=PATIENCE_S), _opened(state / LOG) as log:
        size = os.fstat(log).st_size
        line, link = seal(entry_content(entry), _end(log, size, read_head(state)))
        start = b"" if not size or os.pread(log, 1, size - 1) == b"\n" else b"\n"
        try:
            _provide_room(state, entry, len(line))
            _write(log, start + line + b"\n")
            head = LogHead(link, size + len(start) + len(line) + 1)
            write_whole(state / HEAD, head.text, private=True)
        except (OSError, StateFileError) as exc:
            with suppress(OSError):
                os.ftruncate(log, size)
            _give_up_room(state, entry)
            if isinstance(exc, StateFileError):
                raise
            raise not_written(state / LOG, exc) from exc


def has_log(state: Path) -> bool:
    """Return whether a state directory has a log, or the head of one."""
    return (state / LOG).exists() or (state / HEAD).exists()


def read(state: Path) -> Iterator[AuditEntry]:
    """
    Yield the entries of the log in its order; none where there is no log.

    Lines that are torn or changed are left out: `verify` names them. Raises StateFileError where
    the log cannot be read.
    """
    for line in _lines(state):
        yield _entry(state, line)


def unfinished(state: Path) -> list[AuditEntry]:
    """
    Return the intents of runs of which nobody recorded how they ended, oldest first.

    Such a run was cut off or is still going on: only who holds the cluster's lock can tell.
    """
    intents: dict[str, bytes] = {}
    for raw in _raw_lines(state):
        if (run := read_head_of(raw)) is None:
            continue
        if run.event == Event.INTENT:
            intents[run.run_id] = raw
        else:
            intents.pop(run.run_id, None)
    lines = (open_line(raw) for raw in intents.values())
    return [_entry(state, line) for line in lines if line]


def last_runs(
    state: Path, cluster_id: str, groups: Collection[str], *, fingerprint: str
) -> list[AuditEntry]:
    """
    Return how the last runs ended that changed any of these groups, as far as that may matter.

    It may where a run on the cluster ended early or was cut off, or was of the plan with this
    fingerprint. Otherwise nothing is returned, without reading what every run did.
    """
    heads = [(head, raw) for raw in _raw_lines(state) if (head := read_head_of(raw))]
    ends = [(h, raw) for h, raw in heads if h.cluster_id == cluster_id and h.event != Event.INTENT]
    matters = [
        bool(head.event == Event.FOUND or head.interrupted or head.fingerprint == fingerprint)
        for head, _ in ends
    ]
    if not any(matters):
        return []
    waiting, found = set(groups), []
    for _, raw in reversed(ends[matters.index(True) :]):
        if waiting and (line := open_line(raw)):
            entry = _entry(state, line)
            # A run that did nothing to a group leaves it as the run before did.
            touched = {step.group_id for step in entry.steps if _has_touched(step)}
            if touched & waiting:
                found.append(entry)
                waiting -= touched
    return found[::-1]


def _has_touched(step: AuditStep) -> bool:
    statuses = {step.status, *(change.status for change in step.changes)}
    return not statuses.isdisjoint(
        {ChangeStatus.DONE, ChangeStatus.NOT_CONFIRMED, ChangeStatus.FAILED}
    )


def _lines(state: Path) -> Iterator[SealedLine]:
    yield from filter(None, map(open_line, _raw_lines(state)))


def _raw_lines(state: Path) -> Iterator[bytes]:
    path = state / LOG
    try:
        with path.open("rb") as log:
            yield from (raw.removesuffix(b"\n") for raw in log)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise StateFileError(f"audit log {path} cannot be read: {exc.strerror or exc}") from exc


def _entry(state: Path, line: SealedLine) -> AuditEntry:
    try:
        return read_entry(line.content, f"audit log {state / LOG}, entry {line.link.seq}")
    except UsageError as exc:
        hint = "use the offsetbook version that wrote it"
        raise StateFileError(exc.problem, hint=hint) from exc


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    is_new = not path.exists()
    try:
        descriptor = open_private(path, os.O_RDWR | os.O_APPEND)
    except OSError as exc:
        raise not_written(path, exc) from exc
    try:
        if is_new:
            sync_folder(path.parent)
        yield descriptor
    finally:
        os.close(descriptor)


def _end(log: int, size: int, head: LogHead | None) -> ChainPosition:
    """
    Return the place after which to go on: the last whole line, or what the head says of it.

    A killed writer may have left a line that the head does not know. Lines that the head knows and
    the log lacks were removed: going on after the head leaves the gap for `verify` to find.
    """
    known, link = (head.size, head.link) if head else (0, START)
    unknown = os.pread(log, size - known, known) if size > known else b""
    for line in filter(None, map(open_line, unknown.split(b"\n"))):
        link = max(link, line.link, key=lambda place: place.seq)
    return link


def _provide_room(state: Path, entry: AuditEntry, size: int) -> None:
    """Set room for the outcome aside before an intent, and free it before the outcome."""
    reserve = _reserve_of(state, entry)
    if entry.event is not Event.INTENT:
        reserve.unlink(missing_ok=True)
        return
    make_folder(reserve.parent)
    descriptor = open_private(reserve, os.O_WRONLY)
    try:
        os.posix_fallocate(descriptor, 0, 2 * size + SLACK_BYTES)
    finally:
        os.close(descriptor)


def _give_up_room(state: Path, entry: AuditEntry) -> None:
    if entry.event is Event.INTENT:
        with suppress(OSError):
            _reserve_of(state, entry).unlink()


def _reserve_of(state: Path, entry: AuditEntry) -> Path:
    return state / "audit.reserves" / file_name(entry.run.run_id)


def _write(log: int, data: bytes) -> None:
    while data:
        data = data[os.write(log, data) :]
    os.fsync(log)
