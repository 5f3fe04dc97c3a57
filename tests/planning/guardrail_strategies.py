"""Any small plan, any facts, and any case of both, for hypothesis."""

from facts import NOON
from guardrail_cases import SECOND
from hypothesis import strategies as st

from toolkit.model import (
    Commit,
    Group,
    GroupState,
    GroupType,
    LogOffsets,
    Member,
    Policy,
    Problem,
    Snapshot,
    Subscription,
    TopicPartition,
)
from toolkit.plan import NEW_GROUP, NEW_TOPICS, Action, Change, Intent, Plan, Position, Step
from toolkit.planning.guardrails.check_context import CheckContext
from toolkit.planning.holds.hold_context import HoldFacts, HoldSettings

NAMES = ("g", "h")
TOPICS = ("orders", "bills")
PLACES = [TopicPartition(topic, number) for topic in TOPICS for number in (0, 1)]
NEW_OFFSETS = {Intent.RESET, Intent.MOVE}
AIMED = NEW_OFFSETS | {Intent.COPY, Intent.RENAME, Intent.RESTORE}

small = st.integers(-2, 9)
odd = st.one_of(small, st.integers(-(2**63), 2**63 - 1))
positions = st.builds(Position, small, st.sampled_from([None, 0, 1]), st.sampled_from(["", "mine"]))
odd_positions = st.builds(Position, odd)
times = st.none() | st.integers(-200, 200).map(lambda age: NOON - age * SECOND)
places = st.sampled_from(PLACES)
intents = st.sampled_from(Intent)


def changes_of(held: st.SearchStrategy[Position]) -> st.SearchStrategy[tuple[Change, ...]]:
    """Return changes of some partitions, each at most once."""
    made = st.builds(Change, places, st.none() | held, st.none() | held)
    return st.lists(made, max_size=4, unique_by=lambda change: change.partition).map(tuple)


def commits_of(offsets: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Commit, ...]]:
    """Return commits, at most one for each group and partition."""
    made = st.builds(
        lambda name, place, rest: Commit(name, *place, *rest),
        st.sampled_from(NAMES),
        places,
        st.tuples(
            offsets,
            st.sampled_from([None, 0, 1]),
            st.sampled_from(["", "mine"]),
            times,
            st.booleans(),
        ),
    )
    return st.lists(
        made, max_size=6, unique_by=lambda commit: (commit.group_id, commit.topic, commit.partition)
    ).map(tuple)


members = st.builds(
    Member,
    st.just("m"),
    st.just("app"),
    st.just("/h"),
    st.builds(
        Subscription,
        st.frozensets(st.sampled_from(TOPICS)),
        unreadable=st.sampled_from(["", "no idea"]),
    ),
)
groups = st.builds(
    Group,
    st.sampled_from(NAMES),
    st.sampled_from(GroupType),
    st.sampled_from(GroupState),
    members=st.lists(members, max_size=2).map(tuple),
    described=st.booleans(),
)
problems = st.builds(
    Problem,
    st.sampled_from(["groups", "members", "committed offset", "log offsets", "leader epochs"]),
    st.just("no answer"),
    st.none() | st.sampled_from(NAMES),
    st.none() | st.sampled_from(TOPICS),
    st.none() | st.integers(0, 1),
)
any_facts = st.builds(
    Snapshot,
    st.just("eu"),
    st.sampled_from(["id", "other", ""]),
    st.just(NOON),
    st.lists(groups, max_size=2, unique_by=lambda group: group.group_id).map(tuple),
    commits_of(odd),
    st.dictionaries(places, st.builds(LogOffsets, st.none() | odd, st.none() | odd)),
    st.lists(problems, max_size=3).map(tuple),
)
any_steps = st.builds(
    Step,
    st.sampled_from(NAMES),
    st.sampled_from(Action),
    changes_of(odd_positions),
    st.sampled_from(GroupType),
    st.none() | st.sampled_from(GroupState),
    times,
)
any_plans = st.builds(
    Plan,
    intents,
    st.just("as asked"),
    st.just("eu"),
    st.just("id"),
    st.integers(-9000, 9000).map(lambda age: NOON - age * SECOND),
    st.lists(any_steps, max_size=3).map(tuple),
    allows=st.frozensets(st.sampled_from([NEW_GROUP, NEW_TOPICS])),
)
any_cases = st.builds(
    CheckContext,
    any_plans,
    any_facts,
    st.builds(Policy, st.booleans(), max_groups=st.integers(-1, 2)),
    st.just(NOON),
    st.sampled_from(["", "why"]),
    st.booleans(),
    st.booleans(),
    hold_facts=st.sampled_from([{}, dict.fromkeys(NAMES, HoldFacts(HoldSettings(max_size=1)))]),
)
