from random import Random

from hypothesis import example, given
from hypothesis import strategies as st
from offsets_records import commit_value, mutated

from toolkit.kafka_io.offsets_topic.commit_records import CommitValue, decode_commit_value
from toolkit.kafka_io.offsets_topic.commit_times import CommitTime, commit_time
from toolkit.kafka_io.offsets_topic.partitions import UnknownRecord

INT64 = st.integers(0, 2**63 - 1)
EPOCHS, EXPIRIES = st.none() | st.integers(0, 2**31 - 1), st.none() | INT64
WRITTEN = st.builds(CommitValue, INT64, EPOCHS, st.sampled_from(["", "a note"]), INT64, EXPIRIES)
PLAIN = CommitValue(7, 5, "", 1_700_000_000_000)
IDS = st.none() | st.binary(min_size=16, max_size=16)
VALUES = st.builds(commit_value, st.integers(0, 4), WRITTEN, IDS)
DAMAGED = st.builds(lambda data, seed: mutated(data, Random(seed)), VALUES, INT64)  # noqa: S311


@given(VALUES | DAMAGED)
@example(commit_value(3, PLAIN))
@example(commit_value(4, PLAIN))
@example(commit_value(4, PLAIN, bytes(range(16))))
def test_time_as_the_whole_value_has_it(value: bytes) -> None:
    """A value of any shape, damaged or not, has the time that decoding all of it finds."""
    try:
        whole = decode_commit_value(value)
    except UnknownRecord:
        assert commit_time(value) is None
        return

    assert CommitTime(whole.offset, whole.commit_time_ms, whole.topic_id) == commit_time(value)
