"""
Check the fleet file and the state directory.

No row has a path that somebody chose, nor a value from the file: a mistake is named by its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from toolkit.errors import FleetFileError, ToolkitError
from toolkit.journeys.doctor.check_row import CheckRow, error, ok, unknown, warn
from toolkit.model.names import shown_name
from toolkit.model.plurals import counted
from toolkit.operate.orphaned_holds import holds_without_keeper
from toolkit.storage import fleet_file as fleet_files
from toolkit.storage import state_folder
from toolkit.storage.fleet_file import find_fleet_file, found_fleet_file, load_fleet, state_entry
from toolkit.storage.state_folder import open_to_others, state_dir

FLEET, STATE = "fleet file", "state directory"
PLACE = re.compile(r"line \d+, column \d+")


def fleet_file_row(given: Path | None) -> CheckRow:
    """Return which fleet file is used, and whether it can be read."""
    try:
        path = find_fleet_file(given)
    except FleetFileError:
        if found := found_fleet_file():
            why = "was found, but not used: other users can write it, or it belongs to one"
            hint = "correct its owner and permissions, or name it with --fleet"
            return error(FLEET, "used", f"{_relative(found)} {why}", hint)
        hint = "'offsetbook fleet add NAME' writes one; a command also takes --cluster HOST:PORT"
        return warn(FLEET, "used", "none was found", hint)
    origin = _origin(path, given)
    try:
        fleet = load_fleet(path)
    except FleetFileError as exc:
        hint = "'offsetbook fleet list' tells what is wrong"
        return error(FLEET, "used", f"{origin}: {_mistake(exc)}", hint)
    return ok(FLEET, "used", f"{origin}: {counted(len(fleet), 'cluster')}")


def state_rows(given: Path | None) -> Iterator[CheckRow]:
    """Yield which state directory is used, its permissions, and holds that lost their keeper."""
    try:
        state = state_dir(given)
        origin = _state_origin(given)
    except FleetFileError:
        yield unknown(STATE, "used", "the fleet file, which may name it, cannot be read")
        return
    yield _writable_row(state, origin)
    yield _permissions_row(state)
    yield _holds_row(state)


def _origin(path: Path, given: Path | None) -> str:
    if given:
        return "the one that is named"
    if os.environ.get(fleet_files.VARIABLE):
        return f"${fleet_files.VARIABLE}"
    return _relative(path)


def _relative(found: Path) -> str:
    """Return how a fleet file that was looked for is reached from here, without its path."""
    for up, folder in enumerate((Path.cwd(), *Path.cwd().parents[:2])):
        if found.is_relative_to(folder):
            return str(Path(*[".."] * up, found.relative_to(folder)))
    return "fleet.yaml in the user's configuration directory"


def _mistake(exc: FleetFileError) -> str:
    if isinstance(exc.__cause__, OSError):
        return f"it cannot be read: {exc.__cause__.strerror}"
    place = PLACE.search(exc.problem)
    return f"it cannot be used: {place[0] if place else 'it has no clusters, or is not YAML'}"


def _state_origin(given: Path | None) -> str:
    if os.environ.get(state_folder.VARIABLE):
        return f"${state_folder.VARIABLE}"
    try:
        path = find_fleet_file(given)
    except FleetFileError:
        path = None
    if path and state_entry(path):
        return "named in the fleet file"
    return "the user's state directory"


def _writable_row(state: Path, origin: str) -> CheckRow:
    check = "used"
    there = next(folder for folder in (state, *state.parents) if folder.exists())
    if not there.is_dir():
        return error(STATE, check, f"{origin}: a file is in its place", "name another directory")
    if not os.access(there, os.W_OK | os.X_OK):
        hint = "correct its permissions: changes need undo records and the audit log"
        return error(STATE, check, f"{origin}: it cannot be written", hint)
    is_new = there != state
    return ok(STATE, check, f"{origin}: {'it will be created' if is_new else 'it can be written'}")


def _permissions_row(state: Path) -> CheckRow:
    check = "permissions"
    try:
        found = open_to_others(state)
    except OSError as exc:
        return unknown(STATE, check, f"it cannot be listed: {exc.strerror}")
    if found:
        told = found.replace(str(state), "STATE")
        return warn(STATE, check, told, "STATE is the state directory")
    return ok(STATE, check, "nothing is open to every user of this machine")


def _holds_row(state: Path) -> CheckRow:
    check = "holds"
    try:
        left = [record for _, record in holds_without_keeper(state)]
    except (ToolkitError, OSError):
        return unknown(STATE, check, "hold files cannot be read")
    if left:
        groups = ", ".join(map(shown_name, sorted({record.group_id for record in left})))
        hint = (
            "'offsetbook paused-partitions' shows what is still held; 'offsetbook resume' ends it"
        )
        finding = f"{counted(len(left), 'hold')} without a keeper, of {groups}"
        return warn(STATE, check, finding, hint)
    return ok(STATE, check, "none without a keeper")
