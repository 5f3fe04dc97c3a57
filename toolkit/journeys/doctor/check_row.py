"""One row of a check: what was checked, its status, what was found, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckStatus(StrEnum):
    """The status of a check."""

    OK = "ok"
    WARN = "warn"  # something works only in part, or may surprise
    ERROR = "error"  # something does not work
    UNKNOWN = "unknown"  # it cannot be known without changing something, or was not reported


@dataclass(frozen=True, slots=True)
class CheckRow:
    """The result of one check; `subject` is a cluster's name, or a part of this machine."""

    subject: str
    check: str
    status: CheckStatus
    finding: str
    hint: str = ""


def ok(subject: str, check: str, finding: str) -> CheckRow:
    return CheckRow(subject, check, CheckStatus.OK, finding)


def warn(subject: str, check: str, finding: str, hint: str) -> CheckRow:
    return CheckRow(subject, check, CheckStatus.WARN, finding, hint)


def error(subject: str, check: str, finding: str, hint: str) -> CheckRow:
    return CheckRow(subject, check, CheckStatus.ERROR, finding, hint)


def unknown(subject: str, check: str, finding: str, hint: str = "") -> CheckRow:
    return CheckRow(subject, check, CheckStatus.UNKNOWN, finding, hint)
