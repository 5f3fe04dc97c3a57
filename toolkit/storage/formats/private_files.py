"""
Who may open the files of a state directory: its owner, and a group with which it is shared.

A directory that its group may write, and others may not, was shared on purpose (`chmod 2770`): what
is made in it is for the group too. Everything else is for its owner alone, whatever the umask.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

# The path of a socket has at most 107 bytes on Linux, and 103 on macOS.
LONGEST_SOCKET_FOLDER = 103 - len("/offsetbook-12345678/keeper")


def private_mode(path: Path) -> int:
    """Return the permissions of a file or folder that is about to be made at a path."""
    folder = path.parent.stat().st_mode
    is_shared = folder & stat.S_IWGRP and not folder & stat.S_IWOTH
    return stat.S_IRWXU | stat.S_IRWXG if is_shared else stat.S_IRWXU


def make_private(folder: Path) -> None:
    """Make a folder; raises OSError."""
    folder.mkdir(mode=stat.S_IRWXU)
    # The group that a shared directory hands down stays.
    inherited = folder.stat().st_mode & stat.S_ISGID
    folder.chmod(private_mode(folder) | inherited)


def folder_for_sockets() -> str:
    """Return the folder for temporary files, or `/tmp` where paths of sockets would be too long."""
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) <= LONGEST_SOCKET_FOLDER else "/tmp"  # noqa: S108 - its users make a private folder in it


def open_private(path: Path | str, flags: int) -> int:
    """Open a file, made where there is none, as an opener of `open`; raises OSError."""
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
    except FileExistsError:
        return os.open(path, flags | os.O_CREAT, stat.S_IRUSR | stat.S_IWUSR)
    os.fchmod(descriptor, private_mode(Path(path)) & 0o660)
    return descriptor


def open_to_everybody(folder: Path) -> Iterator[Path]:
    """Yield what every user of the machine can open in a folder, which need not exist."""
    if not folder.exists():
        return
    if folder.stat().st_mode & stat.S_IRWXO:
        yield folder
    if folder.stat().st_mode & stat.S_IXOTH:  # no user gets through a folder without it
        inside = sorted(path for path in folder.iterdir() if not path.is_symlink())
        for path in inside:
            if path.is_dir():
                yield from open_to_everybody(path)
            elif path.stat().st_mode & stat.S_IRWXO:
                yield path
