from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import EpochEnd, LogOffsets
from toolkit.planning.changes.clamp import leader_epoch_at

# Epoch 0 wrote records 0 to 9, of which 0 to 3 are deleted; 2 wrote 10 to 19; 3 and 5 nothing yet.
EPOCHS = (EpochEnd(0, 10), EpochEnd(2, 20), EpochEnd(3, 20), EpochEnd(5, 20))
LOG = LogOffsets(4, 20, 20, EPOCHS)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (3, None),  # before the log start
        (4, 0),  # nothing was read: the record there
        (5, 0),
        (10, 0),  # everything of epoch 0 was read, and nothing of epoch 2
        (11, 2),
        (20, 2),
        (21, None),  # past the end
    ],
)
def test_epoch_of_the_last_record_read(offset: int, expected: int | None) -> None:
    """An offset gets the epoch of the record before it, at the log start of the record there."""
    assert leader_epoch_at(LOG, offset) == expected


@pytest.mark.parametrize(
    "log",
    [
        LogOffsets(None, 20, 20, EPOCHS),
        LogOffsets(4, None, 20, EPOCHS),
        LogOffsets(4, 20, 20),
        LogOffsets(12, 20, 20, (EpochEnd(2, 12),)),
        LogOffsets(12, 12, 12, EPOCHS),
    ],
    ids=["no start", "no end", "no epochs", "epochs end too early", "empty log"],
)
def test_unknown(log: LogOffsets) -> None:
    """Where a part of the facts is missing the epoch is unknown."""
    assert leader_epoch_at(log, 12) is None


def test_beginning_of_the_oldest_known_epoch_is_unknown() -> None:
    """Records of the oldest epoch that was read may be of an older one, unless it is epoch 0."""
    log = LogOffsets(4, 20, 20, EPOCHS[1:])

    assert [leader_epoch_at(log, offset) for offset in (4, 11, 20)] == [None, None, None]


@given(
    ends=st.lists(st.integers(0, 60), min_size=1, max_size=8).map(sorted),
    oldest=st.integers(0, 3),
    start=st.integers(0, 60),
    offset=st.integers(-5, 70),
)
def test_epoch_is_true_or_unknown(ends: list[int], oldest: int, start: int, offset: int) -> None:
    """Whatever the log is like, a record of the epoch lies before the offset, or at the start."""
    epochs = tuple(EpochEnd(oldest + index, end) for index, end in enumerate(ends))
    log = LogOffsets(start, max(ends[-1], start), None, epochs)
    epoch = leader_epoch_at(log, offset)
    if epoch is None:
        return
    index = epoch - oldest
    begin = ends[index - 1] if index else 0
    record = offset if offset == start else offset - 1

    assert start <= offset <= ends[-1]
    assert begin <= record < ends[index]
    assert bisect_left(ends, record + 1) == index
