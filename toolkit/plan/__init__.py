"""
Plans, findings, approvals and results, as frozen dataclasses.

A `Plan` is steps; a step is one kind of request about one group; its changes say what each
committed offset is before and after. Its `fingerprint` identifies exactly these changes, and an
approval names it. Findings are the checks on a plan, an `Outcome` is the result of applying it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from toolkit.model import Commit, GroupState, GroupType, TopicPartition
from toolkit.model.names import shown_name

NEW_TOPICS = "new-topics"  # commits for topics that the group has never committed
NEW_GROUP = "new-group"  # a missing group is created
OFFSETS = "offsets"  # the term of a move to offsets that its request names
FINGERPRINT_DIGITS = 32  # 128 bits: another plan with the same cannot be found


class Intent(StrEnum):
    """Intent of a plan, named as on the command line."""

    RESET = "reset"
    DELETE_OFFSETS = "delete-offsets"
    DELETE_GROUPS = "delete-groups"
    COPY = "copy"
    RENAME = "rename"
    RESTORE = "restore"
    RESCUE = "rescue"
    UNDO = "undo"
    PAUSE = "pause"
    RESUME = "resume"
    MOVE = "move"


class Action(StrEnum):
    """The kind of request of a step."""

    COMMIT = "commit"  # OffsetCommit without a member; creates a missing group
    DELETE_OFFSETS = "delete-offsets"  # OffsetDelete (KIP-496)
    DELETE_GROUP = "delete-group"  # DeleteGroups (KIP-229): every change has `after` None
    HOLD = "hold"  # offsetbook members hold partitions of a live group (KIP-1249)
    RELEASE = "release"  # release held partitions
    MOVE = "move"  # commit in a transaction, while the partitions are held
    FIRST_COMMIT = "first-commit"  # commit in a transaction where a live group has no offset
    REJOIN = "rejoin"  # join and leave: resets a classic group's retention timer

    @property
    def shown(self) -> str:
        """What people know it by: partitions are paused and resumed, and held for that."""
        return {Action.HOLD: "pause", Action.RELEASE: "resume"}.get(self, str(self))


HOLD_INTENTS = frozenset({Intent.PAUSE, Intent.RESUME})
HOLD_ACTIONS = frozenset({Action.HOLD, Action.RELEASE})  # they change the assignment, and no offset
ON_LIVE_GROUPS = HOLD_ACTIONS | {Action.MOVE, Action.FIRST_COMMIT}


class Position(NamedTuple):
    """Offset, leader epoch and metadata of a commit."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""

    @classmethod
    def of(cls, commit: Commit) -> Position:
        return cls(commit.offset, commit.leader_epoch, commit.metadata)


class Change(NamedTuple):
    """One committed offset of the step's group, before and after."""

    partition: TopicPartition
    before: Position | None  # None: no committed offset
    after: Position | None  # None: delete the committed offset
    why: str = ""  # reason, including a clamp


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of request for one group, and the facts it was planned on."""

    group_id: str
    action: Action
    changes: tuple[Change, ...]
    type: GroupType
    state: GroupState | None  # None: the group did not exist
    last_commit_at: datetime | None = None  # the group's latest commit, by the broker's clock
    needs: str | None = None  # the group whose steps must be done first

    @property
    def needs_text(self) -> str:
        """What files and the fingerprint say of `needs`; "" for None."""
        return "" if self.needs is None else shown_name(self.needs)

    @property
    def creates(self) -> bool:
        return self.state is None and self.action is Action.COMMIT


class Severity(StrEnum):
    """Severity of a finding."""

    BLOCK = "block"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a plan: rule, severity, reason and subject."""

    rule: str
    severity: Severity
    why: str
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None

    @property
    def blocks(self) -> bool:
        """Whether it blocks the plan."""
        return self.severity is Severity.BLOCK


@dataclass(frozen=True, slots=True)
class Plan:
    """
    Steps for one cluster, in order.

    `request` is the request as text. `allows` lists explicit permissions (`NEW_TOPICS`,
    `NEW_GROUP`). `findings` are those of the planner; guard rails add theirs when the plan is
    checked. `topic_ids` are the ids of its topics, which change if a topic is re-created.
    """

    intent: Intent
    request: str
    cluster: str
    cluster_id: str
    made_at: datetime
    steps: tuple[Step, ...]
    findings: tuple[Finding, ...] = ()
    allows: frozenset[str] = frozenset()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    # Terms that are approved for a live group, whose positions advance: mode and duration.
    terms: Mapping[str, str] = field(default_factory=dict)
    _fingerprint: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def changes(self) -> Iterator[tuple[Step, Change]]:
        """Every change with its step."""
        return ((step, change) for step in self.steps for change in step.changes)

    @property
    def group_ids(self) -> tuple[str, ...]:
        """Every changed group, once, in order."""
        return tuple(dict.fromkeys(step.group_id for step in self.steps))

    @property
    def fingerprint(self) -> str:
        """
        Fingerprint: 32 hexadecimal digits, in groups of four, over the request and its changes.

        It covers what a reviewer relies on: request, cluster id, changes and blocking findings.
        Planning time, reasons and the cluster's name, which each fleet file chooses, are excluded:
        the same changes, planned again, have the same fingerprint. Of a live group, whose offsets
        advance, it covers those that the request names.
        """
        if not self._fingerprint:  # computed once: a plan does not change
            self._fingerprint.append(self._compute_fingerprint())
        return self._fingerprint[0]

    def _compute_fingerprint(self) -> str:
        # Sorted, because set order differs between processes.
        about = {(f.rule, f.group_id, f.topic, f.partition) for f in self.findings if f.blocks}
        scope = (
            *(self.cluster_id, self.intent, self.request, sorted(self.allows)),
            *(sorted(map(json.dumps, about)), sorted(self.topic_ids.items())),
            *([sorted(self.terms.items())] if self.terms else []),
        )
        digest = hashlib.sha256(json.dumps(scope).encode())
        for step in self.steps:
            # A live group advances during the review; the approval covers the request.
            state = None if step.action in ON_LIVE_GROUPS else step.state
            head = (step.group_id, step.action, step.type, state, step.needs_text)
            # Partitions and positions are tuples, which JSON writes as lists.
            changes = self._approved(step.changes)
            digest.update(json.dumps((head, changes)).encode())
        digits = digest.hexdigest()[:FINGERPRINT_DIGITS]
        return "-".join(digits[place : place + 4] for place in range(0, len(digits), 4))

    def _approved(self, changes: Sequence[Change]) -> list[tuple[object, ...]]:
        if not self.terms:
            return [(place[0], place[1], before, after) for place, before, after, _ in changes]
        if OFFSETS in self.terms:
            return [(*change.partition, change.after) for change in changes]
        return [(*change.partition,) for change in changes]


def same_fingerprint(one: str, other: str) -> bool:
    """Return whether two texts are the same fingerprint, however its digits are separated."""
    return _digits(one) == _digits(other)


def _digits(fingerprint: str) -> str:
    return re.sub(r"[\s:-]", "", fingerprint).lower()


class ChangeStatus(StrEnum):
    """Status of a step or of one of its changes."""

    DONE = "done"  # verified
    NOT_CONFIRMED = "not confirmed"  # read back, but not yet seen in the application's commits
    REFUSED = "refused"  # rejected by a broker or a last check; nothing was changed
    FAILED = "failed"  # tried, but the read-back does not match the plan
    NOT_TRIED = "not tried"


MAY_HAVE_CHANGED = frozenset({ChangeStatus.DONE, ChangeStatus.NOT_CONFIRMED, ChangeStatus.FAILED})


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one change: `found` is the read-back, None without a committed offset."""

    partition: TopicPartition
    status: ChangeStatus
    why: str = ""
    found: Position | None = None


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Result of one step; `why` is the group-level error, results are per partition."""

    group_id: str
    action: Action
    status: ChangeStatus
    why: str = ""
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of applying a plan; `run_id` identifies it for undo."""

    run_id: str
    fingerprint: str
    started_at: datetime
    finished_at: datetime
    steps: tuple[StepOutcome, ...]
    interrupted: str = ""  # why it was interrupted

    @property
    def is_done(self) -> bool:
        """Whether every step was applied and verified."""
        return all(step.status is ChangeStatus.DONE for step in self.steps)

    @property
    def summary(self) -> str:
        """How many changes were done, refused, failed and not tried, in one line."""
        counts = self.counts.most_common()
        return ", ".join(f"{count:,} {status}" for status, count in counts) or "nothing"

    @property
    def verified_summary(self) -> str:
        """The summary, and that it was read back; of what was only refused, nothing was."""
        return f"{self.summary}{', read back from the cluster' if self.changed_anything else ''}"

    @property
    def counts(self) -> Counter[ChangeStatus]:
        """
        The number of changes by status; a group without changes of its own counts as one.

        That a live move paused and resumed what it moved is counted where it failed.
        """
        is_move = any(step.action is Action.MOVE for step in self.steps)
        counted = (
            step
            for step in self.steps
            if not (is_move and step.action in HOLD_ACTIONS and step.status is ChangeStatus.DONE)
        )
        return Counter(one.status for step in counted for one in step.results or (step,))

    @property
    def changed_anything(self) -> bool:
        """Whether a change was made, or may have been."""
        return any(
            not MAY_HAVE_CHANGED.isdisjoint({step.status, *(one.status for one in step.results)})
            for step in self.steps
        )


class ConclusionStatus(StrEnum):
    """How a change, or a notebook that reached its last cell, ended."""

    DONE = "done"  # also: there was nothing to do
    BLOCKED = "blocked"  # by a guard rail or a missing approval; nothing was changed
    PARTLY_APPLIED = "partly-applied"
    INCOMPLETE = "incomplete"  # it only read, and could not read everything

    @property
    def exit_code(self) -> int:
        """What a program that ends so returns."""
        return {ConclusionStatus.DONE: 0, ConclusionStatus.BLOCKED: 3}.get(self, 4)
