from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.kafka_io.client.timestamps import EPOCH, from_ms, to_ms


def test_time_is_exact() -> None:
    """A time is taken to the millisecond, in UTC."""
    assert from_ms(1_700_000_000_123) == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)


@pytest.mark.parametrize("timestamp_ms", [-1, -(2**63), 2**63 - 1])
def test_no_time(timestamp_ms: int) -> None:
    """Kafka's -1 is no time, and neither is a number that no calendar reaches."""
    assert from_ms(timestamp_ms) is None


@given(st.datetimes(timezones=st.just(timezone(timedelta(hours=5, minutes=30)))))
def test_no_time_has_a_special_meaning(at: datetime) -> None:
    """Every time, in any zone, becomes the first millisecond after it, and none a negative one."""
    timestamp_ms = to_ms(at)
    back = EPOCH + timedelta(milliseconds=timestamp_ms)

    assert timestamp_ms == 0 if at < EPOCH else timedelta() <= back - at < timedelta(milliseconds=1)
