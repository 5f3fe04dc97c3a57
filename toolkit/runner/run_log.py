"""`run.log`: what happened when in a run, and what its kernel printed outside of any cell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

NAME = "run.log"


class RunLog:
    """Lines with their time, in a file that the kernel appends to as well."""

    def __init__(self, file: IO[bytes]) -> None:
        """Write to an open, unbuffered file."""
        self.file = file

    def say(self, text: str) -> None:
        """Add a line. A log that cannot be written must not stop the run."""
        line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {' '.join(text.split())}\n"
        with suppress(OSError):
            self.file.write(line.encode("utf-8", "backslashreplace"))


@contextmanager
def run_log(folder: Path) -> Iterator[RunLog]:
    """Open the log of a run; if that fails, its output is dropped."""
    path = folder / NAME
    with suppress(OSError):
        path.touch()
    with (path if os.access(path, os.W_OK) else Path(os.devnull)).open("ab", buffering=0) as file:
        yield RunLog(file)
