"""What may be asked for, and the steps that carry it out."""

from __future__ import annotations

from dataclasses import dataclass
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
