"""
What is to be done about the facts, and what became of it, as frozen records.

A `Plan` is steps; a step is one kind of request about one group; its changes say what each
committed offset is before and after. Its `fingerprint` stands for exactly that, so an approval
that names it approves nothing else. Findings say what is wrong with a plan, an `Outcome` what
applying it did.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from toolkit.model import Commit, GroupState, GroupType, TopicPartition


class Intent(StrEnum):
    """What a plan is for, in the words of the command line."""

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
    """The request that carries a step out."""

    COMMIT = "commit"  # OffsetCommit without a member; makes the group where there is none
    DELETE_OFFSETS = "delete-offsets"  # OffsetDelete (KIP-496)
    DELETE_GROUP = "delete-group"  # DeleteGroups (KIP-229): every change has `after` None
    HOLD = "hold"  # a member of ours keeps partitions of a live group from its members (KIP-1249)
    RELEASE = "release"  # that member lets them go
    MOVE = "move"  # commit in a transaction, while the partitions are held
    REJOIN = "rejoin"  # a member of ours joins and leaves: restarts a classic group's expiry clock


ON_LIVE_GROUPS = frozenset({Action.HOLD, Action.RELEASE, Action.MOVE})


@dataclass(frozen=True, slots=True)
class Position:
    """What a committed offset holds."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""

    @classmethod
    def of(cls, commit: Commit) -> Position:
        """Return what a commit holds."""
        return cls(commit.offset, commit.leader_epoch, commit.metadata)


@dataclass(frozen=True, slots=True)
class Change:
    """One committed offset of the step's group, before and after."""

    partition: TopicPartition
    before: Position | None  # None: nothing committed
    after: Position | None  # None: remove the commit
    why: str = ""  # why it goes there, and what moved it from where it was wanted


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of request about one group, and the facts on which it was planned."""

    group_id: str
    action: Action
    changes: tuple[Change, ...]
    type: GroupType
    state: GroupState | None  # None: the group did not exist
    last_commit_at: datetime | None = None  # the group's newest commit, by the broker's clock
    needs: str = ""  # the group whose steps must be done before this one is tried

    @property
    def creates(self) -> bool:
        """Whether it brings a group into being."""
        return self.state is None and self.action is Action.COMMIT


class Severity(StrEnum):
    """Whether a finding stops a plan."""

    BLOCK = "block"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to know about a plan: by which rule, how grave, why, and about what."""

    rule: str
    severity: Severity
    why: str
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None

    @property
    def blocks(self) -> bool:
        """Whether it stops the plan."""
        return self.severity is Severity.BLOCK


@dataclass(frozen=True, slots=True)
class Plan:
    """
    Steps for one cluster, in the order in which they are to be carried out.

    `request` says in words what was asked for. `allows` names what was explicitly asked for beyond
    the ordinary (`NEW_TOPICS`, `NEW_GROUP`). `findings` are those of the planning itself;
    guard-rails add theirs when the plan is checked. `topic_ids` tells which topics
    those of its changes were: one that is deleted and made anew keeps only its name.
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
    # What a plan for a live group is approved as, where its positions move on: how and how long.
    terms: Mapping[str, str] = field(default_factory=dict)

    @property
    def changes(self) -> Iterator[tuple[Step, Change]]:
        """Every change with its step."""
        return ((step, change) for step in self.steps for change in step.changes)

    @property
    def group_ids(self) -> tuple[str, ...]:
        """Every group that is changed, each once, in order."""
        return tuple(dict.fromkeys(step.group_id for step in self.steps))

    @property
    def fingerprint(self) -> str:
        """
        What an approval names: 16 hexadecimal digits over what would be done, and where.

        What stood in the way is part of it, so that an approval is of that too. When it was
        planned and reasons are left out: the same changes of the same facts have the same one.
        """
        # Sorted, because what a set gives back is in another order in every process.
        about = {(f.rule, f.group_id, f.topic, f.partition) for f in self.findings if f.blocks}
        scope = (
            *(self.cluster_id, self.intent, sorted(self.allows)),
            *(sorted(map(json.dumps, about)), sorted(self.topic_ids.items())),
            *([sorted(self.terms.items())] if self.terms else []),
        )
        digest = hashlib.sha256(json.dumps(scope).encode())
        for step in self.steps:
            # A live group moves on while its plan is looked at; what is approved is the request.
            state = None if step.action in ON_LIVE_GROUPS else step.state
            head = (step.group_id, step.action, step.type, state, step.needs)
            changes = [
                (*c.partition,) if self.terms else (*c.partition, _bare(c.before), _bare(c.after))
                for c in step.changes
            ]
            digest.update(json.dumps((head, changes)).encode())
        return digest.hexdigest()[:16]


NEW_TOPICS = "new-topics"  # commits on topics that the group never committed
NEW_GROUP = "new-group"  # a group that does not exist is made


class Status(StrEnum):
    """What became of a step or of one of its changes."""

    DONE = "done"  # read back and found as planned
    REFUSED = "refused"  # a broker or a last check said no; nothing was changed
    FAILED = "failed"  # it was tried, and what was read back is not what was planned
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one change: `found` is what was read back, None where nothing is committed."""

    partition: TopicPartition
    status: Status
    why: str = ""
    found: Position | None = None


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What became of one step; `why` is the group's own error, results are per partition."""

    group_id: str
    action: Action
    status: Status
    why: str = ""
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What applying a plan did; `run_id` is the name by which it can be undone."""

    run_id: str
    fingerprint: str
    started_at: datetime
    finished_at: datetime
    steps: tuple[StepOutcome, ...]
    interrupted: str = ""  # why it ended early

    @property
    def is_done(self) -> bool:
        """Whether every step was carried out and found as planned."""
        return all(step.status is Status.DONE for step in self.steps)

    @property
    def changed_anything(self) -> bool:
        """Whether any change was made, or may have been."""
        return any(
            step.status in {Status.DONE, Status.FAILED}
            or any(result.status is Status.DONE for result in step.results)
            for step in self.steps
        )


def _bare(position: Position | None) -> tuple[int, int | None, str] | None:
    return None if position is None else (position.offset, position.leader_epoch, position.metadata)
