"""Who is at the keyboard, for locks and the audit log."""

from __future__ import annotations

import getpass
import socket
from typing import NamedTuple, Self


class Operator(NamedTuple):
    """A user on a host."""

    who: str
    host: str

    @classmethod
    def here(cls) -> Self:
        """Return the user and host of this process; "?" where the system knows no name."""
        try:
            who = getpass.getuser()
        except (KeyError, OSError):  # a container that runs under a bare number
            who = "?"
        return cls(who, socket.gethostname())
