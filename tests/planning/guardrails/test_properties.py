"""What guard-rails hold to for any small plan and any facts, by counting the slow way."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace

from facts import NOON
from guardrail_cases import IDLE, SECOND, found
from guardrail_strategies import (
    AIMED,
    NAMES,
    NEW_OFFSETS,
    PLACES,
    any_cases,
    changes_of,
    intents,
    positions,
)
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import Commit, GroupState, GroupType, LogOffsets, Policy, Snapshot
from toolkit.model.plurals import counted
from toolkit.plan import Action, Change, Intent, Plan, Position, Step
from toolkit.planning.guardrails.check_context import CheckContext, FactsMissing
from toolkit.planning.guardrails.registry import RULES, check


@given(any_cases)
def test_a_rule_raises_nothing_but_that_it_cannot_tell(about: CheckContext) -> None:
    """No fact, however odd, makes a rule fail in another way, and no reason is empty."""
    for judge in filter(None, (rule.by for rule in RULES.values())):
        with suppress(FactsMissing):
            assert all(objection.why for objection in judge(about))
    assert all(finding.rule in RULES for finding in check(about))


def held(about: CheckContext, change: Change) -> Position | None:
    """Return what is committed now where a change is to be made."""
    for commit in about.facts.commits:
        if (commit.group_id, commit.topic, commit.partition) == ("g", *change.partition):
            return Position.of(commit)
    return None


@st.composite
def cases_of_one_group(draw: st.DrawFn) -> CheckContext:
    """Return a plan for an idle group, of which some commits may have moved since."""
    changes = draw(changes_of(positions))
    commits = []
    for change in changes:
        now = draw(st.sampled_from([change.before, change.after]) | st.none() | positions)
        if now is not None:
            commits.append(
                Commit("g", *change.partition, now.offset, now.leader_epoch, now.metadata)
            )
    step = Step("g", Action.COMMIT, changes, GroupType.CLASSIC, GroupState.EMPTY)
    facts = Snapshot("eu", "id", NOON, (IDLE,), tuple(commits), {})
    made = Plan(Intent.UNDO, "as asked", "eu", "id", NOON - 10 * SECOND, (step,))
    return CheckContext(made, facts, Policy(), NOON, "why", applying=True)


@given(cases_of_one_group(), st.booleans())
def test_facts_moved_objects_exactly_where_a_change_does_not_start_from_the_facts(
    about: CheckContext,
    finishing: bool,  # noqa: FBT001 - hypothesis fills it in
) -> None:
    """While a run is finished, what is where the plan sends it is all right too."""
    (step,) = about.plan.steps
    expected = [
        ("g", *change.partition)
        for change in step.changes
        if held(about, change) not in ({change.before} | ({change.after} if finishing else set()))
    ]
    findings = found("facts-moved", replace(about, finishing=finishing))

    assert expected == [(f.group_id, f.topic, f.partition) for f in findings]


@st.composite
def cases_with_logs(draw: st.DrawFn) -> CheckContext:
    """Return a plan for two groups, with logs that have a beginning and an end."""
    steps = tuple(
        Step(name, Action.COMMIT, draw(changes_of(positions)), GroupType.CLASSIC, GroupState.EMPTY)
        for name in NAMES
    )
    logs = {}
    for place in PLACES:
        start, length = draw(st.integers(0, 6)), draw(st.integers(0, 6))
        logs[place] = LogOffsets(start, start + length)
    made = Plan(draw(intents), "as asked", "eu", "id", NOON, steps)
    return CheckContext(made, Snapshot("eu", "id", NOON, (), (), logs), Policy(), NOON)


def records(about: CheckContext, change: Change, *, of: Position | None) -> set[int]:
    """Return the records that a reader at a position has ahead, of those that are in the log."""
    log = about.facts.logs[change.partition]
    every = set(range(log.log_start or 0, log.log_end or 0))
    return {number for number in every if of is None or number >= of.offset}


def skipped(about: CheckContext, change: Change) -> int:
    """Count unread records that are not ahead any more; one past the log end has read nothing."""
    if change.after is None or (change.before is None and about.plan.intent not in NEW_OFFSETS):
        return 0
    ahead = records(about, change, of=change.after)
    end = about.facts.logs[change.partition].log_end or 0
    before = change.before if change.before and change.before.offset <= end else None
    return len(records(about, change, of=before) - ahead)


def repeated(about: CheckContext, change: Change) -> int:
    if change.after is None or change.before is None:
        return 0
    ahead = records(about, change, of=change.after)
    return len(ahead - records(about, change, of=change.before))


@given(cases_with_logs())
def test_records_are_counted_as_one_by_one(about: CheckContext) -> None:
    """What is skipped and repeated are records that exist, counted as sets of their numbers."""
    lost: Counter[str] = Counter()
    again = 0
    if about.plan.intent in AIMED:
        for step, change in about.plan.changes:
            lost[step.group_id] += skipped(about, change)
            again += repeated(about, change)
    most = {name: f"at most {counted(count, 'unread record')}" for name, count in lost.items()}
    by_group = [(name, words) for name, words in most.items() if lost[name]]
    strict = replace(about, policy=Policy(max_records_skipped=-1, max_records_repeated=-1))

    assert by_group == [
        (f.group_id, f.why.partition(" would ")[0]) for f in found("skips-unread-records", about)
    ]
    assert [
        f"{lost.total()} records skipped; max_records_skipped is -1",
        f"{again} records repeated; max_records_repeated is -1",
    ] == [finding.why for finding in found("too-many-records", strict)]


@given(cases_with_logs())
def test_a_target_outside_its_log_is_named(about: CheckContext) -> None:
    """Exactly the positions that no record and no log end has."""
    expected = [
        (step.group_id, *change.partition)
        for step, change in about.plan.changes
        if about.plan.intent in AIMED and change.after is not None
        for log in [about.facts.logs[change.partition]]
        if change.after.offset not in range(log.log_start or 0, (log.log_end or 0) + 1)
    ]
    findings = found("before-log-start", about)

    assert expected == [(f.group_id, f.topic, f.partition) for f in findings]
