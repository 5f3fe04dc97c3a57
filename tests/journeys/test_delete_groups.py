"""What a deletion of groups reads, and what it shows of that."""

from __future__ import annotations

from dataclasses import replace

from applications import Applications
from operators import Operator

from toolkit.model import Policy, TopicPartition
from toolkit.session import Session


def test_with_an_age_only_the_named_groups_are_shown(
    operator: Operator, apps: Applications
) -> None:
    """The whole cluster is read for the age, but nobody asked for the other groups."""
    topic = apps.create_topic(apps.name("orders"), records=3)
    group, other = apps.name("idle"), apps.name("other")
    for name in (group, other):
        apps.commit(name, {TopicPartition(topic, 0): 1})

    change = operator.session.delete_groups([group], empty_for="1d")

    assert [group] == [found.group_id for found in change.facts.groups]
    assert {group, other} <= {commit.group_id for commit in change.facts.commits}


def guarded(operator: Operator, name: str) -> Session:
    """Return a session on the cluster, whose fleet file protects a group."""
    policy = Policy(protected_groups=(name,))
    return Session(replace(operator.cluster, policy=policy), operator.state)


def test_a_pattern_deletes_what_can_be_deleted(operator: Operator, apps: Applications) -> None:
    """A live and a protected group stay and do not block, unless they are named."""
    topic, stem = apps.create_topic(apps.name("orders"), records=3), apps.name("stem")
    idle, kept, live = (f"{stem}-{word}" for word in ("idle", "kept", "live"))
    for name in (idle, kept):
        apps.commit(name, {TopicPartition(topic, 0): 1})
    apps.join(live, [topic])
    session = guarded(operator, kept)

    change = session.delete_groups([f"{stem}-*"])

    assert ((idle,), {kept, live}) == (
        change.plan.group_ids,
        {found.group_id for found in change.findings if found.rule == "left-out"},
    )
    decision = change.decide(dry_run=False, approve=change.fingerprint, reason="a test")
    assert ((), True) == (decision.blocked_by, decision.apply().is_done)
    there = {group.group_id for group in operator.look(f"{stem}-*").groups}
    assert {kept, live} == there

    for name, rule in ((kept, "protected-group"), (live, "group-live")):
        named = session.delete_groups([f"{stem}-*", name]).decide()
        assert (rule,) == named.blocked_by


def test_what_can_be_deleted_is_listed(operator: Operator, apps: Applications) -> None:
    """Empty groups are there to choose, with when they expire; of the others it is said why not."""
    topic = apps.create_topic(apps.name("orders"), records=3)
    idle, kept, live = apps.name("idle"), apps.name("kept"), apps.name("live")
    for name in (idle, kept):
        apps.commit(name, {TopicPartition(topic, 0): 1})
    apps.join(live, [topic])

    found = guarded(operator, kept).deletable_groups()

    rows = found.rows.set_index("group")
    assert (True, False, False) == (idle in rows.index, kept in rows.index, live in rows.index)
    (commit,) = (c for c in operator.facts(idle).commits if c.group_id == idle)
    assert commit.committed_at
    left = rows["offsets expire about"][idle] - commit.committed_at
    assert left.total_seconds() > 0
    why = found.others.set_index("group")["why"]
    assert f"protected by the fleet file ({kept})" == why[kept]
    assert why[live].startswith("group is ")
    assert not len(guarded(operator, kept).deletable_groups([idle]).rows)
