"""
Resolve secret references: `${env:NAME}`, `${file:PATH}` and `${property:PATH:NAME}`.

They are resolved when needed, so no record, log line or process list contains a secret.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.model import client_properties

REFERENCE = re.compile(r"\$\{(env|file|property):([^}]+)\}")
LONGEST = 65_536  # characters of a secret in a file
_NAME = r"pass|passwd|passphrase|password|secret|token|credentials?|(api|private|access)[_-]?key"
SECRET_NAME = re.compile(rf"(^|[_.-])({_NAME})s?([_.-]|$)", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"  # a key in PEM
    r"|://[^/\s:@]+:[^/\s@]+@"  # a login in an address
    rf"|(^|[\s;,\"'_.-])({_NAME})s?[\"']?\s*[=:]\s*(?!\$\{{)\S",  # password=..., but no reference
    re.IGNORECASE,
)


def looks_secret(text: str) -> bool:
    """Return whether a text seems to contain a secret: a key, a login in a URL, `password=`."""
    return _SECRET_VALUE.search(text) is not None


def resolved(text: str) -> str:
    """Return a text with its references resolved; raises LookupError for a missing one."""
    return REFERENCE.sub(_look_up, text)


def _start_of(path: Path) -> str:
    """Return the text of a file, which may be a pipe: no secret is longer than this."""
    with path.open(encoding="utf-8-sig") as file:  # a byte order mark is no part of a secret
        return file.read(LONGEST)


def _look_up(match: re.Match[str]) -> str:
    kind, where = match.groups()
    try:
        match kind:
            case "env":
                return os.environ[where]
            case "file":
                return _start_of(Path(where)).strip()
        path, _, name = where.rpartition(":")
        return client_properties.secret_in(Path(path), name)
    except (KeyError, OSError, UnicodeDecodeError, UsageError) as exc:
        missing = "cannot be read as text" if kind == "file" else "is not set"
        raise LookupError(f"{match.group()}, which {missing}") from exc
