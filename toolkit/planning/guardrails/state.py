"""Rules about what groups are and hold now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from toolkit.model import Commit, Group, GroupState
from toolkit.plan import NEW_GROUP, NEW_TOPICS, Action, Change, Intent, Position, Step
from toolkit.planning.guardrails.case import CannotTell, Case, Objection

# A group whose last commit is younger has to be looked at twice.
QUIET_AFTER = timedelta(seconds=60)


def wrong_cluster(case: Case) -> Iterator[Objection]:
    """A plan is applied to the cluster it was made for, which may have been rebuilt since."""
    if case.facts.cluster_id != case.plan.cluster_id:
        yield Objection(
            f"the plan was made for the cluster with the id {case.plan.cluster_id!r}, this one has "
            f"{case.facts.cluster_id!r}"
        )


def no_such_group(case: Case) -> Iterator[Objection]:
    """A misspelt name must not make a group; making one is asked for explicitly."""
    for step in case.plan.steps:
        if step.creates and NEW_GROUP not in case.plan.allows:
            yield Objection("there is no such group, and none was to be made", step.group_id)


def group_live(case: Case) -> Iterator[Objection]:
    """A group with members is not changed from outside, except for offsets that nobody reads."""
    for step in case.plan.steps:
        group = case.groups.get(step.group_id)
        if group and group.is_live and step.action is not Action.DELETE_OFFSETS:
            yield Objection(f"it is {group.state}; members: {members_of(group)}", step.group_id)


def members_of(group: Group, *, most: int = 3) -> str:
    """Name a group's first members as people know them: client id and host."""
    if not group.described:
        return "not known"
    named = ", ".join(f"{m.client_id} @ {m.host}" for m in group.members[:most]) or "none yet"
    left = len(group.members) - most
    return f"{named} and {left} more" if left > 0 else named


def subscribed(case: Case) -> Iterator[Objection]:
    """Offsets of a topic that a live group subscribes to stay (the broker's error 86)."""
    for step in case.plan.steps:
        group = case.groups.get(step.group_id)
        if not (group and group.is_live and step.action is Action.DELETE_OFFSETS):
            continue
        if group.unreadable_subscription:
            raise CannotTell(
                f"what {group.group_id} subscribes to: {group.unreadable_subscription}"
            )
        for topic in sorted({c.partition.topic for c in step.changes} & group.subscribed_topics):
            readers = [m for m in group.members if topic in m.subscription.topics]
            who = ", ".join(f"{m.client_id} @ {m.host}" for m in readers)
            yield Objection(f"subscribed by {who}", step.group_id, topic)


def pending_transaction(case: Case) -> Iterator[Objection]:
    """What an open transaction is about to commit is not written over."""
    for step, change in case.plan.changes:
        commit = case.commits.get((step.group_id, change.partition))
        if commit and commit.pending:
            why = "an open transaction is about to commit here"
            yield Objection(why, step.group_id, *change.partition)


def topic_never_used(case: Case) -> Iterator[Objection]:
    """A reset adds no topic to a group that never committed it, unless that was asked for."""
    if case.plan.intent is not Intent.RESET or NEW_TOPICS in case.plan.allows:
        return
    used = {(group_id, partition.topic) for group_id, partition in case.commits}
    for step in case.plan.steps:
        for topic in dict.fromkeys(c.partition.topic for c in step.changes if not c.before):
            if (step.group_id, topic) not in used:
                yield Objection("the group never committed this topic", step.group_id, topic)


def facts_moved(case: Case) -> Iterator[Objection]:
    """Every change starts from what the plan says it starts from."""
    if not case.applying:
        return
    for step in case.plan.steps:
        exists = step.group_id in case.groups
        if exists != (step.state is not None) and not case.finishing:
            words = "exists" if exists else "does not exist"
            yield Objection(f"it {words} now, unlike when the plan was made", step.group_id)
        else:
            yield from _moved(case, step)


def _moved(case: Case, step: Step) -> Iterator[Objection]:
    for change in step.changes:
        why = moved(change, case.commits.get((step.group_id, change.partition)))
        if why and not (case.finishing and is_done(case, step, change)):
            yield Objection(why, step.group_id, *change.partition)
    if step.action is Action.DELETE_GROUP:
        planned = {change.partition for change in step.changes}
        for group_id, partition in case.commits:
            if group_id == step.group_id and partition not in planned:
                yield Objection("committed since the plan was made", group_id, *partition)


def moved(change: Change, commit: Commit | None) -> str:
    """Say how what is committed differs from what the change starts from; "" where it does not."""
    holds = Position.of(commit) if commit else None
    if holds == change.before:
        return ""
    return f"{_shown(holds)} is committed now, the plan starts from {_shown(change.before)}"


def is_done(case: Case, step: Step, change: Change) -> bool:
    """Whether a change has been made already."""
    commit = case.commits.get((step.group_id, change.partition))
    return (Position.of(commit) if commit else None) == change.after


def _shown(position: Position | None) -> str:
    return "nothing" if position is None else str(position.offset)


def keeps_committing(case: Case) -> Iterator[Objection]:
    """A group that calls itself Empty and yet commits has an assign() consumer, which goes on."""
    if not case.applying or case.finishing:
        return
    newest = _newest_commits(case)
    for step in case.plan.steps:
        group, last = case.groups.get(step.group_id), newest.get(step.group_id)
        if not group or group.state is not GroupState.EMPTY or not step.changes:
            continue
        if last and step.last_commit_at and last > step.last_commit_at:
            yield Objection(
                f"it has no members, yet somebody committed for it at {last:%H:%M:%S} UTC: an "
                "assign() consumer is running and would write over the change",
                step.group_id,
            )
        elif last and case.facts.taken_at - last > QUIET_AFTER:
            continue
        elif case.facts.taken_at - case.plan.made_at < case.watch:
            raise CannotTell(f"group {step.group_id} has to be looked at twice, {case.watch} apart")


def _newest_commits(case: Case) -> dict[str, datetime]:
    newest: dict[str, datetime] = {}
    for commit in case.facts.commits:
        if at := commit.committed_at:
            newest[commit.group_id] = max(at, newest.get(commit.group_id, at))
    return newest


def unreadable(case: Case) -> Iterator[Objection]:
    """What could not be read of the groups and partitions concerned cannot be judged."""
    groups = set(case.plan.group_ids) & case.groups.keys()
    partitions = {tuple(change.partition) for _, change in case.plan.changes}
    for problem in case.facts.problems:
        at = (problem.topic, problem.partition)
        if problem.what == "leader epochs":
            continue  # an unknown epoch is left out of the commit, which is always safe
        if problem.group_id in groups or at in partitions:
            yield Objection(f"{problem.what}: {problem.why}", problem.group_id, *at)
