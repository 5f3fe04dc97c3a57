"""What a member of ours may say of a topology that is not described completely."""

from types import SimpleNamespace
from typing import Any

from toolkit.kafka_io.membership.streams import MOST_CASES, possible_topologies


def part(*sources: str, repartitioned: int = 0, changelogs: int = 0) -> Any:
    return SimpleNamespace(
        subtopology_id="0",
        source_topics=sources,
        repartition_sink_topics=["sink"],
        state_changelog_topics=[internal("changelog")] * changelogs,
        repartition_source_topics=[internal(f"again-{n}") for n in range(repartitioned)],
    )


def internal(name: str) -> Any:
    """Return a topic that Kafka Streams makes."""
    setting = SimpleNamespace(key="cleanup.policy", value="compact")
    return SimpleNamespace(name=name, partitions=6, replication_factor=-1, topic_configs=[setting])


def possible(*parts: Any) -> list[Any]:
    """Return what a topology of some parts may be."""
    return list(possible_topologies(SimpleNamespace(epoch=3, subtopologies=parts)))


def test_one_source_has_one_topology() -> None:
    """The coordinator computes the partitions of changelogs; all else is described."""
    (only,) = possible(part("orders", changelogs=1))

    (part_,) = only.subtopologies
    assert (3, "0", ["orders"], ["sink"], []) == (
        only.epoch,
        part_.subtopology_id,
        part_.source_topics,
        part_.repartition_sink_topics,
        part_.copartition_groups,
    )
    (changelog,) = part_.state_changelog_topics
    assert ("changelog", 0, -1) == (
        changelog.name,
        changelog.partitions,
        changelog.replication_factor,
    )
    assert [("cleanup.policy", "compact")] == [(c.key, c.value) for c in changelog.topic_configs]


def test_joined_sources_are_named_in_any_order() -> None:
    """Of two sources: not joined, or joined in one of two orders; the sources keep theirs."""
    found = [one.subtopologies[0] for one in possible(part("orders", "bills"))]

    assert [["orders", "bills"]] * 3 == [one.source_topics for one in found]
    joined = [[group.source_topics for group in one.copartition_groups] for one in found]
    assert [[], [[0, 1]], [[1, 0]]] == joined


def test_partitions_of_a_repartition_topic_may_have_been_given() -> None:
    """Or worked out by the coordinator; with a source beside it, each joined or not."""
    found = [one.subtopologies[0] for one in possible(part("orders", repartitioned=1))]

    numbers = [one.repartition_source_topics[0].partitions for one in found]
    joined = [bool(one.copartition_groups) for one in found]
    assert [(0, False), (6, False), (0, True), (6, True)] == list(zip(numbers, joined, strict=True))


def test_there_is_an_end_to_trying() -> None:
    """Five sources can be named in 120 orders, and so can those of each other subtopology."""
    assert MOST_CASES == len(possible(part(*"abcde"), part(*"fghij")))
    assert 3 * 3 == len(possible(part(*"ab"), part(*"cd")))
