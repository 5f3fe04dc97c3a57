import re
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest

from toolkit.model import TopicPartition
from toolkit.model.records import Excerpt, Header, Record
from toolkit.report.next_step_list import ShownStep, show_steps
from toolkit.report.peek_report import show_record_cards

PARTITION = TopicPartition("orders", 3)
AT = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
HOSTILE = "<img src=x onerror=alert(1)>"


def record(offset: int, value: bytes | None, *, size: int | None = None, **more: Any) -> Record:
    """Return a record; `size` is of the whole value where `value` is only its beginning."""
    field = None if value is None else Excerpt(value, size or len(value))
    return Record(PARTITION, offset, AT, at_append=False, key=None, value=field, **more)


def test_the_next_record_is_marked(shown: Any) -> None:
    """Only the record that the group reads next is marked, and each says where it lies."""
    show_record_cards([record(4, b"a"), record(5, b"b"), record(6, None)], {PARTITION: 5})
    html = shown.html

    assert ["ob-before", "ob-next", "ob-after"] == re.findall(r'"ob-record (ob-\w+)"', html)
    assert "orders:3, committed offset 5" in html
    assert "next record" in html
    assert "2026-03-01 10:30:00 UTC CreateTime" in html
    assert "next record" in shown.text


def test_content_is_text_and_nothing_else(shown: Any) -> None:
    """Mark-up, control characters and reversed text in value, header and its name are only text."""
    header = Header(f"h\N{RIGHT-TO-LEFT OVERRIDE}{HOSTILE}", Excerpt(HOSTILE.encode(), 28))
    value = f'{{"a": "{HOSTILE}\N{ZERO WIDTH SPACE}"}}'.encode()
    show_record_cards([record(5, value, headers=(header,))], {PARTITION: 5})
    html = shown.html

    assert "<img" not in html
    assert 3 == unescape(html).count(HOSTILE)
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in html + shown.text
    assert "\\u202e" in html
    assert "\\u200b" in html


def test_json_has_a_line_for_each_member(shown: Any) -> None:
    """JSON is indented, other text keeps its own lines."""
    show_record_cards([record(5, b'{"a":1,"b":[2]}'), record(6, b"x\ny")], {PARTITION: 5})
    json, text = re.findall(r"<pre>(.*?)</pre>", shown.html, re.DOTALL)

    assert '{\n  "a": 1,\n  "b": [\n    2\n  ]\n}' == unescape(json)
    assert "x\ny" == text


def test_cut_values_and_left_out_records_are_noted(shown: Any) -> None:
    """A partial value, and headers and partitions beyond the limit, are counted."""
    show_record_cards(
        [record(5, b"x" * 3_000, size=9_000, headers_left_out=7)], {PARTITION: 5}, left_out=2
    )
    html = shown.html

    assert "truncated: first 2,000 of 9,000 bytes" in html
    assert "7 more headers" in html
    assert "Not shown: 2 more partitions;" in html


@pytest.mark.parametrize(
    ("positions", "unread", "words"),
    [
        ({}, {}, ("No partition has a problem", "No partition to show.")),
        ({PARTITION: 5}, {}, ("No records found.", "No records found.")),
        ({PARTITION: 5}, {PARTITION}, ("Could not be read.", "Could not be read.")),
    ],
)
def test_no_records_are_no_empty_page(
    shown: Any, positions: dict[TopicPartition, int], unread: set[TopicPartition], words: Any
) -> None:
    """It says why nothing is shown; that there are no records only where that is known."""
    show_record_cards([], positions, unread=unread)

    assert words[0] in shown.html
    assert shown.text.endswith(words[1])


def test_steps_can_be_copied(shown: Any) -> None:
    """A step has its notebook, what to fill in, and the command, with hostile names as text."""
    values = {"group": HOSTILE, "topics": ["orders:3"]}
    show_steps([ShownStep("Pause", "It is stuck.", "40_pause_partitions", values, "offsetbook x")])
    html = shown.html

    assert "<img" not in html
    assert f"group = '{HOSTILE}'\ntopics = ['orders:3']" in unescape(html)
    assert "<code><span>offsetbook</span> <span>x</span></code>" in html
    assert "<a " not in html  # a report has nowhere to lead
