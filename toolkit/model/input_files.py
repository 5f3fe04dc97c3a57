"""Read files that the operator names: only regular ones, and none that exceeds the memory."""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from itertools import islice
from pathlib import Path

KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
MOST_BYTES = 2**30  # JSON takes ten times its size in memory
PART = 2**20


def read_input(path: Path, *, most_bytes: int = MOST_BYTES) -> bytes:
    """
    Return the content of a regular file.

    Raises OSError, as opening a file does, for anything else and for a file that is too large: a
    pipe may never end, and a device never does.
    """
    # Without O_NONBLOCK, opening a pipe waits until another process writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            kind = KINDS.get(stat.S_IFMT(mode), "no regular file")
            raise OSError(errno.EINVAL, f"it is {kind}; pass a regular file", str(path))
        # In parts: what one call may read is allocated at once.
        parts = iter(partial(file.read, PART), b"")
        content = b"".join(islice(parts, most_bytes // PART + 1))
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes // 2**20} MiB", str(path))
    return content
