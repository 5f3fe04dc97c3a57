"""
Estimate the cost of a hold: interruptions, redelivery, and what happens if the keeper crashes.

The numbers were measured on real brokers, with a margin: they depend on the heartbeat interval and
on the records read since the last commit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.model import CaptureMode, GroupType
from toolkit.model.times import format_duration
from toolkit.plan import Finding
from toolkit.planning.holds.hold_context import HoldContext
from toolkit.planning.holds.recipes import (
    APPLICATION_DELAY,
    APPLICATIONS,
    RECIPES,
    WAITING,
    WAITS_FOR,
    Recipe,
    waits_for_heartbeats,
)
from toolkit.planning.selection.findings import note
from toolkit.planning.selection.member_names import in_short, name_members

ASSIGNING_S = 1.0  # consumer.assignment.interval.ms of brokers
# Heartbeat intervals. Java's KIP-848 consumers change their assignment only in poll()
# (KAFKA-20106): one that waits there, with nothing left to fetch, notices with its next heartbeat
# or commit. Other partitions were silent for 5.4 s with poll(100 ms), for 13.2 s with poll(5 s).
POLL_WAIT = 2
CLASSIC_WAIT = 1.1  # heartbeat intervals until a classic group has stopped
LET_GO_S = 1.0  # how long members of an eager group have to commit and revoke
STREAMS_COMMIT_S = 30.0  # commit.interval.ms of Kafka Streams without exactly-once

ALTERNATIVES = {
    CaptureMode.LOSSLESS: "prefer lossless: no redelivered records; other partitions of the topic "
    "stop for a heartbeat interval, at most for two",
    CaptureMode.QUIET: "prefer quiet: no other member gets the partitions after 2 s, and the owner "
    "stops within {heartbeat:g} s; only partitions of the same owner stop; records it read since "
    "its last commit are redelivered; needs a topic that no member of the group reads",
    CaptureMode.FAST: "prefer fast: no other member gets the partitions after 1 s, and the owner "
    "stops within {heartbeat:g} s; partitions of the topic stop for up to {heartbeat:g} s; records "
    "the owner read since its last commit are redelivered",
}
NO_UPGRADE = (
    "during the pause, no consumer with group.protocol=consumer can join: the broker cannot "
    "upgrade a group that contains an offsetbook member, and that consumer would fail"
)
QUIET_LEADER = (
    "prefer quiet: no other partition stops for longer than a second; the group leader is evicted "
    "right after it has committed, and records it has read since are redelivered"
)
ELSE = "stop the application, reset the group, restart the application"


@dataclass(frozen=True, slots=True)
class Costs:
    """Maximum cost of a hold, in seconds and records; None if unknown."""

    paused_within_s: float
    others_stop_s: float
    resumed_within_s: float
    repeats: int | None
    survives_s: float


def costs(case: HoldContext, recipe: Recipe) -> Costs:
    beat = case.heartbeat_s
    slow_s = WAITS_FOR.total_seconds() if case.slow else 0.0
    stopped_s = slow_s or CLASSIC_WAIT * beat + LET_GO_S
    within, others = {
        Recipe.LOSSLESS: _lossless_s(case, slow_s),
        # An owner that was evicted reads until its next heartbeat.
        Recipe.QUIET: (beat + 2 * ASSIGNING_S, beat + ASSIGNING_S),
        Recipe.FAST: (beat + ASSIGNING_S, beat + ASSIGNING_S),
        Recipe.EAGER: (stopped_s + 2, stopped_s + 2),
        Recipe.CLAIMS: (CLASSIC_WAIT * beat + 4, 4.0),
        Recipe.COOPERATIVE: (
            case.hold_facts.settings.commit_interval_s + CLASSIC_WAIT * beat + 3,
            1.0,
        ),
        Recipe.STREAMS: (beat + ASSIGNING_S, beat + ASSIGNING_S),
        Recipe.APPLICATION: (beat + ASSIGNING_S, 0.0),
        # Cooperative members revoke in one rebalance, and have revoked in the next.
        Recipe.SHARED: (2 * CLASSIC_WAIT * beat, CLASSIC_WAIT * beat),
    }[recipe]
    # The delay before a coordinator assigns tasks cannot be ended early.
    delay_s = APPLICATION_DELAY.total_seconds() if recipe is Recipe.APPLICATION else 0.0
    return Costs(
        paused_within_s=within,
        others_stop_s=others,
        resumed_within_s=delay_s + beat + ASSIGNING_S,
        repeats=_repeats(case, recipe),
        # Some tasks are assigned to the dead holding member then.
        survives_s=delay_s + case.hold_facts.settings.survives_s,
    )


def _lossless_s(case: HoldContext, slow_s: float) -> tuple[float, float]:
    """Return how long the flood of a topic takes, and for how long its other partitions stop."""
    beat, wanted, readers = case.heartbeat_s, set(case.partitions), case.group.readers
    owners = sum(bool(wanted & set(one.assignment)) for one in readers)
    waits = 0
    if waits_for_heartbeats(owners, len(readers), beat):
        # Of several owners the last has its second heartbeat an interval after the first, at most.
        waits = min(owners, 2)
    # An owner may revoke a partition an interval before its new owner learns of it.
    stops = 1 if waits == 1 or len(readers) == 1 else 2
    return (
        waits * beat + max(beat, slow_s) + ASSIGNING_S,
        max(stops * beat, slow_s) + 2 * ASSIGNING_S,
    )


def _repeats(case: HoldContext, recipe: Recipe) -> int | None:
    """Return how many records evicted members may have read since their last commit."""
    if recipe in WAITING:  # what was read since the last commit is part of the lag
        lags = [case.lag(partition) for partition in case.at_risk]
        return None if None in lags else sum(lag or 0 for lag in lags)
    now = case.index.snapshot.taken_at
    counts, while_joining = [], 0.0
    for member in case.evicted:
        count = 0.0
        for partition in member.assignment:
            rate, commit = case.rate(partition), case.commits.get(partition)
            if rate is None:
                return None
            while_joining += rate * case.heartbeat_s
            unread = case.hold_facts.settings.commit_interval_s
            if recipe in APPLICATIONS:
                unread = STREAMS_COMMIT_S
            if commit and commit.committed_at and case.lag(partition):
                unread = max(unread, (now - commit.committed_at).total_seconds())
            count += rate * (unread + case.heartbeat_s)
        counts.append(count)
    # In a cooperative group only the leader is evicted, which is unknown.
    leader = max(counts, default=0.0)
    if recipe is Recipe.CLAIMS:
        return math.ceil(max(leader, while_joining))
    return math.ceil(leader if recipe is Recipe.COOPERATIVE else sum(counts))


def cost_notes(case: HoldContext) -> Iterator[Finding]:
    """Yield the cost of a hold, one note each, such as `stops`, `repeats` and `survives`."""
    recipe, group_id = case.recipe, case.group.group_id
    if recipe is None or not case.partitions:
        return
    found = costs(case, recipe)
    yield note("stops", _stops(case, found), group_id)
    yield note("repeats", _repeated(case, found), group_id)
    yield note("disturbs", _disturbs(case, recipe), group_id)
    yield note("survives", _survives(case, found), group_id)
    yield note("alternatives", _alternatives(case), group_id)
    if case.group.type is GroupType.CLASSIC:
        yield note("no-upgrade", NO_UPGRADE, group_id)


def _stops(case: HoldContext, found: Costs) -> str:
    text = f"{in_short(list(case.partitions))}: paused within about {found.paused_within_s:g} s"
    if case.stopped:
        text += (
            f"; during that time {len(case.stopped):,} other partitions stop for up to about "
            f"{found.others_stop_s:g} s"
        )
    else:
        text += "; no other partition stops for longer than a second"
    if case.recipe is Recipe.LOSSLESS:
        longer = POLL_WAIT * case.heartbeat_s
        text += f"; up to {longer:g} s longer where a Java application waits long in poll()"
    return f"{text}; consumed again within about {found.resumed_within_s:g} s after resume"


def _repeated(case: HoldContext, found: Costs) -> str:
    if found.repeats == 0 or case.recipe in WAITING:
        besides = " besides those that the move repeats" if case.terms.for_move else ""
        text = f"no redelivered records{besides}, provided consumers commit on revoke"
        return text + (_seldom_polled(case, found) if case.recipe in WAITING else "")
    where = in_short(list(case.at_risk))
    by_whom = ""
    if case.recipe is Recipe.CLAIMS:
        by_whom = (
            "; on Kafka 4.0 and newer usually none by consumers that commit on revoke (librdkafka, "
            "not Java)"
        )
    if found.repeats is None:
        return (
            f"records of {where} read since the last commit are redelivered; the number is "
            f"unknown because the consumption rate or the lag is not known{by_whom}"
        )
    return f"up to about {found.repeats:,} records of {where} are redelivered{by_whom}"


def _seldom_polled(case: HoldContext, found: Costs) -> str:
    """Describe redeliveries to members that poll more rarely than the capture waits."""
    text = f" and poll at least every {format_duration(WAITS_FOR)}"
    if not case.evicted:
        return text
    most = "their lag" if found.repeats is None else f"their lag of {found.repeats:,} offsets"
    names, where = name_members(case.evicted), in_short(list(case.at_risk))
    return f"{text}; of those that may not, {names}, at most {most} of {where}"


def _disturbs(case: HoldContext, recipe: Recipe) -> str:
    touched = {*case.partitions, *case.stopped}
    members = [m for m in case.group.readers if touched & set(m.assignment)]
    everybody = name_members(case.group.readers)
    by_the_leader = {
        Recipe.CLAIMS: (
            f"all members revoke their partitions and rebalance; the group leader (one of "
            f"{everybody}) is evicted while it owns nothing (before Kafka 4.0: right after it has "
            "committed), and rejoins"
        ),
        Recipe.COOPERATIVE: f"the group leader (one of {everybody}) is evicted and rejoins",
        Recipe.EAGER: f"all members rebalance twice, without extra downtime: {everybody}",
        Recipe.SHARED: f"no member is evicted; all members rebalance: {everybody}",
        Recipe.APPLICATION: (
            f"all members are evicted, again every {format_duration(APPLICATION_DELAY)}, and "
            f"rejoin without tasks: {everybody}. A stream thread that is evicted while it commits "
            "may end (seen with Kafka Streams 4.3.1)"
        ),
    }
    if recipe in by_the_leader:
        return by_the_leader[recipe]
    if case.evicted and recipe is not Recipe.LOSSLESS:
        return f"evicted once, and rejoin automatically: {name_members(case.evicted)}"
    text = f"partitions are revoked from {name_members(members) or 'no member'}"
    if case.evicted:
        late = format_duration(WAITS_FOR)
        return f"{text}; evicted if they revoke nothing for {late}: {name_members(case.evicted)}"
    return f"no member is evicted; {text}"


def _survives(case: HoldContext, found: Costs) -> str:
    lasts = format_duration(found.survives_s)
    ends = (
        f"after {format_duration(case.terms.pause_for)}" if case.terms.pause_for else "when resumed"
    )
    why = "session timeout"
    if case.recipe is Recipe.APPLICATION:
        why = f"some after {format_duration(APPLICATION_DELAY)}, all after a session timeout more"
    return (
        f"ends {ends}. If the keeper and its standby crash, the group resumes the partitions after "
        f"about {lasts} ({why}), unless another keeper takes over"
    )


def _alternatives(case: HoldContext) -> str:
    others = [
        ALTERNATIVES[prefer].format(heartbeat=case.heartbeat_s + ASSIGNING_S)
        for prefer, recipe in RECIPES.items()
        if case.recipe in RECIPES.values() and recipe is not case.recipe
    ]
    if case.recipe is Recipe.CLAIMS:
        others = [QUIET_LEADER]
    return ". ".join([*others, ELSE])
