"""Rules about groups as they are now, and what a plan skips, repeats or deletes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial

from toolkit.model import (
    Group,
    GroupState,
    GroupType,
    TopicPartition,
    Unread,
)
from toolkit.model.names import shown_name
from toolkit.model.offsets import is_another_topic
from toolkit.model.plurals import counted
from toolkit.plan import (
    HOLD_ACTIONS,
    NEW_GROUP,
    NEW_TOPICS,
    Action,
    Finding,
    Intent,
    Position,
    Severity,
    Step,
)
from toolkit.planning.guardrails.check_context import (
    AIMED,
    NEW_OFFSETS,
    CheckContext,
    FactsMissing,
    Objection,
)
from toolkit.planning.guardrails.policy_rules import CLOCKS_DIFFER_BY
from toolkit.planning.guardrails.rule import ANY, NEVER, OF_OFFSETS, Rule
from toolkit.planning.selection.findings import unread
from toolkit.planning.selection.group_selection import NO_OFFSETS, is_unread, why_live
from toolkit.planning.selection.member_names import name_members
from toolkit.planning.selection.plan_parts import PENDING, moved_offsets, shown

# A group whose last commit is younger is read twice; the broker's clock may be behind this one.
QUIET_AFTER = timedelta(minutes=1) + CLOCKS_DIFFER_BY
# Intents that say nothing is to be done where nothing is committed.
OF_COMMITS = NEW_OFFSETS | {
    *(Intent.COPY, Intent.RENAME, Intent.RESCUE, Intent.DELETE_OFFSETS, Intent.DELETE_GROUPS),
}
OFFSETS_GO = frozenset({Intent.DELETE_OFFSETS, Intent.UNDO})
GROUPS_GO = frozenset({Intent.DELETE_GROUPS, Intent.RENAME, Intent.UNDO})
READS_ON = HOLD_ACTIONS | {
    Action.DELETE_OFFSETS,
    Action.FIRST_COMMIT,
}  # its members need not be stopped for it


@Rule("The plan was made for this cluster.", override=NEVER, lasting=True)
def wrong_cluster(case: CheckContext) -> Iterator[Objection]:
    here = case.facts.cluster_id  # another one if it was rebuilt under the same name
    if not here:
        raise FactsMissing("the id of this cluster")
    if here != case.plan.cluster_id:
        yield Objection(
            f"plan is for cluster id {case.plan.cluster_id!r}, but this cluster has id {here!r}"
        )


@Rule("The group exists, unless the request creates it.", override=NEVER)
def no_such_group(case: CheckContext) -> Iterator[Objection]:
    """Block plans that would create a group unintentionally, for example by a misspelt id."""
    for step in case.plan.steps:
        if step.state is None and not (step.creates and NEW_GROUP in case.plan.allows):
            yield Objection("group does not exist, and this plan may not create it", step.group_id)


@Rule(
    "The group is not a share group, unless the plan deletes it.",
    override=NEVER,
    intents=ANY - {Intent.DELETE_GROUPS},
)
def share_group(case: CheckContext) -> Iterator[Objection]:
    for step in case.plan.steps:
        group = case.groups.get(step.group_id)
        if group and group.type is GroupType.SHARE and step.action is not Action.DELETE_GROUP:
            yield Objection(NO_OFFSETS, step.group_id)


@Rule(
    "The group has no members, or nobody reads the partitions that change.",
    override=NEVER,
    intents=OF_OFFSETS,
)
def group_live(case: CheckContext) -> Iterator[Objection]:
    """
    Block changes of a live group, except for unsubscribed and paused partitions.

    A move pauses the partitions itself before it is applied, or evicts their owners if a group
    cannot be held.
    """
    for step in case.plan.steps:
        group = case.groups.get(step.group_id)
        if not group or not group.is_live or step.action in READS_ON:
            continue
        changed = [change.partition for change in step.changes]
        if step.action is Action.MOVE and (is_unread(group, changed) or _holds_later(case, group)):
            continue
        yield Objection(why_live(group, step.action, changed), step.group_id)


def _holds_later(case: CheckContext, group: Group) -> bool:
    if case.plan.intent is not Intent.MOVE:
        return False
    return not case.applying or group.type is GroupType.STREAMS


@Rule(
    "No member subscribes to a topic whose committed offsets the plan deletes.",
    override=NEVER,
    intents=OFFSETS_GO,
)
def subscribed(case: CheckContext) -> Iterator[Objection]:
    unknown = []
    for step in case.plan.steps:
        group = case.groups.get(step.group_id)
        if not (group and group.is_live and step.action is Action.DELETE_OFFSETS):
            continue
        if why := group.unreadable_subscription:
            unknown.append(f"what {shown_name(group.group_id)} subscribes to: {why}")
            continue
        for topic in sorted({c.partition.topic for c in step.changes} & group.subscribed_topics):
            readers = [m for m in group.members if topic in m.subscription.topics]
            yield Objection(f"subscribed by {name_members(readers)}", step.group_id, topic)
    FactsMissing.where(unknown)


@Rule(
    "No open transaction is about to commit an offset that the plan changes or copies.",
    intents=OF_OFFSETS,
)
def pending_transaction(case: CheckContext) -> Iterator[Objection]:
    for step in case.plan.steps if case.pending else ():
        for change in step.changes if step.action not in HOLD_ACTIONS else ():
            if (step.group_id, change.partition) in case.pending:
                yield Objection(PENDING, step.group_id, *change.partition)


@Rule(
    "The group has committed the topic before, or the request allows new topics.",
    override=NEVER,
    instead="allow new topics, in a reset or a move: --new-topics, or new_topics=True in a "
    "notebook",
    intents=NEW_OFFSETS | {Intent.COPY},
)
def topic_never_used(case: CheckContext) -> Iterator[Objection]:
    if case.plan.intent not in NEW_OFFSETS or NEW_TOPICS in case.plan.allows:
        return
    for step in case.plan.steps:
        added = dict.fromkeys(c.partition.topic for c in step.changes if not c.before)
        used = {partition.topic for partition in case.committed(step.group_id)} if added else ()
        for topic in added:
            if topic not in used:
                yield Objection(
                    "the group has never committed offsets for this topic", step.group_id, topic
                )


@Rule("Groups and committed offsets are as they were when the plan was made.", override=NEVER)
def facts_moved(case: CheckContext) -> Iterator[Objection]:
    for step in case.plan.steps:
        group = case.groups.get(step.group_id)
        if why := _group_difference(case, step, group):
            yield Objection(why, step.group_id)
        elif step.action not in HOLD_ACTIONS and not _is_read_on(case, step, group):
            yield from _commit_differences(case, step)


def _is_read_on(case: CheckContext, step: Step, group: Group | None) -> bool:
    """Whether members consume, and commit, until the change itself."""
    if step.action is not Action.MOVE:
        return False
    # A live group that is moved by terms is planned again while its partitions are held.
    is_by_terms = bool(case.plan.terms and group and group.is_live)
    return is_by_terms or step.type is GroupType.STREAMS


@Rule("The topic was not deleted and created again since its offsets were read.")
def topic_recreated(case: CheckContext) -> Iterator[Objection]:
    if case.facts.cluster_id != case.plan.cluster_id:
        return  # that has its own rule, and no topic is the same there
    for step in case.plan.steps:
        for topic in sorted({change.partition.topic for change in step.changes}):
            then, now = case.plan.topic_ids.get(topic), case.facts.topic_ids.get(topic)
            if is_another_topic(then, now):
                why = "topic was deleted and re-created since the plan was made"
                yield Objection(why, step.group_id, topic)


def _may_be_part_done(case: CheckContext) -> bool:
    """Whether a run may have done a part; while a plan is reviewed, that is not checked yet."""
    return case.finishing or not case.applying


def _group_difference(case: CheckContext, step: Step, group: Group | None) -> str:
    """Say how a group is another thing than the plan was made for; "" where it is not."""
    if (group is None) != (step.state is None):
        now = partial(case.index.committed_position, step.group_id)
        begun = not step.changes or any(now(c.partition) == c.after for c in step.changes)
        if _may_be_part_done(case) and begun:
            return ""  # this plan has made it, or deleted it
        return f"group now {'exists' if group else 'does not exist'}, unlike when the plan was made"
    if group and group.type is not step.type:
        return f"it is a {group.type} group now, and was {step.type} when the plan was made"
    return ""


def _commit_differences(case: CheckContext, step: Step) -> Iterator[Objection]:
    committed = {p: Position.of(commit) for p, commit in case.committed(step.group_id).items()}
    for partition, change in moved_offsets(step, committed, may_be_made=_may_be_part_done(case)):
        why = "new committed offset since the plan was made"
        if change:
            found, expected = committed.get(partition), change.before
            now, then = shown(found, expected), shown(expected, found)
            why = f"committed offset is {now}, but the plan expects {then}"
        yield Objection(why, step.group_id, *partition)


@Rule("Nobody commits for a group that has no members.", intents=OF_OFFSETS)
def keeps_committing(case: CheckContext) -> Iterator[Objection]:
    if not case.applying:
        return
    watched = case.facts.taken_at - case.plan.made_at >= case.watch
    unknown = []
    for step in case.plan.steps:
        group = case.groups.get(step.group_id)
        if not group or group.state is not GroupState.EMPTY or step.action in HOLD_ACTIONS:
            continue
        if all((step.group_id, c.partition) in case.made for c in step.changes):  # or none
            continue
        at = _commit_times(case, step)
        last = max(filter(None, at), default=None)
        if last and last > (step.last_commit_at or case.plan.made_at):
            yield Objection(
                f"group has no members, but a client committed at {last:%H:%M:%S} UTC, after the "
                "plan was made. A running assign() consumer would overwrite the change",
                step.group_id,
            )
        elif not watched and not _is_quiet(at, case.facts.taken_at):
            apart = f"{case.watch.total_seconds():g} s"
            unknown.append(f"whether {shown_name(step.group_id)} still commits; retry in {apart}")
    FactsMissing.where(unknown)


def _commit_times(case: CheckContext, step: Step) -> list[datetime | None]:
    """Return when a group committed, without what an earlier run of this plan did."""
    committed, name = case.committed(step.group_id).items(), step.group_id
    return [commit.committed_at for at, commit in committed if (name, at) not in case.made]


def _is_quiet(times: Sequence[datetime | None], now: datetime) -> bool:
    """Whether all commits are old; one that changed while it was read has no time."""
    known = [at for at in times if at]
    return len(known) == len(times) > 0 and now - max(known) > QUIET_AFTER


@Rule("Everything that the plan depends on could be read.")
def unreadable(case: CheckContext) -> Iterator[Objection]:
    # A resume moves no offset: it needs neither committed offsets nor logs.
    steps = [step for step in case.plan.steps if step.action is not Action.RELEASE]
    groups, logs = {step.group_id for step in steps}, _needed_logs(case)
    reported = set()
    for problem in case.facts.problems:
        about = (problem.group_id, problem.topic, problem.partition)
        # An unknown epoch is left out of the commit, which is always safe.
        if problem.what in {Unread.LEADER_EPOCHS, Unread.GROUP}:
            continue
        if problem.group_id in groups or about in logs:
            reported.add(problem.group_id)
            yield Objection(unread(problem).why, *about)
    yield from _hidden_commits(case)
    for name in case.plan.group_ids:
        yield from (Objection(found.why, name) for found in case.index.unlisted(name))
        group = case.groups.get(name)
        if group and not group.described and name not in reported:
            yield Objection("its members are not known", name)


def _hidden_commits(case: CheckContext) -> Iterator[Objection]:
    """Yield the groups without known commits, because these may be hidden."""
    if case.plan.intent not in OF_COMMITS:
        return
    hidden = [problem for problem in case.facts.problems if problem.what is Unread.HIDDEN_COMMITS]
    for problem in hidden:
        for name, group in case.groups.items():
            if not case.committed(name) and group.type is not GroupType.SHARE:
                yield Objection(f"unknown what it has committed: {problem.why}", name)


def _needed_logs(case: CheckContext) -> set[tuple[None, str, int | None]]:
    """Return what problems call the logs, and their topics, in which an offset would move."""
    moves = {c.partition for _, c in case.plan.changes if c.after and c.after != c.before}
    topics = {partition.topic for partition in moves}
    return {(None, *partition) for partition in moves} | {(None, topic, None) for topic in topics}


@Rule("The plan skips no record that the group has not read.", intents=AIMED)
def skips_unread_records(case: CheckContext) -> Iterator[Objection]:
    for group_id, count in case.moves.skipped.items():
        yield Objection(f"at most {counted(count, 'unread record')} would be skipped", group_id)
    FactsMissing.where(case.moves.unknown)


def skips_no_record(case: CheckContext) -> Iterator[Finding]:
    """Note where an offset moves on over markers or compacted offsets alone, and no record."""
    firsts, logs = case.facts.first_records, case.facts.logs
    for step, (partition, before, after, _) in case.plan.changes if firsts else ():
        log = logs.get(partition)
        if not log or not before or not after or after.offset <= before.offset:
            continue
        first = firsts.get((partition, case.unread_from(step.group_id, partition, before, log)))
        if first is not None and first >= after.offset:
            why = f"no record is skipped: the next record has offset {first:,}"
            yield Finding("skips-no-record", Severity.NOTE, why, step.group_id, *partition)


@Rule("The records asked for still exist, and every new offset is in its log.", intents=AIMED)
def before_log_start(case: CheckContext) -> Iterator[Objection]:
    yield from case.moves.outside
    FactsMissing.where(case.moves.unknown)


@Rule(
    "The group whose single offsets the plan deletes has a name.",
    override=NEVER,
    instead="delete the group with all its offsets: offsetbook delete-groups, or notebook 61",
    intents=OFFSETS_GO,
)
def empty_name(case: CheckContext) -> Iterator[Objection]:
    """Block what brokers refuse with INVALID_GROUP_ID, from Kafka 3.9 to 4.4."""
    for step in case.plan.steps:
        if step.action is Action.DELETE_OFFSETS and not step.group_id:
            why = "brokers delete no single offsets of the group with the empty name"
            yield Objection(why, step.group_id)


@Rule("The group keeps at least one committed offset.", intents=OFFSETS_GO)
def last_offsets(case: CheckContext) -> Iterator[Objection]:
    gone: defaultdict[str, set[TopicPartition]] = defaultdict(set)
    for step in case.plan.steps:
        if step.action is Action.DELETE_OFFSETS:
            gone[step.group_id].update(change.partition for change in step.changes)
    for group_id, partitions in gone.items():
        committed = case.committed(group_id)
        if committed and committed.keys() <= partitions:
            yield Objection(
                "these are the group's last committed offsets; afterwards its consumers start "
                "according to auto.offset.reset",
                group_id,
            )


@Rule("An undo can restore everything that the plan deletes.", intents=GROUPS_GO)
def not_undoable(case: CheckContext) -> Iterator[Objection]:
    for step in case.plan.steps:
        group = case.groups.get(step.group_id)
        if step.action is Action.DELETE_GROUP and group and group.type is GroupType.SHARE:
            why = "deleting a share group deletes its share state; undo cannot restore it"
            yield Objection(why, step.group_id)


@Rule("Every committed offset that is deleted with a group was visible.", intents=GROUPS_GO)
def hidden_offsets(case: CheckContext) -> Iterator[Objection]:
    """
    Block the deletion of a group with committed offsets that were not shown.

    A coordinator does not return offsets of topics that this user may not describe, but deletes
    them as well; only the offsets topic has them.
    """
    for step in case.plan.steps:
        if step.action is Action.DELETE_GROUP and step.group_id in case.groups:
            for problem in case.facts.problems:
                if problem.what is Unread.COMMIT_TIMES:
                    raise FactsMissing(f"whether all committed offsets are shown: {problem.why}")
    yield from ()
