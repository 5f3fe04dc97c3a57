"""Where a history may be, checked before Spark is started for it."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from toolkit.errors import UsageError


def check_root(root: str) -> None:
    """
    Refuse a local folder that cannot hold a history; raises UsageError.

    Of other file systems only Spark knows, so that a URL with another scheme is left alone.
    """
    url = urlsplit(root)
    if url.scheme not in {"", "file"}:
        return
    folder = Path(unquote(url.path) if url.scheme else root)
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UsageError(f"the history {root} cannot be there: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"the history {root} cannot be written: no permission for {there}")
