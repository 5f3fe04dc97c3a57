"""
Write files atomically, for their owner and a group with which the directory is shared.

A directory that its group may write, and others may not, was shared on purpose (`chmod 2770`): what
is made in it is for the group too. Everything else is for its owner alone, whatever the umask.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from toolkit.errors import StateFileError
from toolkit.model.input_files import KINDS, MOST_BYTES

# The path of a socket has at most 107 bytes on Linux, and 103 on macOS.
LONGEST_SOCKET_FOLDER = 103 - len("/offsetbook-12345678/keeper")

LONGEST_NAME = 100  # bytes; file systems take 255, and endings are still to come


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


def write_whole(
    path: Path, text: str | Iterable[str], *, errors: str = "strict", private: bool = False
) -> None:
    """
    Put a file in place in one piece, on the disk before this returns.

    `text` may come in parts, not all in memory at once. `errors` is what becomes of a lone
    surrogate, as in `str.encode`. `private` files are for whom the folder is for;
    others keep the permissions of the file that they replace, and a new one is for whom the umask
    lets. Raises StateFileError that names the file; what was there before then stays. Only a
    regular file is replaced.
    """
    is_replaced = check_regular(path)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        opener = open_private if private else None
        with open(partial, "x", encoding="utf-8", errors=errors, opener=opener) as file:
            if is_replaced and not private:
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            file.writelines([text] if isinstance(text, str) else text)
            file.flush()
            _check_size(file.fileno())
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as exc:
        raise not_written(path, exc) from exc
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _check_size(descriptor: int) -> None:
    """Raise OSError for a file that could not be read again, such as an undo record."""
    if os.fstat(descriptor).st_size > MOST_BYTES:
        problem = f"it is larger than the {MOST_BYTES // 2**20} MiB that can be read again"
        raise OSError(errno.EFBIG, problem)


def check_regular(path: Path) -> bool:
    """
    Return whether a file exists; raises StateFileError if it is a link, a device, a pipe.

    Put a file in the place of /dev/null, as root, and every program writes to that file.
    """
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as exc:
        raise not_written(path, exc) from exc
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise StateFileError(
            f"{path} is {kind}; it was not replaced", hint="name a new or a regular file"
        )
    return True


def make_folder(path: Path) -> Path:
    """
    Make a private folder and those above it, on the disk before this returns.

    Raises StateFileError.
    """
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            with suppress(FileExistsError):  # another process made it meanwhile
                make_private(folder)
            sync_folder(folder.parent)
        path.mkdir(exist_ok=True)  # raises where a file is in the way
    except OSError as exc:
        raise not_written(path, exc) from exc
    return path


def sync_folder(path: Path) -> None:
    """Make names in a folder last: a renamed file may otherwise be gone after a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_name(name: str) -> str:
    """
    Return a file name for a name that came from a cluster: no folder, no dot, of bounded length.

    Different names get different file names.
    """
    escaped = quote(name, safe="", errors="surrogatepass").replace(".", "%2E")
    if escaped and len(escaped) <= LONGEST_NAME:
        return escaped
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digest}.{escaped[: LONGEST_NAME - len(digest) - 1]}"


def not_written(path: Path, exc: OSError) -> StateFileError:
    """Return the error that says which file could not be written, and the system's reason."""
    is_full = exc.errno in {errno.ENOSPC, errno.EDQUOT}
    return StateFileError(
        f"{path} cannot be written: {exc.strerror or exc}",
        hint="free disk space" if is_full else "check that directory and its permissions",
    )
