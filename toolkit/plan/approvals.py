"""Approval of one plan, by fingerprint or by standing limits."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from difflib import get_close_matches
from typing import Self

from toolkit.errors import UsageError
from toolkit.model import Policy

WATCH = timedelta(seconds=6)  # longer than the default auto.commit.interval.ms, 5 s
REQUIRED = ("max_groups", "max_partitions")
_COUNTED = (*REQUIRED, "max_records_skipped", "max_records_repeated")
_NUMBER = re.compile(r"0|[1-9][0-9_]*")


@dataclass(frozen=True, slots=True)
class Limits:
    """
    The limits of a standing approval; those of the fleet file hold as well.

    Missing counts are 0; other missing limits are no condition.
    """

    max_groups: int
    max_partitions: int
    max_records_skipped: int = 0
    max_records_repeated: int = 0
    groups: tuple[str, ...] = ()  # only these: names and shell patterns
    empty_for_days: int | None = None  # only groups unused for at least this long
    unsubscribed_for_days: int | None = None  # only offsets observed as unsubscribed for this long
    unsubscribed_in_runs: int | None = None  # and by this many runs
    min_records_skipped: int = 0  # only a plan that skips records, not only markers

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Self:
        """
        Parse limits from texts such as "max_groups=5"; "groups=search-*" may be repeated.

        Raises UsageError for an invalid text, or if groups or partitions are not limited.
        """
        values: dict[str, int] = {}
        groups: list[str] = []
        for text in texts:
            name, equals, value = text.partition("=")
            _check(text, name, given=bool(equals and value), again=name in values)
            if name == "groups":
                groups.append(value)
            else:
                values[name] = _number(text, value)
        if missing := [name for name in REQUIRED if name not in values]:
            raise UsageError(
                f"a standing approval needs a limit for {', '.join(missing)}",
                hint="set limits, or approve the plan by its fingerprint",
            )
        return cls(**values, groups=tuple(groups))

    def narrow(self, policy: Policy) -> Policy:
        """Return a cluster's policy with the stricter of both limits."""
        both = {name: (getattr(self, name), getattr(policy, name)) for name in _COUNTED}
        return replace(policy, **{name: min(pair) for name, pair in both.items()})


_NAMES = tuple(field.name for field in fields(Limits))


def _check(text: str, name: str, *, given: bool, again: bool) -> None:
    if name not in _NAMES:
        near = get_close_matches(name, _NAMES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"use one of: {', '.join(_NAMES)}"
        raise UsageError(f"unknown limit {name!r}", hint=hint)
    if not given:
        raise UsageError(f"limit {text!r} has no value", hint=f"write a value, such as {name}=5")
    if again:
        raise UsageError(f"duplicate limit {name}")


def _number(text: str, value: str) -> int:
    if not _NUMBER.fullmatch(value):
        raise UsageError(f"limit {text!r} must be a whole number from 0")
    return int(value.replace("_", ""))


@dataclass(frozen=True, slots=True)
class Approval:
    """
    Approval of one plan: fingerprint, reason and overrides.

    `watch` is the minimum time between two reads of an empty group with recent commits: an assign()
    consumer is detected only by its commits. `limits` make it a standing approval; they can only be
    stricter than the fleet file.
    """

    fingerprint: str
    reason: str
    overrides: Collection[str] = ()
    watch: timedelta = WATCH
    limits: Limits | None = None


def lacks_reason(reason: str, policy: Policy) -> bool:
    """Return whether a change of a cluster needs a reason, and `reason` is none."""
    return policy.reason == "required" and not is_reason(reason)


def is_reason(text: str) -> bool:
    """Return whether a text is a reason; dots are the placeholder in shown commands."""
    return bool(text.strip(" \t\n."))
