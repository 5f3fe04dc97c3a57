"""
Hold files: the state of a hold, complete enough for a standby keeper to continue it.

There is one for each group of a cluster, `holds/<cluster>/<group>.json` in the state folder. The
process that holds the partitions, the keeper, has a lock on a second file for as long as it lives,
however it ends; so a process that can take that lock knows that no keeper is running.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from toolkit.errors import Blocked, StateFileError
from toolkit.model import CaptureMode, Cluster, GroupType, HoldNote, Member, TopicPartition
from toolkit.storage.formats.atomic_files import file_name, make_folder, write_whole
from toolkit.storage.formats.file_lock import lock_file, lock_within, try_lock
from toolkit.storage.formats.json_codec import utc_text
from toolkit.storage.state_folder import check_readable


class HoldStatus(StrEnum):
    """State of a hold."""

    STARTING = "starting"  # partitions are being captured
    HELD = "held"
    ENDED = "ended"  # nothing is held; `words` has the reason


class PlannedEnd(StrEnum):
    """Why a hold ended, where it ended as planned."""

    RESUMED = "resumed"  # through its keeper, by a run that is in the audit log
    TIME_OVER = "the pause duration has ended"


@dataclass(frozen=True, slots=True)
class HoldRecord:
    """
    One hold: its group, its request, and its status.

    `members` is the state of the members, from which another keeper continues;
    `socket` is where it listens; `words` say what it is doing, or how it ended. `planned_end` is
    None for as long as it has not ended, and where it ended otherwise. `added_until` says when what
    a move has added is resumed, should the move have died.
    """

    run_id: str
    cluster: Cluster
    cluster_id: str
    group_id: str
    type: GroupType
    assignor: str
    wanted: tuple[TopicPartition, ...]
    prefer: CaptureMode
    note: HoldNote
    status: HoldStatus = HoldStatus.STARTING
    words: str = ""
    planned_end: PlannedEnd | None = None
    held: tuple[TopicPartition, ...] = ()
    members: Mapping[str, Any] = field(default_factory=dict)
    added_until: Mapping[TopicPartition, datetime] = field(default_factory=dict)
    socket: str = ""
    pid: int = 0

    def held_in(self, paused: Mapping[TopicPartition, Member]) -> frozenset[TopicPartition]:
        """Return which of the paused partitions of a group the members of this hold have."""
        own = {self.members.get("member_id")}
        own |= {holder["member_id"] for holder in self.members.get("holders", ())}
        return frozenset(p for p in self.held if p in paused and paused[p].member_id in own)


def hold_path(state: Path, cluster_id: str, group_id: str) -> Path:
    return state / "holds" / file_name(cluster_id) / f"{file_name(group_id)}.json"


def list_holds(state: Path) -> list[Path]:
    """Return the hold files of a state folder; raises StateFileError if it cannot be read."""
    check_readable(state)
    return sorted((state / "holds").glob("*/*.json"))


def write_hold(path: Path, record: HoldRecord) -> None:
    """Write a hold file, whole and on the disk before this returns; raises StateFileError."""
    make_folder(path.parent)
    write_whole(path, json.dumps(_content(record), indent=1) + "\n", private=True)


def read_hold(path: Path) -> HoldRecord | None:
    """Return the record in a hold file, None if there is none; raises StateFileError."""
    try:
        return _record(json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StateFileError(f"hold file {path} cannot be read: {exc.strerror or exc}") from exc
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise StateFileError(
            f"hold file {path} is damaged: {exc}",
            hint="list and resume holds without it: offsetbook paused-partitions",
        ) from exc


def note_released(path: Path, partitions: frozenset[TopicPartition]) -> None:
    """Write down that partitions were resumed, if no keeper is there to do so."""
    # A damaged file says of nothing that it is held.
    with suppress(Blocked, StateFileError), keeper_lock(path):
        record = read_hold(path)
        if record and record.status is HoldStatus.HELD and partitions.intersection(record.held):
            if held := tuple(place for place in record.held if place not in partitions):
                write_hold(path, replace(record, held=held))
            else:
                end = PlannedEnd.RESUMED
                ended = replace(
                    record, status=HoldStatus.ENDED, words=end, planned_end=end, held=()
                )
                write_hold(path, ended)


def has_live_keeper(path: Path) -> bool:
    """Return whether a live keeper owns the hold; safe to call concurrently."""
    with _lock_file(path) as descriptor:
        return not try_lock(descriptor, shared=True)


@contextmanager
def keeper_lock(path: Path, *, within_s: float = 0) -> Iterator[None]:
    """Become the only keeper of a hold; raises Blocked if another one remains."""
    with _lock_file(path) as descriptor:
        if not lock_within(descriptor, within_s):
            raise Blocked(f"another keeper owns the hold of {path}")
        yield


def _lock_file(path: Path) -> AbstractContextManager[int]:
    return lock_file(path.with_name(f"{path.stem}.lock"))


def _content(record: HoldRecord) -> dict[str, Any]:
    note = record.note
    content = {name.name: getattr(record, name.name) for name in fields(record)}
    return content | {
        "cluster": {
            "name": record.cluster.name,
            "bootstrap_servers": record.cluster.bootstrap_servers,
            "settings": dict(record.cluster.settings),  # secrets are references here
            "timeout_s": record.cluster.timeout_s,
        },
        "added_until": [[*one, utc_text(at)] for one, at in sorted(record.added_until.items())],
        "note": asdict(note)
        | {
            "since": note.since and utc_text(note.since),
            "until": note.until and utc_text(note.until),
        },
    }


def _record(content: dict[str, Any]) -> HoldRecord:
    note = content["note"]
    record = HoldRecord(**content)
    return replace(
        record,
        cluster=Cluster(**content["cluster"]),
        type=GroupType(record.type),
        prefer=CaptureMode(record.prefer),
        status=HoldStatus(record.status),
        planned_end=PlannedEnd(record.planned_end) if record.planned_end else None,
        wanted=tuple(TopicPartition(*pair) for pair in record.wanted),
        held=tuple(TopicPartition(*pair) for pair in record.held),
        added_until={
            TopicPartition(topic, number): datetime.fromisoformat(at)
            for topic, number, at in content.get("added_until", ())
        },
        note=HoldNote(**{**note, "since": _time(note["since"]), "until": _time(note["until"])}),
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
