"""
The group names that the last listing of each cluster found, for completion at a shell.

For this user alone; they may be out of date, missing or deleted at any time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from toolkit.errors import StateFileError
from toolkit.storage.formats.atomic_files import file_name, make_folder, write_whole
from toolkit.storage.formats.user_folders import state_folder


def keep_group_names(servers: str, names: Iterable[str]) -> None:
    """Replace what is known of the cluster with these bootstrap servers, where it has changed."""
    found, path = sorted(set(names)), _path(servers)
    if path and found != group_names(servers):
        # What only helps to type must not fail the command that read the cluster.
        with suppress(StateFileError):
            make_folder(path.parent)
            write_whole(path, json.dumps(found), private=True)


def group_names(servers: str) -> list[str]:
    """Return the names in order; none where no listing is known or it cannot be read."""
    path = _path(servers)
    try:
        known = json.loads(path.read_text("utf-8")) if path else []
    except (OSError, ValueError):
        return []
    return [name for name in known if isinstance(name, str)] if isinstance(known, list) else []


def _path(servers: str) -> Path | None:
    folder = state_folder()
    return folder and folder / "groups" / f"{file_name(servers)}.json"
