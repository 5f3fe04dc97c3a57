"""Tables come out of Spark as they were put in, whatever they hold."""

from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.kafka_io.client.timestamps import EPOCH
from toolkit.spark.arrow import pack, rows_of, unpack

TIMES = st.integers(0, 10**12).map(lambda ms: EPOCH + timedelta(milliseconds=ms))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.none() | st.binary(),
            "name": st.none() | st.text(),
            "offset": st.none() | st.integers(-(2**63), 2**63 - 1),
            "recent_at": st.none() | st.lists(TIMES),
        }
    )
)
OF = pa.schema(
    [
        ("key", pa.binary()),
        ("name", pa.string()),
        ("offset", pa.int64()),
        ("recent_at", pa.list_(pa.timestamp("ms", "UTC"))),
    ]
)


@given(ROWS)
def test_a_table_that_is_packed_and_unpacked_is_the_same(rows: list[dict[str, object]]) -> None:
    """Nulls, empty lists, bytes and the grain of time stay."""
    table = pa.Table.from_pylist(rows, schema=OF)

    found = unpack(pack(table), OF)

    assert (OF, rows) == (found.schema, found.to_pylist())


def test_nothing_is_a_table_without_rows() -> None:
    """A block of which something was not read has no rows of it."""
    assert OF.empty_table() == unpack(None, OF)


def test_rows_come_one_by_one_in_their_order() -> None:
    """Each may be large, so that no more than one is held at a time."""
    table = pa.table({"number": [1, 2, 3]})

    rows = rows_of(table.to_batches(max_chunksize=2))

    assert [{"number": n} for n in (1, 2, 3)] == list(rows)


def test_damaged_bytes_are_no_table() -> None:
    """Damaged bytes are never taken for a table."""
    packed = pack(pa.Table.from_pylist([{"offset": 1}], schema=OF))
    with pytest.raises(pa.ArrowInvalid):
        unpack(packed[: len(packed) // 2], OF)
