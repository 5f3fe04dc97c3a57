"""Whether a file that was found, and not named, can be written by other users."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path


def distrust(path: Path) -> str:
    """Return why another user may have written a file; "" if only this user or root can."""
    found = path.stat()
    if found.st_uid not in {os.getuid(), 0}:
        return f"it belongs to {_user(found.st_uid)}"
    if found.st_mode & stat.S_IWOTH:
        return "every user can write it"
    if found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid, found.st_uid):
        return f"the group {_group(found.st_gid)} can write it"
    return ""


def _is_private(group_id: int, user_id: int) -> bool:
    """Whether it is the group that many systems make for each user, of the same name."""
    return group_id == 0 or _group(group_id) == _user(user_id)


def _user(user_id: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(user_id).pw_name
    return f"user {user_id}"


def _group(group_id: int) -> str:
    with suppress(KeyError):
        return grp.getgrgid(group_id).gr_name
    return f"group {group_id}"
