"""The operator, for locks, the audit log and the results of runs."""

from __future__ import annotations

import os
import pwd
import socket
from typing import NamedTuple, Self


class Operator(NamedTuple):
    """A user on a host."""

    who: str
    host: str

    @classmethod
    def here(cls) -> Self:
        """Return the user and host of this process, and who it was before sudo."""
        who = _name(os.getuid())
        if before := os.environ.get("SUDO_UID", ""):
            who += f" (sudo by {_name(int(before)) if before.isdecimal() else before})"
        return cls(who, socket.gethostname())

    @property
    def at_host(self) -> str:
        """The operator as one text: `ana@host`."""
        return f"{self.who}@{self.host}"


def _name(number: int) -> str:
    # Not $LOGNAME or $USER, which the user may set at will.
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # a container that runs under a bare number
        return str(number)
