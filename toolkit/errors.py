"""
Exception hierarchy.

    ToolkitError                 exit 1: it failed
    ├── UsageError               exit 2: the request itself is wrong
    │   ├── FleetFileError       the fleet file cannot be used
    │   ├── RunbookError         a runbook cannot be used
    │   ├── OutOfDate            a cell above has run again since the plan was made
    │   └── ParameterError       a notebook parameter is unknown or of the wrong type
    ├── ClusterUnreachable       no response, or not a Kafka broker
    ├── BrokerRefused            a broker returned an error
    ├── NotFound                 a named group or topic does not exist
    ├── Blocked                  exit 3: a guard rail or a missing approval blocks a change
    ├── PartlyApplied            exit 4: a change was interrupted, and may be partly done
    ├── NotCaptured              partitions of a live group could not be held; nothing is held
    ├── HoldLost                 a hold ended unexpectedly
    ├── Interrupted              the operation was interrupted
    ├── StateFileError           an undo record or the audit log could not be written or read
    │   └── OutcomeNotRecorded   exit 4: the change is done, but its result is not in the log
    ├── PrerequisiteMissing      a required program or file is missing
    ├── SeveralMissing           several of these at once
    ├── SandboxFailed            a sandbox broker did not start or stop
    └── RunFailed                a notebook stopped before its end

A message names the operation and its subject, the cause, and, after "Try:", what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar


class ToolkitError(Exception):
    """Base class; `str()` is one line with the problem and a hint."""

    exit_code: ClassVar[int] = 1

    def __init__(self, problem: str, *, hint: str = "") -> None:
        """`problem`: what failed and why; `hint`: what to try."""
        self.problem = _one_line(problem)
        self.hint = _one_line(hint)
        super().__init__(
            f"{self.problem}{'' if self.problem.endswith('?') else '.'} Try: {self.hint}"
            if self.hint
            else self.problem
        )

    def _render_traceback_(self) -> list[str]:
        """Return the message only: IPython shows it instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


def _one_line(text: str) -> str:
    """Return text in which a name can neither steer a terminal nor change the order of words."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


class UsageError(ToolkitError):
    """The request is invalid; nothing was started."""

    exit_code: ClassVar[int] = 2


class FleetFileError(UsageError):
    """The fleet file cannot be found, read or parsed."""


class RunbookError(UsageError):
    """A runbook cannot be found, read or parsed."""


class ParameterError(UsageError):
    """A notebook parameter is unknown or of the wrong type."""


class OutOfDate(UsageError):
    """A plan in a notebook no longer belongs to the cells and parameters above it."""

    def __init__(self, why: str) -> None:
        """`why`: what changed since the plan was made."""
        super().__init__(f"this plan is out of date: {why}", hint="run all cells from the top")


class ClusterUnreachable(ToolkitError):
    """The cluster's address did not respond, or is not a Kafka broker."""


class BrokerRefused(ToolkitError):
    """A broker returned an error."""


class NotFound(ToolkitError):
    """A named group or topic does not exist."""


class Blocked(ToolkitError):
    """A guard rail or a missing approval blocks a change; nothing was changed."""

    exit_code: ClassVar[int] = 3


class NotCaptured(ToolkitError):
    """Partitions of a live group could not be held; nothing new is held."""


class HoldLost(ToolkitError):
    """A hold ended unexpectedly; its partitions are consumed again."""


class Interrupted(ToolkitError):
    """The operation was interrupted and has cleaned up."""


class StateFileError(ToolkitError):
    """An undo record or the audit log could not be written or read."""


class PartlyApplied(ToolkitError):
    """A change was interrupted, and may be partly done."""

    exit_code: ClassVar[int] = 4


class OutcomeNotRecorded(StateFileError):
    """A change was made and verified, but its result could not be logged."""

    exit_code: ClassVar[int] = 4


class PrerequisiteMissing(ToolkitError):
    """A required program or file is missing."""


class SeveralMissing(ToolkitError):
    """Several things are missing, each with the error that it alone would be."""

    def __init__(self, errors: Sequence[ToolkitError]) -> None:
        """`errors`: one for each missing thing."""
        self.errors = tuple(errors)
        each = [f"({number}) {error}" for number, error in enumerate(errors, 1)]
        super().__init__(f"{len(errors)} things are missing: {'; '.join(each)}")

    def _render_traceback_(self) -> list[str]:
        """Return a line for each."""
        each = [f"- {error}" for error in self.errors]
        return [f"{type(self).__name__}: {len(self.errors)} things are missing:", *each]


def require_all(*checks: Callable[[], object]) -> None:
    """Run every check; raise the error of the only one that fails, else SeveralMissing."""
    errors = []
    for check in checks:
        try:
            check()
        except ToolkitError as exc:
            errors.append(exc)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise SeveralMissing(errors)


class SandboxFailed(ToolkitError):
    """A sandbox broker did not start or stop."""


class RunFailed(ToolkitError):
    """A notebook stopped before its end."""
