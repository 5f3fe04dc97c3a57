"""Folders of the current user, who may have no home: a container under a bare number."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import platformdirs

from toolkit.errors import UsageError

NAME = "offsetbook"


def expanded(path: str | Path) -> Path:
    """Return a path with `~` and `~user` replaced; raises UsageError if there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError as exc:
        raise UsageError(
            f"path {path} begins with the home directory of a user who has none",
            hint="write the whole path, or set HOME",
        ) from exc


def config_folder() -> Path | None:
    """Return where the user keeps settings; None where the user has no home."""
    return _folder(platformdirs.user_config_dir)


def cache_folder() -> Path:
    """Return the folder for what can be fetched again: the user's, or one for temporary files."""
    return _folder(platformdirs.user_cache_dir) or Path(tempfile.gettempdir(), f"{NAME}-cache")


def state_folder() -> Path | None:
    """Return the folder of the user's records; None if the user has no home."""
    return _folder(platformdirs.user_state_dir)


def _folder(of_user: Callable[[str], str]) -> Path | None:
    try:
        return Path(of_user(NAME))
    except RuntimeError:
        return None
