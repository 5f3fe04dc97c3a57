"""Columns that are computed a slice at a time are those of all rows at once."""

import pandas as pd
import pytest

from toolkit.planning.frames import row_slices


@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_slices_give_the_columns_of_all_rows_at_once(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, order, index and types do not depend on the slices, and the frame is not changed."""
    frame = pd.DataFrame({"number": pd.array(range(count), "Int64")}, index=[7] * count)
    before = frame.copy()

    def columns(rows: pd.DataFrame) -> dict[str, object]:
        return {
            "number": rows["number"] + 1,
            "text": [f"{one}" for one in rows["number"]],
            "half": (rows["number"] / 2).astype("Float64").array,
        }

    expected = frame.assign(**columns(frame))
    monkeypatch.setattr(row_slices, "ROWS", 2)
    actual = row_slices.assign_by_slices(frame, columns)
    pd.testing.assert_frame_equal(expected, actual)
    pd.testing.assert_frame_equal(before, frame)
