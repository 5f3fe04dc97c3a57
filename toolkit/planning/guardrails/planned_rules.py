"""What only planning can find: rules without a function of their own, and notes."""

from __future__ import annotations

from toolkit.plan import Intent
from toolkit.planning.guardrails.check_context import NEW_OFFSETS
from toolkit.planning.guardrails.rule import ANY, Override, Rule

NO_PARTITIONS_NAMED = frozenset({Intent.DELETE_GROUPS, Intent.RENAME, Intent.RESCUE})
WRITTEN_DOWN = NEW_OFFSETS | {Intent.RESTORE}
UNDO = frozenset({Intent.UNDO})
RESUME = frozenset({Intent.RESUME})
HOLDS = RESUME | {Intent.PAUSE}

PLANNED = (
    Rule(
        "no-such-partition",
        "The topics and partitions that are asked for exist.",
        override=Override.NEVER,
        intents=ANY - NO_PARTITIONS_NAMED - UNDO,
    ),
    Rule(
        "missing-partition",
        "The topics and partitions that have a committed or saved offset still exist.",
        intents=ANY - NO_PARTITIONS_NAMED,
    ),
    Rule("no-leader", "The partition has a leader.", intents=ANY - NO_PARTITIONS_NAMED - UNDO),
    Rule(
        "moved-since",
        "Nobody has moved the offset since the run that is undone.",
        override=Override.NEVER,
        instead="--even-if-moved, or even_if_moved=True in a notebook",
        intents=UNDO,
    ),
    Rule("other-cluster", "The saved offsets are of this cluster.", intents=WRITTEN_DOWN),
    Rule(
        "no-row",
        "The file has an offset for everything that was asked for.",
        override=Override.NEVER,
        instead="name only groups and partitions that the file has",
        intents=WRITTEN_DOWN,
    ),
    Rule(
        "past-end",
        "A record at or after the timestamp exists.",
        override=Override.NEVER,
        instead="say what to do there: --past-end keep or latest, or past_end in a notebook",
        intents=NEW_OFFSETS,
    ),
    Rule(
        "cut-off-run",
        "No earlier run that changed these groups ended early.",
        intents=ANY - UNDO - HOLDS,
    ),
    Rule("foreign-hold", "Nobody else holds what is resumed.", intents=RESUME),
    Rule("releases-more", "Resuming releases no partition that was not named.", intents=RESUME),
    Rule(
        "in-the-future",
        "The timestamp is in the past.",
        override=Override.NEVER,
        intents=NEW_OFFSETS,
    ),
    Rule(
        "topics-required",
        "Deleting all offsets of an empty group is asked for explicitly.",
        override=Override.NEVER,
        intents=frozenset({Intent.DELETE_OFFSETS}),
    ),
    Rule(
        "group-exists",
        "No group has the new name.",
        override=Override.NEVER,
        intents=frozenset({Intent.RENAME}),
    ),
)

NOTES = {
    "age-unknown": "Since when a group is empty, or does not subscribe to a topic, is not known.",
    "already-paused": "A partition is paused already.",
    "alternatives": "What else can be done instead of the hold, and at what cost.",
    "cannot-come-back": "A deleted group had no committed offset with which it could be restored.",
    "cannot-rescue": "Offsets of a live group may expire, and only its members can commit them.",
    "name-is-a-pattern": "A group has the name, so it is not read as a pattern.",
    "cluster-unknown": "The file does not say which cluster its offsets are of.",
    "clamped": "The requested offset is outside the log; the nearest one is committed instead.",
    "comes-back-simple": "A deleted group comes back without members.",
    "disturbs": "Which members the hold disturbs.",
    "empty-for": "How long a group has been empty.",
    "first-commits": "A position is committed where the live group has no committed offset.",
    "kept": "A group stays as it is because another one cannot be restored.",
    "left-out": "Nothing of a group is deleted: which topics it subscribes to is not known, or it "
    "only matches a pattern, and is live or protected.",
    "move-unheld": "The partitions cannot be held, so the move evicts the members that read them.",
    "new-group": "The plan creates the group.",
    "no-choice": "The group can be held in one way only.",
    "no-commit": "Nothing is committed, so nothing changes.",
    "no-upgrade": "No member of the consumer protocol can join a classic group during a hold.",
    "not-assigned": "No member reads some of the partitions now.",
    "not-expiring": "No offset of the live group expires.",
    "not-in-backup": "The group has committed offsets that the backup does not have.",
    "not-paused": "A partition is not paused.",
    "nothing-to-undo": "The run changed nothing, or everything is as it was before.",
    "old-commit": "The last commit of a member that is evicted is old.",
    "other-groups": "The file has rows for groups that were not asked for.",
    "other-partitions": "The file has rows for partitions that were not asked for.",
    "repeats": "How many records the group reads again.",
    "watched": "After a move, the commits of the group are watched.",
    "stays-committed": "What was committed before a pause stays while the group is live.",
    "slow-member": "A member may be processing one record, and revokes nothing meanwhile.",
    "slow-group": "The members send heartbeats rarely, so they notice a change late.",
    "source-live": "The group that is copied has members, which continue to commit.",
    "stops": "Which partitions stop, and for how long.",
    "survives": "When the hold ends, and what happens if the process that holds dies.",
    "too-young": "A group or a topic has not been left alone for as long as was asked for.",
}
