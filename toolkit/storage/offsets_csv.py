"""The CSV of `kafka-consumer-groups`: same output, stricter input."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.model import Commit

COLUMNS = {3: "topic,partition,offset", 4: "group,topic,partition,offset"}
SHOWN_FAULTS = 5


def csv_text(commits: Iterable[Commit], *, with_group: bool) -> str:
    """Return commits as CSV without a header, of four columns or three."""
    return "".join(
        _line(((c.group_id,) if with_group else ()) + (c.topic, c.partition, c.offset))
        for c in commits
    )


def read_csv(path: Path, content: bytes) -> tuple[bool, tuple[Commit, ...]]:
    """
    Return whether the file says whose the commits are, and the commits.

    A byte order mark, CRLF and blanks around numbers and topics are accepted. Raises UsageError
    that names the file and the line of each fault: the real tool says nothing, or resets to 0.
    """
    rows = list(_rows(path, content))
    if not rows:
        raise _wrong(path, [f"it is empty; each line is {' or '.join(COLUMNS.values())}"])
    width = next((len(cells) for _, cells in rows if len(cells) in COLUMNS), 3)
    faults: list[str] = []
    commits: dict[tuple[str, str, int], tuple[int, Commit]] = {}
    for line, cells in rows:
        fault = _fault(cells, width, is_first=line == rows[0][0])
        if fault:
            faults.append(f"line {line} {fault}")
            continue
        commit = _commit(cells)
        key = (commit.group_id, commit.topic, commit.partition)
        earlier, _ = commits.setdefault(key, (line, commit))
        if earlier != line:
            where = f"{commit.topic}:{commit.partition}"
            faults.append(f"line {line} repeats {where} from line {earlier}")
    if faults:
        raise _wrong(path, faults)
    return width == 4, tuple(commit for _, commit in commits.values())


def _line(row: tuple[str | int, ...]) -> str:
    text = io.StringIO()
    # With LF alone as line end, the writer would not put quotes around a name with a CR.
    csv.writer(text, lineterminator="\r\n").writerow(row)
    return text.getvalue().removesuffix("\r\n") + "\n"


def _rows(path: Path, content: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the number of its line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise _wrong(path, [f"line {line} is not UTF-8 text"]) from exc
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begins = 1
    try:
        for cells in reader:
            yield begins, cells
            begins = reader.line_num + 1
    except csv.Error as exc:
        raise _wrong(path, [f"line {begins} is not CSV: {exc}"]) from exc


def _fault(cells: list[str], width: int, *, is_first: bool) -> str:
    """Return what is wrong with a row; "" when nothing is."""
    if not cells:
        return "is blank"
    if len(cells) != width:
        expected = " or ".join(COLUMNS.values()) if is_first else COLUMNS[width]
        return f"has {len(cells)} columns, expected {expected}"
    if is_first and not any(re.search(r"\d", cell) for cell in cells[-2:]):
        return f"looks like a header ({','.join(cells)!r}); this format has none: remove that line"
    *_, topic, partition, offset = (cell.strip() for cell in cells)
    if not topic:
        return "has no topic"
    return _number_fault("partition", partition, 2**31) or _number_fault("offset", offset, 2**63)


def _number_fault(what: str, text: str, below: int) -> str:
    if not re.fullmatch(r"-?[0-9]{1,30}", text):
        return f"has {text!r} for its {what}, which is not a whole number"
    if not 0 <= int(text) < below:
        return f"has {text} for its {what}, which must be from 0 to {below - 1}"
    return ""


def _commit(cells: list[str]) -> Commit:
    *names, topic, partition, offset = cells
    return Commit(names[0] if names else "", topic.strip(), int(partition), int(offset))


def _wrong(path: Path, faults: list[str]) -> UsageError:
    more = len(faults) - SHOWN_FAULTS
    shown = faults[:SHOWN_FAULTS] + ([f"and {more} more"] if more > 0 else [])
    return UsageError(
        f"offsets file {path}: {'; '.join(shown)}", hint="fix the file; nothing was changed"
    )
