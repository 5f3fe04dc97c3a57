"""
How a secret stands in what people write: as a reference, `${env:NAME}` or `${file:PATH}`.

It is resolved when it is needed, so no record, log line or process list ever has it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

SECRET_SETTINGS = frozenset({"sasl.password", "ssl.key.password"})
REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")
_NAME = r"pass|passwd|passphrase|password|secret|token|credentials?|(api|private|access)[_-]?key"
SECRET_NAME = re.compile(rf"(^|[_.-])({_NAME})s?([_.-]|$)", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"  # a key in PEM
    r"|://[^/\s:@]+:[^/\s@]+@"  # a login in an address
    rf"|(^|[\s;,\"'_.-])({_NAME})s?[\"']?\s*[=:]\s*(?!\$\{{)\S",  # password=..., but no reference
    re.IGNORECASE,
)


def looks_secret(text: str) -> bool:
    """Whether a text seems to hold a secret itself: a key, a login in an address, `password=`."""
    return _SECRET_VALUE.search(text) is not None


def resolved(text: str) -> str:
    """Return a text with its references looked up; LookupError names one that is missing."""
    return REFERENCE.sub(_look_up, text)


def _look_up(match: re.Match[str]) -> str:
    kind, where = match.groups()
    try:
        return os.environ[where] if kind == "env" else Path(where).read_text("utf-8").strip()
    except (KeyError, OSError, UnicodeDecodeError) as exc:
        missing = "is not set" if kind == "env" else "cannot be read as text"
        raise LookupError(f"{match.group()}, which {missing}") from exc
