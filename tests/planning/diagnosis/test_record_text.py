import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import TopicPartition
from toolkit.model.records import Excerpt, Header, Record
from toolkit.planning.diagnosis.record_text import (
    MOST_CHARACTERS,
    MOST_HEX_BYTES,
    ByteFormat,
    RecordPlace,
    decode,
    indented,
    places,
    records_frame,
)

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
AT = datetime(2026, 3, 1, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def whole(field: bytes) -> Excerpt:
    """Return a field of which every byte is known."""
    return Excerpt(field, len(field))


def record(offset: int, *, partition: TopicPartition = P0, **fields: Any) -> Record:
    known = {"at": AT, "at_append": False, "key": None, "value": None, **fields}
    return Record(partition, offset, **known)


SCHEMA = "looks like schema registry format, schema id 7"
HEX, TEXT = ByteFormat.HEX, ByteFormat.TEXT


@pytest.mark.parametrize(
    ("field", "form", "text", "note"),
    [
        (b'{"id": 1}', ByteFormat.JSON, '{"id": 1}', ""),
        (b" [1, 2]\n", ByteFormat.JSON, " [1, 2]\n", ""),
        (b'{"id": 1', TEXT, '{"id": 1', ""),
        (b"12", TEXT, "12", ""),
        ("東京 café".encode(), TEXT, "東京 café", ""),
        (b"a\tb\r\n", TEXT, "a\tb\r\n", ""),
        (b"[" * 100_000, TEXT, "[" * MOST_CHARACTERS, ""),
        # The note counts bytes, not characters.
        ("é".encode() * 3_000, TEXT, "é" * 2_000, "truncated: first 4,000 of 6,000 bytes"),
        (b"\x00\xff", HEX, "00 ff", ""),
        (b"a\x1b[31m", HEX, "61 1b 5b 33 31 6d", ""),
        # Numbers of Java's serializers, a schema id and letters are pointed out beside the hex.
        (b"\x00\x00\x00\x00\x00\x00\x00\x2a", HEX, "00 00 00 00 00 00 00 2a", "as integer: 42"),
        (b"\xff\xff\xff\xfe", HEX, "ff ff ff fe", "as integer: -2"),
        (b"\x00\x00\x00\x00\x07\x02abc", HEX, "00 00 00 00 07 02 61 62 63", SCHEMA),
        (b"\x00\xff\xfeorder?", HEX, "00 ff fe 6f 72 64 65 72 3f", "as text: ...order?"),
    ],
)
def test_the_format_of_bytes(field: bytes, form: ByteFormat, text: str, note: str) -> None:
    """Objects and lists are JSON, other printable bytes text, and everything else is hex."""
    found = decode(whole(field))

    assert (form, text, len(field)) == (found.form, found.text, found.size_bytes)
    assert note in found.note


def test_a_cut_value_is_not_called_json() -> None:
    """Bytes that are JSON so far may continue as anything."""
    assert ByteFormat.TEXT is decode(Excerpt(b"[1]", 4)).form


def test_null_is_not_empty() -> None:
    """Kafka's null and an empty field are distinguished."""
    null, empty = decode(None), decode(whole(b""))

    assert (ByteFormat.NULL, None) == (null.form, null.size_bytes)
    assert (ByteFormat.EMPTY, 0) == (empty.form, empty.size_bytes)


@given(st.text())
def test_every_text_comes_back_as_it_was(text: str) -> None:
    """What is shown as text or JSON stands for exactly the bytes of the record."""
    found = decode(whole(text.encode()), most_characters=len(text) + 1)

    if found.form in {ByteFormat.TEXT, ByteFormat.JSON}:
        assert (text, "") == (found.text, found.note)
    elif found.form is ByteFormat.HEX:
        assert any(c < " " or "\x7f" <= c <= "\x9f" for c in text)


@given(st.binary(min_size=1), st.integers(0, 100_000))
def test_anything_can_be_decoded(start: bytes, unseen: int) -> None:
    """Whatever the bytes, there is a form; hex gives them back; and what is cut says so."""
    found = decode(Excerpt(start, len(start) + unseen))

    assert len(found.text) <= max(MOST_CHARACTERS, 3 * MOST_HEX_BYTES)
    if found.form is ByteFormat.HEX:
        assert bytes.fromhex(found.text) == start[:MOST_HEX_BYTES]
    if unseen:
        assert found.form is not ByteFormat.JSON
        assert "truncated: first" in found.note
        assert f"of {len(start) + unseen:,} bytes" in found.note


@given(
    st.text(min_size=1).filter(lambda text: decode(whole(text.encode())).form is ByteFormat.TEXT)
)
def test_a_text_that_is_cut_within_a_character_is_still_text(text: str) -> None:
    """Of an excerpt, the beginning of its last character is left away and not taken for bytes."""
    data = text.encode()
    for end in range(max(1, len(data) - 3), len(data)):
        if data[:end].decode(errors="ignore"):
            found = decode(Excerpt(data[:end], len(data)))
            assert ByteFormat.TEXT is found.form
            assert text.startswith(found.text)


@given(JSON.filter(lambda value: isinstance(value, (dict, list))))
def test_indenting_changes_only_white_space(value: Any) -> None:
    """JSON means the same indented, and is indented the way everybody expects."""
    for written in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=7)):
        assert json.dumps(value) == json.dumps(json.loads(indented(written)))
        assert json.loads(written) == json.loads(indented(written))
    assert json.dumps(value, indent=2) == indented(json.dumps(value))


def test_indenting_keeps_how_a_number_was_written() -> None:
    """Repeated names, long numbers and escapes are evidence, and stay."""
    odd = r'{"a":1.000000000000000000001,"a":"A\"}","b":{}}'

    assert odd == "".join(indented(odd).split("\n")).replace("  ", "").replace(": ", ":")


def test_places_are_seen_from_the_offset_of_each_partition() -> None:
    """The first record at or after the committed offset is next, also behind a gap."""
    found = [record(3), record(7), record(8), record(1, partition=P1)]

    assert [RecordPlace.BEFORE, RecordPlace.NEXT, RecordPlace.AFTER, RecordPlace.NEXT] == places(
        found, {P0: 5, P1: 1}
    )


def test_frame_has_a_row_for_each_record() -> None:
    """The columns say what is null, how large each field is, and what the headers hold."""
    headers = (Header("trace", whole(b"1")), Header("bin", whole(b"\x00")), Header("no", None))
    found = record(5, value=whole(b"{}"), headers=headers, headers_left_out=2)
    (row,) = records_frame([found, record(6)], {P0: 5}).head(1).to_dict("records")

    assert ("next", "null", None, "JSON", 2, "{}") == (
        *(row["place"], row["key_form"], row["key"]),
        *(row["value_form"], row["value_bytes"], row["value"]),
    )
    assert ["trace: 1", "bin: 00 (hex)", "no: (null)", "and 2 more"] == row["headers"].split("\n")
