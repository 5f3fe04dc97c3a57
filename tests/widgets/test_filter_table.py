"""Tables that are filtered and sorted over all rows."""

from __future__ import annotations

import re

import pandas as pd

from widgets.filter_table import FilterTable

FRAME = pd.DataFrame({"topic": [f"t{n}" for n in range(500)], "lag": range(500)})


def test_the_order_is_over_all_rows_and_the_cut_is_said() -> None:
    """The largest of all comes first, though only some are painted."""
    rows = FilterTable(FRAME, caption="Changes", most=50)
    assert rows.view
    assert "showing 50 of 500 rows" in rows.body.value
    rows.order.value = "-lag"
    assert [499, 498] == [*rows.shown["lag"][:2]]


def test_the_filter_is_over_all_rows() -> None:
    """A row that was not painted is found, and how many match is said."""
    rows = FilterTable(FRAME, caption="Changes", most=50)
    assert rows.view
    rows.search.set_state({"value": "T499"})
    assert ["t499"] == [*rows.shown["topic"]]
    assert "1 of 1 matching rows (500 total)" in rows.body.value
    rows.search.value = "nothing like it"
    assert "No matching rows." in rows.body.value


def test_columns_stay_whatever_is_looked_for() -> None:
    """A column is left out if no row has a value, and not because no row that is found has one."""
    owners = FRAME.assign(owner=["reader", *[""] * 499], rack="")
    rows = FilterTable(owners, caption="Changes", most=50)
    assert rows.view
    rows.search.value = "t499"
    assert ["t499"] == [*rows.shown["topic"]]
    assert ["topic", "lag", "owner"] == re.findall(r"<th [^>]*>(.*?)</th>", rows.body.value)


def test_a_short_table_has_no_controls() -> None:
    """Ten rows are looked through by eye."""
    rows = FilterTable(FRAME.head(10))
    assert [rows.body] == [*rows.live_form()]
