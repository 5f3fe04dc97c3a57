from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest

from toolkit.model import TopicPartition
from toolkit.model.records import Excerpt, Header, Record
from toolkit.report.next_step_list import ShownStep, show_steps
from toolkit.report.record_cards import show_record_cards

PARTITION = TopicPartition("orders", 3)
AT = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
HOSTILE = "<img src=x onerror=alert(1)>"
Shown = list[dict[str, Any]]


def record(offset: int, value: bytes | None, *, size: int | None = None, **more: Any) -> Record:
    """Return a record; `size` is of the whole value where `value` is only its beginning."""
    field = None if value is None else Excerpt(value, size or len(value))
    return Record(PARTITION, offset, AT, at_append=False, key=None, value=field, **more)


def html_of(shown: Shown) -> str:
    """Return what was shown as HTML."""
    (output,) = shown
    html: str = output["data"]["text/html"]
    return html


def test_the_next_record_is_marked(shown: Shown) -> None:
    """Only the record that the group reads next is marked, and each says where it lies."""
    show_record_cards([record(4, b"a"), record(5, b"b"), record(6, None)], {PARTITION: 5})
    html = html_of(shown)

    assert ["ob-before", "ob-next", "ob-after"] == re.findall(r'"ob-record (ob-\w+)"', html)
    assert "orders:3, committed offset 5" in html
    assert "next record" in html
    assert "2026-03-01 10:30:00 UTC CreateTime" in html
    assert "next record" in shown[0]["data"]["text/plain"]


def test_content_is_text_and_nothing_else(shown: Shown) -> None:
    """Mark-up, control characters and reversed text in value, header and its name are only text."""
    header = Header(f"h\N{RIGHT-TO-LEFT OVERRIDE}{HOSTILE}", Excerpt(HOSTILE.encode(), 28))
    value = f'{{"a": "{HOSTILE}\N{ZERO WIDTH SPACE}"}}'.encode()
    show_record_cards([record(5, value, headers=(header,))], {PARTITION: 5})
    html = html_of(shown)

    assert "<img" not in html
    assert 3 == unescape(html).count(HOSTILE)
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in html + shown[0]["data"]["text/plain"]
    assert "\\u202e" in html
    assert "\\u200b" in html


def test_json_has_a_line_for_each_member(shown: Shown) -> None:
    """JSON is indented, other text keeps its own lines."""
    show_record_cards([record(5, b'{"a":1,"b":[2]}'), record(6, b"x\ny")], {PARTITION: 5})
    json, text = re.findall(r"<pre>(.*?)</pre>", html_of(shown), re.DOTALL)

    assert '{\n  "a": 1,\n  "b": [\n    2\n  ]\n}' == unescape(json)
    assert "x\ny" == text


def test_what_is_cut_or_left_out_says_so(shown: Shown) -> None:
    """A value that is only there in part, headers and partitions beyond the limit are counted."""
    show_record_cards(
        [record(5, b"x" * 3_000, size=9_000, headers_left_out=7)], {PARTITION: 5}, left_out=2
    )
    html = html_of(shown)

    assert "truncated: first 2,000 of 9,000 bytes" in html
    assert "7 more headers" in html
    assert "2 more partitions are not shown" in html


@pytest.mark.parametrize("positions", [{}, {PARTITION: 5}])
def test_no_records_are_no_empty_page(shown: Shown, positions: dict[TopicPartition, int]) -> None:
    """Where there is nothing to show it says so."""
    show_record_cards([], positions)

    assert "No " in html_of(shown)
    assert shown[0]["data"]["text/plain"]


def test_steps_can_be_copied(shown: Shown) -> None:
    """A step has its notebook, what to fill in, and the command, with hostile names as text."""
    values = {"group": HOSTILE, "topics": ["orders:3"]}
    show_steps([ShownStep("Pause", "It is stuck.", "40_pause_partitions", values, "offsetbook x")])
    html = html_of(shown)

    assert "<img" not in html
    assert f"group = '{HOSTILE}'\ntopics = ['orders:3']" in unescape(html)
    assert "<code><span>offsetbook</span> <span>x</span></code>" in html
    assert "<a " not in html  # a report has nowhere to lead
