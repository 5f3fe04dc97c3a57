"""
Plan to keep committed offsets from expiring, by resetting the retention timers of brokers.

In a simple, KIP-848 or Streams group each offset has a retention timer, which committing the same
offset again resets. A classic group has one timer since it became Empty, which a commit does not
reset: an offsetbook member joins and leaves. What an old client committed with a retention of its
own (OffsetCommit 2 to 4) is committed again in either case: it expires at that time. While a group
is live, offsets of subscribed topics do not expire, and only its members can commit the others.
Measured on brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from toolkit.model import Group, GroupType, Snapshot
from toolkit.model.times import format_duration
from toolkit.plan import Action, Change, Finding, Intent, Plan, Position, Severity
from toolkit.planning.selection.findings import block, note
from toolkit.planning.selection.group_selection import UNKNOWN_TYPE, choose_groups
from toolkit.planning.selection.plan_parts import Part, list_names, plan_of
from toolkit.planning.selection.snapshot_index import SnapshotIndex
from toolkit.planning.unsubscribed.unsubscribed_offsets import uncheckable_reason

RECOMMITTED = "re-committed unchanged to reset retention"
REJOINED = "a member joins and leaves to reset retention"
CLOCK_OF_EACH = frozenset({GroupType.SIMPLE, GroupType.CONSUMER, GroupType.STREAMS})


def plan_rescue(
    snapshot: Snapshot, *, groups: Sequence[str], retention_s: int | None = None
) -> Plan:
    """
    Plan to reset the retention timers of empty groups, by name or shell pattern.

    `retention_s` is how long brokers keep offsets after that, if it is known. Every change has the
    same position before and after. An offset that cannot be rescued is a note, not a block. Raises
    UsageError without a name.
    """
    facts = SnapshotIndex(snapshot)

    def parts() -> Iterator[Part]:
        chosen, findings = choose_groups(facts, groups)
        yield from findings
        for group in chosen:
            if group.is_live:
                yield from _live(facts, group)
            else:
                yield from _idle(facts, group, retention_s)

    request = f"rescue {list_names(groups)} from expiry"
    return plan_of(snapshot, parts(), intent=Intent.RESCUE, request=request)


def leave_out_lost_groups(plan: Plan) -> Plan:
    """
    Return a plan whose groups a forecast has named: one that is lost does not stop the others.

    A group that has expired since is a note. One that cannot be read has no step, and the plan says
    that it is incomplete.
    """
    unread = {found.group_id for found in plan.findings if found.rule == "unreadable"}
    rules = {"unreadable": "incomplete", "no-such-group": "no-such-group"}
    findings = tuple(
        replace(found, rule=rules[found.rule], severity=Severity.NOTE)
        if found.rule in rules
        else found
        for found in plan.findings
    )
    steps = tuple(step for step in plan.steps if step.group_id not in unread)
    return replace(plan, steps=steps, findings=findings)


def _idle(facts: SnapshotIndex, group: Group, retention_s: int | None) -> Iterator[Part]:
    name, rejoins = group.group_id, group.type not in CLOCK_OF_EACH
    lacking: list[Finding] = [*facts.unreadable(name)]
    changes = []
    ends = ""
    if retention_s:
        # Not a time of day: the same plan has the same fingerprint a minute later.
        ends = f": expires {format_duration(retention_s)} after the rescue at the earliest"
    for partition, commit in facts.commits_of(name).items():
        if commit.pending:
            stays = (
                "does not expire: an open transaction has a pending offset commit for this "
                "partition"
            )
            yield note("pending-transaction", stays, name, partition)
            continue
        how = REJOINED if rejoins and not commit.expires_at else RECOMMITTED
        if how == RECOMMITTED and (gone := facts.why_gone(partition)):
            why = f"{gone}: a broker refuses to commit its offset again"
            lacking.append(note("cannot-rescue", why, name, partition))
            continue
        same = Position.of(commit)
        changes.append(Change(partition, same, same, how + ends))
    yield from lacking
    if group.type is GroupType.UNKNOWN:
        yield block("unreadable", UNKNOWN_TYPE, name)
    elif not changes:
        if not lacking:
            yield note("no-commit", "no offsets that can expire", name)
    else:
        yield facts.step(name, Action.REJOIN if rejoins else Action.COMMIT, changes)


def _live(facts: SnapshotIndex, group: Group) -> Iterator[Part]:
    """Yield which offsets of a live group may expire; only its members can keep them."""
    committed = facts.commits_of(group.group_id)
    unread = facts.snapshot.unread_commits(group.group_id)
    if not committed and not unread:
        return
    if group.type is GroupType.CLASSIC and group.protocol_type != "consumer":
        yield note("not-expiring", "no offset expires while the group is live", group.group_id)
        return
    unknown = "unknown which offsets may expire: {}"
    if unread:
        yield note("incomplete", unknown.format(unread), group.group_id)
    if why := uncheckable_reason(group):
        yield note("cannot-rescue", unknown.format(why), group.group_id)
        return
    if topics := sorted({p.topic for p in committed} - group.subscribed_topics):
        why = (
            f"offsets of unsubscribed topics {', '.join(topics)} will expire; only a member of "
            "the group could commit them again"
        )
        yield note("cannot-rescue", why, group.group_id)
    elif not unread:
        why = "no offset expires while the group is live: it subscribes to all their topics"
        yield note("not-expiring", why, group.group_id)
