"""Intents, actions, changes and steps of plans."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from toolkit.model import Commit, GroupState, GroupType, TopicPartition
from toolkit.model.names import shown_name


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


ON_LIVE_GROUPS = frozenset({Action.HOLD, Action.RELEASE, Action.MOVE, Action.FIRST_COMMIT})


class Position(NamedTuple):
    """Offset, leader epoch and metadata of a commit."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""

    @classmethod
    def of(cls, commit: Commit) -> Position:
        """Return the position of a commit."""
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
        """Whether it creates a group."""
        return self.state is None and self.action is Action.COMMIT
