"""An offset counts the records of one log: not those of another topic of the same name."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from facts import NOON, changes, idle, rules, snapshot

from toolkit.model import Commit, EpochEnd, LogOffsets, Snapshot, TopicPartition
from toolkit.plan import Plan, Position, Severity
from toolkit.plan.saved_offsets import SavedOffsets
from toolkit.planning.changes.copy import plan_copy, plan_rename
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.restore import plan_restore
from toolkit.planning.changes.targets import from_group, from_offsets
from toolkit.planning.changes.topic_recreated import OffsetsOrigin
from toolkit.planning.changes.undo import plan_undo
from toolkit.storage.offsets_files import saved_offsets

ORDERS = TopicPartition("orders", 0)
LOG = LogOffsets(0, 9000, 9000, (EpochEnd(0, 100), EpochEnd(2, 1000), EpochEnd(7, 9000)))
COMMIT = Commit("g", *ORDERS, 5000, 2, "mine")
HERE = replace(
    snapshot(idle(), commits=[Commit("g", *ORDERS, 8000, 7)]),
    logs={ORDERS: LOG},
    topic_ids={"orders": "new"},
)
SAVED = SavedOffsets((COMMIT,), "eu", HERE.cluster_id, NOON, {}, topic_ids={"orders": "old"})


def reset_to(saved: SavedOffsets) -> Plan:
    origin = OffsetsOrigin(saved.cluster_id, saved.topic_ids)
    return plan_reset(HERE, from_offsets(saved.rows, source="f", origin=origin), groups=["g"])


def undone(saved: SavedOffsets) -> Plan:
    """Return the plan that undoes a reset from saved offsets to what is committed."""
    there = replace(HERE, commits=(COMMIT,), topic_ids=saved.topic_ids)
    now = from_offsets({("g", ORDERS): Position(8000, 7)}, source="x")
    return plan_undo(plan_reset(there, now, groups=["g"]), HERE)


@pytest.mark.parametrize("plan", [reset_to, lambda saved: plan_restore(HERE, saved), undone])
def test_saved_offsets_of_a_recreated_topic_block(plan: Callable[[SavedOffsets], Plan]) -> None:
    """With an override, neither the leader epoch nor the metadata of deleted records is committed.

    Kafka's Java consumer would find the log truncated at the end of that epoch, and go back there.
    """
    made, same = plan(SAVED), plan(replace(SAVED, topic_ids=HERE.topic_ids))

    assert [("topic-recreated", "block")] == rules(made)
    assert [Position(5000, 7)] == [change.after for change in changes(made)]
    assert ([], [Position(5000, 2, "mine")]) == (rules(same), [c.after for c in changes(same)])


def test_offsets_of_another_cluster_have_the_leader_epochs_of_this_one() -> None:
    """Metadata belongs to the offset, and stays with it."""
    elsewhere = replace(SAVED, cluster_id="another")

    for made in (plan_restore(HERE, elsewhere), reset_to(elsewhere)):
        assert [("other-cluster", "block")] == rules(made)
        assert [Position(5000, 7, "mine")] == [change.after for change in changes(made)]


EARLIER = replace(HERE, commits=(replace(COMMIT, topic_id="old"),))


@pytest.mark.parametrize(
    "plan",
    [
        lambda here: plan_copy(here, source="g", target="h"),
        lambda here: plan_rename(here, source="g", target="h"),
        lambda here: plan_reset(
            replace(here, groups=(*here.groups, idle("h"))),
            from_group(here, "g", source="from-group g"),
            groups=["h"],
            new_topics=True,
        ),
        lambda here: plan_restore(here, saved_offsets(here, ["g"]), into="h"),
    ],
)
def test_commits_for_an_earlier_topic_are_not_used(
    plan: Callable[[Snapshot], Plan],
) -> None:
    """A group whose coordinator was down when its topic was deleted still has them."""
    made = plan(EARLIER)
    sound = plan(replace(EARLIER, commits=(replace(COMMIT, topic_id="new"),)))

    assert ["topic-recreated"] == [
        one.rule for one in made.findings if one.severity is Severity.BLOCK
    ]
    assert [Position(5000, 7)] == [step.changes[0].after for step in made.steps[:1]]
    assert Severity.BLOCK not in {one.severity for one in sound.findings}
    assert [Position(5000, 2, "mine")] == [step.changes[0].after for step in sound.steps[:1]]


def test_a_backup_is_of_the_topic_that_its_offsets_are_of() -> None:
    """A sound offset is not held for one of deleted records because of another in the backup."""
    sound = replace(COMMIT, group_id="h", topic_id="new")
    both = replace(EARLIER, commits=(*EARLIER.commits, sound))

    assert {"orders": "old"} == saved_offsets(both, ["g"]).topic_ids
    assert {"orders": "new"} == saved_offsets(both, ["g", "h"]).topic_ids


def test_a_partition_that_the_new_topic_lacks_is_no_bug() -> None:
    """It was created again with fewer partitions: there is no log to look into."""
    gone = replace(COMMIT, partition=5, topic_id="old")
    made = plan_rename(replace(EARLIER, commits=(gone,)), source="g", target="h")

    assert "topic-recreated" in {one.rule for one in made.findings}


def test_an_offset_that_a_transaction_will_change_keeps_its_metadata() -> None:
    """With an override of `pending-transaction` it is taken over as it is."""
    here = replace(HERE, commits=(replace(COMMIT, pending=True),), groups=(*HERE.groups, idle("h")))
    target = from_group(here, "g", source="from-group g")
    made = plan_reset(here, target, groups=["h"], new_topics=True)

    assert [Position(5000, 2, "mine")] == [change.after for change in changes(made)]
