"""
Rules that block or warn about a hold, one function per rule; the registry says what each judges.

`GROUP_RULES` concern the group only and are checked again when a plan is applied. The others check
the partitions and yield findings. The reasons were measured on real brokers; the recipes are in
`toolkit.live`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from toolkit.model import (
    CaptureMode,
    Group,
    GroupState,
    GroupType,
    HoldNote,
    Member,
    TopicPartition,
)
from toolkit.model.groups import STREAMS_PROTOCOL
from toolkit.model.times import format_duration
from toolkit.plan import Finding, Severity
from toolkit.planning.holds.assignment import ASSIGNORS, Subscriber, assigns_otherwise
from toolkit.planning.holds.hold_context import HoldContext
from toolkit.planning.holds.recipes import (
    APPLICATIONS,
    CONSUMER_RECIPES,
    COOPERATIVE,
    KNOWN,
    WAITING,
    WAITS_FOR,
    Recipe,
)
from toolkit.planning.selection.findings import block, note, unread
from toolkit.planning.selection.group_selection import UNKNOWN_TYPE
from toolkit.planning.selection.member_names import holder_in_words, in_short, name_members

LONGEST_HOLD = timedelta(milliseconds=2**31 - 1)  # maximum rebalance timeout of a KIP-848 member
SLOW_HEARTBEAT_S = 10.0
OLD_COMMIT = timedelta(minutes=1)
CLASSIC_EXTRA_MEMBERS = 2
# Groups in which each partition has one owner.
WITH_OWNERS = frozenset({GroupType.CLASSIC, GroupType.CONSUMER, GroupType.STREAMS})
ALIKE = timedelta(minutes=1)  # ends closer than this count as the same
RANGE = "range"
SLOW_MEMBER_HARMS = {
    Recipe.LOSSLESS: "the topic's other partitions stop until it polls, for up to {wait}; then it "
    "is evicted, and what it has read since its last commit is redelivered. prefer quiet evicts it "
    "at once, and no partitions of other members stop",
    Recipe.CLAIMS: "the pause is refused after {wait}; if it stops polling only when the others "
    "have revoked their partitions, all stop for up to {wait}, then it is evicted, and what it has "
    "read since its last commit is redelivered. prefer quiet does not wait for it",
    Recipe.EAGER: "all members stop until it polls, as in every rebalance, for up to {wait}; then "
    "it is evicted, and what it has read since its last commit is redelivered",
    Recipe.SHARED: "all members stop until it polls, as in every rebalance, for up to its "
    "rebalance timeout (max.poll.interval.ms, 5 min by default)",
}


def group_kind(group: Group) -> str:
    match group.type:
        case GroupType.SHARE:
            return "members of a share group read partitions together (KIP-932)"
        case GroupType.SIMPLE:
            return "group has no members (assign() consumers): stop them and reset the group"
        case GroupType.UNKNOWN:
            return UNKNOWN_TYPE
        case _:
            return ""


def group_empty(group: Group) -> str:
    if group.state is GroupState.EMPTY and group.type in WITH_OWNERS:
        return "group is empty: reset it without a pause"
    return ""


def not_stable(group: Group) -> str:
    """Block groups that are not Stable; a group that is already held may be Reconciling."""
    held = group.state is GroupState.RECONCILING and bool(group.paused)
    if group.state in {GroupState.STABLE, GroupState.EMPTY} or held:
        return ""
    return f"group is {group.state}: wait until it is Stable"


def custom_protocol(group: Group) -> str:
    """Block unknown assignors: the leader must send bytes that members understand."""
    if group.type is not GroupType.CLASSIC or group.state is GroupState.EMPTY:
        return ""
    if group.protocol_type != "consumer":
        return f"protocol type is {group.protocol_type!r}, not 'consumer'"
    if group.state is GroupState.STABLE and group.assignor not in KNOWN:
        known = ", ".join(sorted(KNOWN - {STREAMS_PROTOCOL}))
        return f"assignor {group.assignor!r} is not supported; supported: {known}"
    return ""


def unreadable_member(group: Group) -> str:
    if not group.described:
        return "the group's members are unknown"
    return next((m.subscription.unreadable for m in group.readers if m.subscription.unreadable), "")


GROUP_RULES: dict[str, Callable[[Group], str]] = {
    "group-kind": group_kind,
    "group-empty": group_empty,
    "not-stable": not_stable,
    "custom-protocol": custom_protocol,
    "unreadable-member": unreadable_member,
}


def whole_application(case: HoldContext) -> Iterator[Finding]:
    group = case.group
    if case.recipe is not Recipe.APPLICATION:
        return
    known = case.index.partitions
    all_ = {
        TopicPartition(topic, n) for topic in group.subscribed_topics for n in known.get(topic, ())
    }
    if also := sorted(all_ - {*case.partitions, *group.paused}):
        why = (
            "Streams groups (KIP-1071) cannot be paused per partition, only as a whole: "
            f"{in_short(also)} would stop as well. Name no topic, or use 'offsetbook move'"
        )
        yield block("whole-application", why, group.group_id)


def not_subscribed(case: HoldContext) -> Iterator[Finding]:
    subscribed = {topic for m in case.group.readers for topic in m.subscription.topics}
    for topic in sorted({partition.topic for partition in case.partitions} - subscribed):
        why = "no member subscribes to it"
        yield Finding("not-subscribed", Severity.BLOCK, why, case.group.group_id, topic)


def nothing_assigned(case: HoldContext) -> Iterator[Finding]:
    unread = [partition for partition in case.partitions if partition not in case.owners]
    if not unread:
        return
    why = f"{in_short(unread)} is not assigned to any member now"
    if len(unread) == len(case.partitions):
        yield block("nothing-assigned", f"{why}: there is nothing to pause", case.group.group_id)
    else:
        yield note(
            "not-assigned",
            f"{why}; the pause also applies to members that join later",
            case.group.group_id,
        )


def no_committed_offset(case: HoldContext) -> Iterator[Finding]:
    """
    Block partitions without a committed offset: their next owner starts at auto.offset.reset.

    With `latest` it never reads what is produced while the partition has no owner. The Java client
    commits its position when it loses a partition; librdkafka does not if it has read nothing.
    """
    yield from (unread(case.unread[one]) for one in sorted(case.regained & case.unread.keys()))
    if case.uncommitted and not case.terms.commit_missing:
        why = (
            f"no committed offset for {in_short(case.uncommitted)}: the next owner starts "
            "according to auto.offset.reset; with `latest` it skips what is produced meanwhile. "
            "Set commit-missing to commit a position first"
        )
        yield block("no-committed-offset", why, case.group.group_id)


def old_commit(case: HoldContext) -> Iterator[Finding]:
    now = case.index.snapshot.taken_at
    for partition in () if case.recipe in WAITING else case.at_risk:  # slow-member reports it
        commit = case.commits.get(partition)
        if commit is None or commit.committed_at is None or not case.lag(partition):
            continue
        if now - commit.committed_at > OLD_COMMIT:
            age = format_duration(now - commit.committed_at)
            why = f"last commit was {age} ago; records read since then would be redelivered"
            yield note("old-commit", why, case.group.group_id, partition)


def slow_group(case: HoldContext) -> Iterator[Finding]:
    if case.heartbeat_s > SLOW_HEARTBEAT_S:
        why = f"heartbeat interval is {case.heartbeat_s:g} s: members react at their next heartbeat"
        yield note("slow-group", why, case.group.group_id)


def slow_member(case: HoldContext) -> Iterator[Finding]:
    """Report members with lag and no commit for long, where the capture waits for them."""
    if case.recipe not in SLOW_MEMBER_HARMS:
        return
    if case.recipe is Recipe.SHARED and case.group.assignor == COOPERATIVE:
        return  # its members read on during a rebalance
    for member in case.slow:
        age = format_duration(case.since_last_commit(member) or WAITS_FOR)
        harm = SLOW_MEMBER_HARMS[case.recipe].format(wait=format_duration(WAITS_FOR))
        why = (
            f"{name_members([member])} has lag and has not committed for {age}: if it is "
            f"processing one record, {harm}"
        )
        yield note("slow-member", why, case.group.group_id)


def hold_too_long(case: HoldContext) -> Iterator[Finding]:
    too_long = case.terms.pause_for is not None and case.terms.pause_for > LONGEST_HOLD
    if too_long and case.recipe in CONSUMER_RECIPES:
        why = f"a pause of a KIP-848 group can last at most {format_duration(LONGEST_HOLD)}"
        yield block("hold-too-long", why, case.group.group_id)


def retention(case: HoldContext) -> Iterator[Finding]:
    """Report that offsets can expire: holding members have no subscription (KIP-848)."""
    retention_time = case.hold_facts.settings.retention
    if case.recipe not in CONSUMER_RECIPES or retention_time is None:
        return
    if case.terms.pause_for is None or case.terms.pause_for > retention_time:
        lasts = format_duration(retention_time)
        why = (
            f"if all consumers leave, the group's offsets expire after {lasts}, even during the "
            "pause"
        )
        say = note if case.group.readers else block
        yield say("retention", why, case.group.group_id)


def group_size(case: HoldContext) -> Iterator[Finding]:
    """Block if the temporary members exceed the group's maximum size (one per partition)."""
    largest = case.hold_facts.settings.max_size
    if largest is None or case.recipe is None:
        return
    own_members = CLASSIC_EXTRA_MEMBERS + (len(case.claimed) if case.recipe is Recipe.CLAIMS else 0)
    if case.recipe in CONSUMER_RECIPES:
        topics = {partition.topic for partition in case.partitions}
        counts = [len(case.index.partitions.get(topic, ())) for topic in topics]
        own_members = max(counts, default=0) + len(case.partitions)
    needed = len(case.group.members) + own_members
    if needed > largest:
        why = f"needs {needed:,} members temporarily; the group's maximum size is {largest:,}"
        yield block("group-size", why, case.group.group_id)


def another_hold(case: HoldContext) -> Iterator[Finding]:
    for member in holders(case.group):
        if not is_own_hold(member, case.hold_facts.by):
            text = f"{holder_in_words(member)} has already paused {in_short(list(member.holds))}"
            if case.recipe in APPLICATIONS:
                why = (
                    f"{text}. Pause these partitions from there as well, or resume that pause first"
                )
                yield block("another-hold", why, case.group.group_id)
            else:
                yield note("another-hold", text, case.group.group_id)


def other_end(case: HoldContext) -> Iterator[Finding]:
    """Block additions to a hold that ends at another time; a move resumes what it holds itself."""
    if case.terms.for_move:
        return
    now, pause_for = case.index.snapshot.taken_at, case.terms.pause_for
    requested_end = now + pause_for if pause_for else None
    for member in holders(case.group):
        note_ = member.hold_note
        if note_ is None or not is_own_hold(member, case.hold_facts.by):
            continue
        until = note_.until
        is_same = until is requested_end or (
            until and requested_end and abs(until - requested_end) <= ALIKE
        )
        if not is_same:
            why = (
                f"{in_short(list(member.holds))} is already paused, which ends {end_of(note_)}; "
                "added partitions end with it. Use the same duration, or resume first"
            )
            yield block("other-end", why, case.group.group_id)
            return


def end_of(note_: HoldNote) -> str:
    return f"at {note_.until:%Y-%m-%d %H:%M:%S} UTC" if note_.until else "when resumed"


def no_choice(case: HoldContext) -> Iterator[Finding]:
    used = {CaptureMode.LOSSLESS} | ({CaptureMode.QUIET} if case.claimed else set())
    if case.group.type is not GroupType.CONSUMER and case.terms.prefer not in used:
        why = f"prefer {case.terms.prefer} is ignored: it does not apply to this kind of group"
        yield note("no-choice", why, case.group.group_id)
    if case.recipe is Recipe.STREAMS:
        why = "Kafka Streams application: every instance is evicted once and rejoins"
        yield note("no-choice", why, case.group.group_id)


def assignor_differs(case: HoldContext) -> Iterator[Finding]:
    """
    Report a group whose own assignor assigns otherwise than the hold, as by rack (KIP-881).

    Block it where topics may be read together by partition number, as with range.
    """
    group, known = case.group, case.index.partitions
    if group.type is not GroupType.CLASSIC or group.assignor not in ASSIGNORS or group.paused:
        return
    topics = group.subscribed_topics
    counts = {topic: len(known[topic]) for topic in topics if topic in known}
    if group.assignor != RANGE and counts.keys() < topics:
        return  # what one topic adds moves the partitions of another
    members = [
        Subscriber(m.member_id, m.subscription.topics, instance_id=m.instance_id or "")
        for m in group.readers
    ]
    shares = {m.member_id: frozenset(m.assignment) for m in group.readers}
    if not assigns_otherwise(members, counts, shares, assignor=group.assignor):
        return
    why = (
        f"the group's {group.assignor} assignor assigns partitions otherwise than Kafka's, for "
        "example by rack; during the pause members keep what they have, and one that joins is "
        "given partitions by number only"
    )
    if group.assignor == RANGE and len(topics) > 1:
        why += ": equal partition numbers of two topics may then be read by two members"
        yield block("assignor-differs", why, group.group_id)
    else:
        yield note("assignor-differs", why, group.group_id)


CASE_RULES: tuple[Callable[[HoldContext], Iterator[Finding]], ...] = (
    whole_application,
    not_subscribed,
    nothing_assigned,
    no_committed_offset,
    old_commit,
    slow_group,
    slow_member,
    hold_too_long,
    retention,
    group_size,
    another_hold,
    other_end,
    no_choice,
    assignor_differs,
)


def holders(group: Group) -> list[Member]:
    """Return the members that hold partitions, in order."""
    found = (member for member in group.members if member.holds)
    return sorted(found, key=lambda member: member.member_id)


def is_own_hold(member: Member, by: tuple[str, str] | None) -> bool:
    """Return whether a hold belongs to this user on this host; True if `by` is None."""
    note_ = member.hold_note
    return by is None or (note_ is not None and (note_.who, note_.host) == by)
