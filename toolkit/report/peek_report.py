"""The records around a group's committed offsets, with as much of their content as is legible."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.errors import BrokerRefused, UsageError
from toolkit.model import TopicPartition
from toolkit.model.names import shown_name
from toolkit.model.plurals import counted
from toolkit.model.records import Record, RecordsAround
from toolkit.planning.diagnosis.record_text import (
    MOST_CHARACTERS,
    ByteFormat,
    Decoded,
    RecordPlace,
    decode,
    indented,
    places,
    records_frame,
)
from toolkit.planning.frames.snapshot_frames import problems_frame
from toolkit.planning.selection.peek_places import PeekPlaces, PeekRequest
from toolkit.report.browser_libraries import style
from toolkit.report.cell_text import frame_text
from toolkit.report.display import display_output, show_looks
from toolkit.report.run_command import offsetbook_command
from toolkit.report.safe_names import in_html, lines_in_html, visible, visible_lines
from toolkit.report.tables import show_problems
from toolkit.storage.saved_records import save_records

if TYPE_CHECKING:
    import pandas as pd

HEADER_CHARACTERS = 200
_PLACES = {
    RecordPlace.BEFORE: "before the committed offset",
    RecordPlace.NEXT: "next record",
    RecordPlace.AFTER: "after the next record",
}

Placed = Sequence[tuple[Record, RecordPlace]]


def show_record_cards(
    records: Sequence[Record],
    positions: Mapping[TopicPartition, int],
    *,
    unread: Container[object] = (),
    left_out: int = 0,
) -> None:
    """
    Show the records around the offsets of `positions`, by partition and in order.

    Key, value and headers are JSON, text or hex by their content; long ones are cut, with a notice.
    Invisible characters are spelt out. `unread` are partitions that could not be read, `left_out`
    is of how many more there could be records.
    """
    placed = list(zip(records, places(records, positions), strict=True))
    by_partition = {
        partition: list(found)
        for partition, found in groupby(placed, lambda pair: pair[0].partition)
    }
    listed = [
        (
            _partition(partition, positions[partition]),
            by_partition.get(partition, []),
            "Could not be read." if partition in unread else "No records found.",
        )
        for partition in sorted(positions)
    ]
    more = f"Not shown: {counted(left_out, 'more partition')}; list them in topics."
    cut = more if left_out else ""
    notice = f'<p class="ob-cut" role="note">{cut}</p>' if cut else ""
    none = (
        ""
        if positions
        else '<p class="ob-empty">No partition has a problem, and none is selected.</p>'
    )
    parts = "".join(_partition_html(*part) for part in listed)
    texts = [_partition_text(*part) for part in listed]
    display_output(
        {
            "text/html": f'<div class="ob-records">{notice}{none}{parts}</div>',
            "text/plain": "\n\n".join([*texts, cut]).strip() or "No partition to show.",
        }
    )
    show_looks(f"<style>{style('trouble.css')}</style>")


def _partition_html(title: str, records: Placed, nothing: str) -> str:
    cards = "".join(_card(record, place) for record, place in records)
    cards = cards or f'<p class="ob-empty">{nothing}</p>'
    return f'<section class="ob-record-list"><h4>{in_html(title)}</h4>{cards}</section>'


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
    return f"{label}<dd><pre>{lines_in_html(text)}</pre></dd>"


def _header(name: str, field: Decoded) -> str:
    note = f" · {in_html(field.note)}" if field.note else ""
    form = f'<span class="ob-form">{in_html(field.description)}{note}</span>'
    label = f"<dt>Header <code>{in_html(name)}</code>{form}</dt>"
    return f"{label}<dd>{f'<pre>{lines_in_html(field.text)}</pre>' if field.text else ''}</dd>"


def _headers(record: Record) -> list[tuple[str, Decoded]]:
    shown = [(h.name, decode(h.value, most_characters=HEADER_CHARACTERS)) for h in record.headers]
    if record.headers_left_out:
        more = Decoded(ByteFormat.EMPTY, "", 0, f"{record.headers_left_out:,} more headers")
        shown.append(("…", more))
    return shown


def _partition_text(title: str, records: Placed, nothing: str) -> str:
    lines = [visible(title)]
    for record, place in records:
        key, value = decode(record.key), decode(record.value)
        lines.append(f"  offset {record.offset:,}, {_PLACES[place]}, {_when(record)}")
        fields = [("key", key), ("value", value), *_headers(record)]
        lines += [f"    {visible(name)} ({f.description}): {visible(f.text)}" for name, f in fields]
    return "\n".join(lines if records else [*lines, f"  {nothing}"])


def _partition(partition: TopicPartition, offset: int) -> str:
    return f"{partition.topic}:{partition.partition}, committed offset {offset:,}"


def _when(record: Record) -> str:
    if record.at is None:
        return "no timestamp"
    who = "LogAppendTime" if record.at_append else "CreateTime"
    return f"{record.at:%Y-%m-%d %H:%M:%S} UTC {who}"


@dataclass(frozen=True, eq=False, repr=False)
class PeekReport:
    """
    Records around the committed offsets that were chosen, with read errors in `around.problems`.

    `read_whole` reads the records again, uncut. `fleet_file` is for the command that is shown.
    """

    cluster: str
    group: str
    chosen: PeekPlaces
    around: RecordsAround
    request: PeekRequest
    read_whole: Callable[[], RecordsAround]
    fleet_file: Path | None = None

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return self.chosen.positions

    def save(self, path: Path) -> str:
        """
        Save these records byte for byte to a new file (see `saved_records`) and say what was saved.

        They are read again, whole. Raises UsageError where the file exists or there is no record,
        StateFileError, BrokerRefused where a partition could not be read, and ClusterUnreachable.
        """
        whole = self.read_whole()
        if whole.problems:
            problem = whole.problems[0]
            where = f"{problem.topic} partition {problem.partition}"
            raise BrokerRefused(f"nothing was saved: {problem.what} of {where}: {problem.why}")
        if not whole.records:
            raise UsageError("nothing was saved: there is no record around these offsets")
        save_records(path, self.cluster, whole.records)
        return f"{counted(len(whole.records), 'record')} saved to {path}, read back and compared"

    @property
    def file_name(self) -> str:
        return f"records-{re.sub(r'[^A-Za-z0-9.-]+', '_', self.group)[:60]}.jsonl"

    @property
    def save_command(self) -> str:
        words = ["--cluster", self.cluster, "--group", shown_name(self.group)]
        for partition in self.positions:
            words += ["--topic", f"{partition.topic}:{partition.partition}"]
        words += ["--before", f"{self.request.before}", "--after", f"{self.request.after}"]
        words += ["--save", self.file_name]
        return offsetbook_command("peek", *words, fleet_file=self.fleet_file)

    def frame(self, *, most_characters: int = MOST_CHARACTERS) -> pd.DataFrame:
        """Return cluster, group and the columns of `records_frame`, with texts cut to a length."""
        frame = records_frame(self.around.records, self.positions, most_characters=most_characters)
        frame.insert(0, "group", self.group)
        frame.insert(0, "cluster", self.cluster)
        return frame

    def __repr__(self) -> str:
        shown = self.frame(most_characters=60)[["topic", "partition", "offset", "place", "value"]]
        return visible_lines(frame_text(shown, max_rows=20))

    def _ipython_display_(self) -> None:
        problems = self.around.problems
        unread = {(p.topic, p.partition) for p in problems}
        left_out = self.chosen.left_out
        show_record_cards(self.around.records, self.positions, unread=unread, left_out=left_out)
        if problems:
            show_problems(problems_frame(problems, cluster=self.cluster))
