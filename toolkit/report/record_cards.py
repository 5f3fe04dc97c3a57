"""Records as cards: their content as far as it is legible, always as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby

from toolkit.model import TopicPartition
from toolkit.model.records import Record
from toolkit.planning.diagnosis.record_text import (
    ByteFormat,
    Decoded,
    RecordPlace,
    decode,
    indented,
    places,
)
from toolkit.report.browser_libraries import style
from toolkit.report.display import OutputRole, display_output, is_headless
from toolkit.report.safe_names import in_html, visible

HEADER_CHARACTERS = 200
_PLACES = {
    RecordPlace.BEFORE: "before the committed offset",
    RecordPlace.NEXT: "next record",
    RecordPlace.AFTER: "after the next record",
}


def show_record_cards(
    records: Sequence[Record], positions: Mapping[TopicPartition, int], *, left_out: int = 0
) -> None:
    """
    Show the records around the offsets of `positions`, by partition and in order.

    Key, value and headers are JSON, text or hex by their content; long ones are cut, with a notice.
    Invisible characters are spelt out. `left_out` is of how many more partitions there could be
    records.
    """
    placed = list(zip(records, places(records, positions), strict=True))
    by_partition = {
        partition: list(found)
        for partition, found in groupby(placed, lambda pair: pair[0].partition)
    }
    parts = [
        _partition_html(partition, positions[partition], by_partition.get(partition, []))
        for partition in sorted(positions)
    ]
    cut = f"{left_out:,} more partitions are not shown; list them in topics." if left_out else ""
    notice = f'<p class="ob-cut" role="note">{cut}</p>' if cut else ""
    none = (
        ""
        if positions
        else '<p class="ob-empty">No partition has a problem, and none is selected.</p>'
    )
    texts = [_partition_text(p, positions[p], by_partition.get(p, [])) for p in sorted(positions)]
    display_output(
        {
            "text/html": f'<div class="ob-records">{notice}{none}{"".join(parts)}</div>',
            "text/plain": "\n\n".join([*texts, cut]).strip() or "No partition to show.",
        }
    )
    if not is_headless():
        sheet = f"<style>{style('trouble.css')}</style>"
        display_output({"text/html": sheet, "text/plain": ""}, role=OutputRole.LIVE_ONLY)


Placed = Sequence[tuple[Record, RecordPlace]]


def _partition_html(partition: TopicPartition, offset: int, records: Placed) -> str:
    title = f"<h4>{in_html(_partition(partition, offset))}</h4>"
    cards = "".join(_card(record, place) for record, place in records)
    nothing = "" if records else '<p class="ob-empty">No records found.</p>'
    return f'<section class="ob-record-list">{title}{nothing}{cards}</section>'


def _card(record: Record, place: RecordPlace) -> str:
    key, value = decode(record.key), decode(record.value)
    headers = "".join(_header(*header) for header in _headers(record))
    fields = _field("Key", key) + _field("Value", value) + headers
    return (
        f'<article class="ob-record ob-{place}"><header><strong>Offset {record.offset:,}</strong>'
        f'<span class="ob-place">{_PLACES[place]}</span>'
        f"<span>{in_html(_when(record))}</span></header><dl>{fields}</dl></article>"
    )


def _field(name: str, field: Decoded) -> str:
    note = f" · {in_html(field.note)}" if field.note else ""
    label = f'<dt>{name}<span class="ob-form">{in_html(field.description)}{note}</span></dt>'
    if field.form in {ByteFormat.NULL, ByteFormat.EMPTY}:
        return f"{label}<dd></dd>"
    text = indented(field.text) if field.form is ByteFormat.JSON and not field.note else field.text
    return f"{label}<dd><pre>{_lines(text)}</pre></dd>"


def _header(name: str, field: Decoded) -> str:
    note = f" · {in_html(field.note)}" if field.note else ""
    form = f'<span class="ob-form">{in_html(field.description)}{note}</span>'
    label = f"<dt>Header <code>{in_html(name)}</code>{form}</dt>"
    return f"{label}<dd>{f'<pre>{_lines(field.text)}</pre>' if field.text else ''}</dd>"


def _headers(record: Record) -> list[tuple[str, Decoded]]:
    shown = [(h.name, decode(h.value, most_characters=HEADER_CHARACTERS)) for h in record.headers]
    if record.headers_left_out:
        more = Decoded(ByteFormat.EMPTY, "", 0, f"{record.headers_left_out:,} more headers")
        shown.append(("…", more))
    return shown


def _lines(text: str) -> str:
    # A line end is part of a text; every other character that does not show is spelt out.
    return "\n".join(in_html(line) for line in text.split("\n"))


def _partition_text(partition: TopicPartition, offset: int, records: Placed) -> str:
    lines = [visible(_partition(partition, offset))]
    for record, place in records:
        key, value = decode(record.key), decode(record.value)
        lines.append(f"  offset {record.offset:,}, {_PLACES[place]}, {_when(record)}")
        fields = [("key", key), ("value", value), *_headers(record)]
        lines += [f"    {visible(name)} ({f.description}): {visible(f.text)}" for name, f in fields]
    return "\n".join(lines if records else [*lines, "  no records found"])


def _partition(partition: TopicPartition, offset: int) -> str:
    return f"{partition.topic}:{partition.partition}, committed offset {offset:,}"


def _when(record: Record) -> str:
    if record.at is None:
        return "no timestamp"
    who = "LogAppendTime" if record.at_append else "CreateTime"
    return f"{_time(record.at)} UTC {who}"


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")
