"""What `topic:0-5` means, which partitions of a group are meant, and what is said of the rest."""

from dataclasses import replace

import pytest
from facts import snapshot
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model import Commit, LogOffsets, Problem, Snapshot, TopicPartition, Unread
from toolkit.plan import Severity
from toolkit.planning.selection.partition_selection import (
    ChosenPartitions,
    TopicScope,
    choose_partitions,
    parse_topic,
    parse_topics,
    scopes_of,
)
from toolkit.planning.selection.snapshot_index import SnapshotIndex


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", TopicScope("orders")),
        (" orders.created-v1_x ", TopicScope("orders.created-v1_x")),
        ("orders:0", TopicScope("orders", (0,))),
        ("orders:2,0,1", TopicScope("orders", (0, 1, 2))),
        ("orders:0-3", TopicScope("orders", (0, 1, 2, 3))),
        ("orders:7-7", TopicScope("orders", (7,))),
        ("orders:9,0-2, 4", TopicScope("orders", (0, 1, 2, 4, 9))),
        ("orders:0,0,0-1", TopicScope("orders", (0, 1))),
    ],
)
def test_a_topic_and_its_partitions(text: str, expected: TopicScope) -> None:
    """Lists, ranges and both mixed are read; a partition named twice counts once."""
    assert expected == parse_topic(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'' does not begin with the name of a topic"),
        (":0", "':0' does not begin"),
        ("orders:", "in 'orders:', a partition number is missing"),
        ("orders:0,", "a partition number is missing"),
        ("orders:x", "in 'orders:x', 'x' is not a partition number"),
        ("orders:-1", "'-1' is not a partition number"),
        ("orders:1-", "'1-' is not"),
        ("orders:1-2-3", "'1-2-3' is not"),
        ("orders:٣", "'٣' is not a partition number"),
        ("orders:5-2", "the range 5-2 runs backwards. Try: 2-5"),
        ("orders:0:1", "'0:1' is not a partition number"),
        ("orders,payments", "pass several topics separately"),
        ("ord*", "of a topic. Try: write topic, topic:0,1,2 or topic:0-5"),
        ("orders:0-999999999", "more than 100,000"),
        ("orders:0-99999,100000-199999", "more than 100,000"),
    ],
)
def test_invalid_scopes_are_refused(text: str, says: str) -> None:
    """The message quotes the input and says what is wrong with it."""
    with pytest.raises(UsageError) as refused:
        parse_topics(["orders", text])

    assert says in str(refused.value)
    assert (";" in refused.value.hint) == (text == "orders,payments")


def test_the_largest_scope_there_is() -> None:
    """100,000 partitions of one topic are read, as a range or piece by piece; one more is not."""
    assert 100_000 == len(parse_topic("orders:1-100000").partitions or ())
    assert 100_000 == len(parse_topic("orders:0-49999,50000-99999").partitions or ())
    for text in ("orders:0-100000", "orders:0-99999,100000"):
        with pytest.raises(UsageError, match="more than 100,000"):
            parse_topic(text)


@given(st.sets(st.integers(0, 999_999_999), min_size=1, max_size=20))
def test_a_scope_is_written_as_it_is_read(numbers: set[int]) -> None:
    """Writing a scope and reading it back gives the same scope."""
    scope = TopicScope("orders", tuple(sorted(numbers)))

    assert scope == parse_topic(str(scope))
    assert "orders" == str(TopicScope("orders"))


def test_a_scope_of_partitions_names_exactly_these() -> None:
    """Partitions gathered by topic are what a scope contains, and nothing else."""
    wanted = [TopicPartition("b", 1), TopicPartition("a", 3), TopicPartition("a", 0)]

    assert ["a:0,3", "b:1"] == [str(scope) for scope in scopes_of(wanted)]
    assert [True, False] == [TopicPartition("a", n) in scopes_of(wanted)[0] for n in (3, 1)]


# The group g has committed orders 0 and 1; orders has 0 to 3, audit has 0; payments lacks a leader.
LOGS = {("orders", n): (0, 100) for n in range(4)} | {("audit", 0): (0, 100)}
FACTS = snapshot(commits=(Commit("g", "orders", 0, 5), Commit("g", "orders", 1, 5)), logs=LOGS)


def with_problem(why: str, topic: str, partition: int | None, group: str | None = None) -> Snapshot:
    return replace(FACTS, problems=(Problem(Unread.LOG_OFFSETS, why, group, topic, partition),))


def choose(facts: Snapshot, *topics: str, new_topics: bool = False) -> ChosenPartitions:
    """Return what is meant for group g."""
    return choose_partitions(SnapshotIndex(facts), "g", parse_topics(topics), new_topics=new_topics)


def names(chosen: ChosenPartitions) -> list[str]:
    """Return the partitions chosen, as topic:partition."""
    return [f"{topic}:{partition}" for topic, partition in chosen.partitions]


def rules(chosen: ChosenPartitions) -> list[tuple[str, str, str | None, int | None]]:
    """Return each finding's rule, severity, topic and partition; all are about group g."""
    assert {"g"} >= {finding.group_id for finding in chosen.findings}
    return [(f.rule, str(f.severity), f.topic, f.partition) for f in chosen.findings]


def test_a_group_without_commits_is_a_note() -> None:
    """Without committed offsets nothing is selected, which is noted."""
    chosen = choose_partitions(SnapshotIndex(FACTS), "other")

    assert [("no-commit", Severity.NOTE)] == [(f.rule, f.severity) for f in chosen.findings]


BOTH = ["orders:0", "orders:1"]
NEVER_USED = ("topic-never-used", "block", "audit", None)
NO_99 = ("no-such-partition", "block", "orders", 99)
MISSING = ("no-such-partition", "block", "nope", None)
UNREAD_2 = ("unreadable", "block", "orders", 2)
WITHOUT_3 = replace(FACTS, logs={p: log for p, log in FACTS.logs.items() if p != ("orders", 3)})
NO_END = replace(FACTS, logs={**FACTS.logs, TopicPartition("orders", 0): LogOffsets(0, None)})
NO_TOPIC = with_problem("the topic does not exist", "nope", None)
UNREAD_COMMIT = with_problem("not authorised", "orders", 2, group="g")
NO_LEADER = with_problem("it has no leader", "audit", 1)
UNREAD_LOGS = [("unreadable", "block", "orders", n) for n in (0, 1)]
ALL_OF_BOTH = ["audit:0", *(f"orders:{number}" for number in range(4))]


@pytest.mark.parametrize(
    ("facts", "asked", "chosen", "found", "says"),
    [
        (FACTS, "", BOTH, [], ""),
        # A partition without a commit is left so and noted, unlike the real tool (R39c).
        (FACTS, "orders", BOTH, [("no-commit", "note", "orders", None)], "orders:2-3"),
        (WITHOUT_3, "orders", BOTH, [("no-commit", "note", "orders", 2)], ""),
        # A topic the group never committed is a slip unless new topics are allowed (A02).
        (FACTS, "audit", [], [NEVER_USED], "never committed"),
        (FACTS, "audit:0", [], [NEVER_USED], "never committed"),
        (FACTS, "orders:1,99", ["orders:1"], [NO_99], "orders has 0-3"),
        (NO_TOPIC, "nope", [], [MISSING], ""),
        (NO_TOPIC, "nope:0", [], [MISSING], ""),
        # Where what is committed is unknown, nothing could be undone.
        (UNREAD_COMMIT, "", BOTH, [UNREAD_2], "not authorised"),
        (NO_END, "", ["orders:1"], UNREAD_LOGS[:1], ""),
        (replace(FACTS, logs={}), "orders", [], UNREAD_LOGS, ""),
        # With new topics allowed, a topic means all its partitions; a number only that partition.
        (FACTS, "orders audit --new-topics", ALL_OF_BOTH, [], ""),
        (FACTS, "orders:1,3", ["orders:1", "orders:3"], [], ""),
        # A missing topic is missing here too, and one that cannot be read now is not forgotten.
        (NO_TOPIC, "nope --new-topics", [], [MISSING], ""),
        (NO_TOPIC, "nope:0 --new-topics", [], [("no-such-partition", "block", "nope", 0)], ""),
        (NO_LEADER, "audit --new-topics", ["audit:0"], [("no-leader", "block", "audit", 1)], ""),
        (FACTS, "nope --new-topics", [], [("unreadable", "block", "nope", None)], ""),
        (FACTS, "nope:0 --new-topics", [], [("unreadable", "block", "nope", 0)], ""),
    ],
)
def test_selected_partitions_and_notes(
    facts: Snapshot, asked: str, chosen: list[str], found: list[tuple[object, ...]], says: str
) -> None:
    """Partitions with a commit, or named, are selected; notes name the rest."""
    topics, new_topics, _ = asked.partition("--new-topics")
    actual = choose(facts, *topics.split(), new_topics=bool(new_topics))

    assert (chosen, found) == (names(actual), rules(actual))
    assert says in "".join(finding.why for finding in actual.findings)


@pytest.mark.parametrize(
    ("why", "rule"),
    [
        ("the topic does not exist", "missing-partition"),
        ("the partition does not exist", "missing-partition"),
        ("it has no leader", "no-leader"),
        ("not authorised to describe it", "unreadable"),
    ],
)
@pytest.mark.parametrize("topics", [(), ("orders",), ("orders:0",)])
def test_a_log_that_cannot_be_read(why: str, rule: str, topics: tuple[str, ...]) -> None:
    """A partition whose log is not known is its own finding, with the reason, in every scope."""
    logs = {p: log for p, log in FACTS.logs.items() if p != ("orders", 0)}
    chosen = choose(replace(with_problem(why, "orders", 0), logs=logs), *topics)

    assert (rule, "block", "orders", 0) in rules(chosen)
    assert why in [finding.why for finding in chosen.findings]
    assert "orders:0" not in names(chosen)
