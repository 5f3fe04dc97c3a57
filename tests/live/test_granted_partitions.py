"""What the leader of ours grants to other members of ours; without a broker."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from toolkit.kafka_io.groups.hold_notes import DecodedNote
from toolkit.live.classic_assignment import granted
from toolkit.model import HoldNote, TopicPartition

PLACES = [TopicPartition("orders", number) for number in range(6)]
some = st.frozensets(st.sampled_from(PLACES))
shares = st.dictionaries(st.sampled_from("abc"), some)


@given(wanted=shares, before=shares, taken=some)
def test_each_partition_has_one_holder_the_earlier_one(
    wanted: dict[str, frozenset[TopicPartition]],
    before: dict[str, frozenset[TopicPartition]],
    taken: frozenset[TopicPartition],
) -> None:
    """All requested partitions are held by exactly one sentinel, and no others."""
    wishes = {one: DecodedNote(HoldNote(), tuple(places)) for one, places in wanted.items()}
    found = granted(wishes, before, taken)

    counts = Counter(place for held in (*found.values(), taken) for place in held)
    assert wanted.keys() == found.keys()
    assert {1} >= set(counts.values())
    assert taken.union(*wanted.values()) == counts.keys()
    assert all(found[one] <= wanted[one] for one in wanted)
    had = Counter(place for held in before.values() for place in held)
    for one, places in wanted.items():
        first = {p for p in places & before.get(one, frozenset()) - taken if had[p] == 1}
        assert first <= found[one]
