"""
Everything that can go wrong, as one short tree.

    ToolkitError                 exit 1: it failed
    ├── UsageError               exit 2: the request itself is wrong
    │   ├── FleetFileError       the fleet file cannot be used
    │   ├── RunbookError         a runbook cannot be used
    │   └── ParameterError       a notebook parameter is unknown or of the wrong type
    ├── ClusterUnreachable       nobody answered, or what answered does not speak Kafka
    ├── BrokerRefused            a broker answered with an error
    ├── NotFound                 a group or topic that was named does not exist
    ├── Blocked                  exit 3: a guard-rail or a missing approval stops a change
    ├── PartlyApplied            exit 4: a change ended early, and a part of it may be done
    ├── NotCaptured              partitions of a live group could not be held; nothing is held
    ├── HoldLost                 a hold has ended that was not meant to end
    ├── Interrupted              somebody asked it to stop
    ├── RecordFailed             what a change must leave behind could not be written or read
    │   └── OutcomeNotRecorded   exit 4: the change is done, and its outcome is not in the log
    ├── PrerequisiteMissing      a program or file that the step needs is not there
    ├── SandboxFailed            a sandbox broker did not start or stop
    └── RunFailed                a notebook stopped before its end

A message says what was being done and to what, why it failed, and, after "Try:", what to do.
"""

from __future__ import annotations

from typing import ClassVar


class ToolkitError(Exception):
    """Something failed; `str()` is one line that a person can act on."""

    exit_code: ClassVar[int] = 1

    def __init__(self, problem: str, *, hint: str = "") -> None:
        """Say what failed and why in `problem`; say what to try in `hint`."""
        self.problem = " ".join(problem.split())
        self.hint = " ".join(hint.split())
        super().__init__(f"{self.problem}. Try: {self.hint}" if self.hint else self.problem)

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows of it: the sentence, and no code that nobody can act on."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(ToolkitError):
    """The request itself is wrong; nothing was started."""

    exit_code: ClassVar[int] = 2


class FleetFileError(UsageError):
    """The fleet file cannot be found, read or understood."""


class RunbookError(UsageError):
    """A runbook cannot be found, read or understood."""


class ParameterError(UsageError):
    """A notebook parameter is unknown or of the wrong type."""


class ClusterUnreachable(ToolkitError):
    """Nobody answered at the cluster's address, or what answered does not speak Kafka."""


class BrokerRefused(ToolkitError):
    """A broker answered with an error."""


class NotFound(ToolkitError):
    """A group or topic that was named does not exist."""


class Blocked(ToolkitError):
    """A guard-rail or a missing approval stops a change; nothing was changed."""

    exit_code: ClassVar[int] = 3


class NotCaptured(ToolkitError):
    """Partitions of a live group could not be held; nothing new is held."""


class HoldLost(ToolkitError):
    """A hold has ended that was not meant to end: its partitions are read again."""


class Interrupted(ToolkitError):
    """Somebody asked it to stop, and it has put things back in order."""


class RecordFailed(ToolkitError):
    """An undo record or the audit log could not be written or read."""


class PartlyApplied(ToolkitError):
    """A change ended early, and a part of it may be done."""

    exit_code: ClassVar[int] = 4


class OutcomeNotRecorded(RecordFailed):
    """A change was made and read back, and its outcome could not be written."""

    exit_code: ClassVar[int] = 4


class PrerequisiteMissing(ToolkitError):
    """A program or file that the step needs is not there."""


class SandboxFailed(ToolkitError):
    """A sandbox broker did not start or stop."""


class RunFailed(ToolkitError):
    """A notebook stopped before its end."""
