"""Which columns a table shows, and in what order."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

from toolkit.report import show_problems, show_table
from toolkit.report.table_columns import table_columns

SENTENCE = "the next record is unread since yesterday, " * 3


@pytest.mark.parametrize(
    ("before", "after", "leading"),
    [
        ("topic partition lag owner verdict why", "topic partition verdict why lag owner", 4),
        ("group topic partition host paused_until reason", "group topic partition paused_until", 4),
        ("run at who request result", "run at result who request", 3),
        ("severity rule group topic partition why", "severity rule group topic partition why", 6),
        ("cluster group lag status status_why", "cluster group status status_why lag", 4),
        ("offset key why", "offset why key", 2),
        ("group lag", "group lag", 1),
    ],
)
def test_what_is_acted_on_stands_beside_what_names_the_row(
    before: str, after: str, leading: int
) -> None:
    """State, end and reason come right after the names of the row, in every table."""
    frame = pd.DataFrame([before.split()], columns=before.split())

    found = table_columns(frame)

    assert after.split() == [*found.frame.columns][: len(after.split())]
    assert sorted(frame.columns) == sorted(found.frame.columns)
    assert (leading, ()) == (found.leading, found.empty)


def test_a_column_without_values_is_left_out_and_named(shown: list[dict[str, Any]]) -> None:
    """An empty column is named below the table; where missing means something it stays."""
    frame = pd.DataFrame(
        {
            "group": ["", "payments"],
            "rack": ["", None],
            "held_partitions": [(), frozenset()],
            "is_paused": [False, False],
            "lag": [None, None],
        }
    )

    show_table(frame)
    show_problems([{"what": "log end", "topic": "", "why": "no leader"}])

    table, problems = (output["data"] for output in shown)
    headings = re.findall(r"<th [^>]*>(.*?)</th>", table["text/html"])
    assert ["group", "is paused", "lag"] == headings
    assert (
        '<p class="ob-left-out">Empty columns, left out: rack, held partitions.</p>'
        in (table["text/html"])
    )
    assert table["text/plain"].endswith("Empty columns, left out: rack, held partitions.")
    assert "Empty columns, left out: topic." in problems["text/plain"]


def test_only_a_column_that_stays_in_sight_makes_a_row_tall(shown: list[dict[str, Any]]) -> None:
    """A long text that may be out of sight scrolls in its cell; the reason is there as a whole."""
    show_table(pd.DataFrame({"topic": ["orders"], "subscribed": [SENTENCE], "why": [SENTENCE]}))

    cells = re.findall(r"<td[^>]*>.*?</td>", shown[-1]["data"]["text/html"])
    assert cells == [
        "<td>orders</td>",
        f'<td class="sentence">{SENTENCE}</td>',
        f'<td class="sentence"><div class="low">{SENTENCE}</div></td>',
    ]
