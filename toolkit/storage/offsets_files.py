"""
Committed offsets in files: complete JSON, and the CSV of `kafka-consumer-groups`.

JSON has the cluster, the time and, per commit, leader epoch, metadata and commit time. CSV is what
`kafka-consumer-groups --export` writes and `--from-file` reads: no header, `topic,partition,offset`
for one group and `group,topic,partition,offset` for several.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.model import Commit, GroupType, Snapshot, TopicPartition
from toolkit.model.input_files import read_input
from toolkit.model.plurals import counted
from toolkit.plan.saved_offsets import SavedOffsets
from toolkit.storage.formats.json_codec import JsonFields, read_document, readable, utc_text
from toolkit.storage.plan_files import read_partition, read_topic_ids, topic_ids_content

COLUMNS = {3: "topic,partition,offset", 4: "group,topic,partition,offset"}
SHOWN_FAULTS = 5

FORMAT = "offsetbook offsets 1"
FILE_FIELDS = frozenset({"format", "cluster", "cluster_id", "taken_at", "topic_ids", "groups"})
# A CSV can begin with a brace, the first of a group's name, but then not with a quote after it.
LOOKS_LIKE_JSON = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*["}]')
GROUP_FIELDS = frozenset({"group", "type", "offsets"})
OFFSET_FIELDS = frozenset(
    {"topic", "partition", "offset", "leader_epoch", "metadata", "committed_at"}
)


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
        raise _wrong_csv(path, [f"it is empty; each line is {' or '.join(COLUMNS.values())}"])
    width = next((len(cells) for _, cells in rows if len(cells) in COLUMNS), 3)
    faults: list[str] = []
    commits: dict[tuple[str, str, int], tuple[int, Commit]] = {}
    for line, cells in rows:
        fault = _fault(cells, width, is_first=line == rows[0][0])
        if fault:
            faults.append(f"line {line} {fault}")
            continue
        commit = _commit_of_cells(cells)
        key = (commit.group_id, commit.topic, commit.partition)
        earlier, _ = commits.setdefault(key, (line, commit))
        if earlier != line:
            where = f"{commit.topic}:{commit.partition}"
            faults.append(f"line {line} repeats {where} from line {earlier}")
    if faults:
        raise _wrong_csv(path, faults)
    return width == 4, tuple(commit for _, commit in commits.values())


def _line(row: tuple[str | int, ...]) -> str:
    text = io.StringIO()
    # With LF alone as line end, the writer would not put quotes around a name with a CR.
    csv.writer(text, lineterminator="\r\n").writerow(row)
    return text.getvalue().removesuffix("\r\n") + "\n"


def _rows(path: Path, content: bytes) -> Iterator[tuple[int, list[str]]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise _wrong_csv(path, [f"line {line} is not UTF-8 text"]) from exc
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begins = 1
    try:
        for cells in reader:
            yield begins, cells
            begins = reader.line_num + 1
    except csv.Error as exc:
        raise _wrong_csv(path, [f"line {begins} is not CSV: {exc}"]) from exc


def _fault(cells: list[str], width: int, *, is_first: bool) -> str:
    """Return the fault of a row; "" if there is none."""
    if not cells:
        return "is blank"
    if len(cells) != width:
        expected = " or ".join(COLUMNS.values()) if is_first else COLUMNS[width]
        return f"has {counted(len(cells), 'column')}, expected {expected}"
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


def _commit_of_cells(cells: list[str]) -> Commit:
    *names, topic, partition, offset = cells
    return Commit(names[0] if names else "", topic.strip(), int(partition), int(offset))


def _wrong_csv(path: Path, faults: list[str]) -> UsageError:
    more = len(faults) - SHOWN_FAULTS
    shown = faults[:SHOWN_FAULTS] + ([f"and {more} more"] if more > 0 else [])
    return UsageError(
        f"offsets file {path}: {'; '.join(shown)}", hint="fix the file; nothing was changed"
    )


def saved_offsets(snapshot: Snapshot, groups: Collection[str]) -> SavedOffsets:
    """Return what a snapshot knows of the offsets of some groups, sorted."""
    group_ids = frozenset(groups)
    chosen = [commit for commit in snapshot.commits if commit.group_id in group_ids]
    types = {g.group_id: g.type for g in snapshot.groups if g.group_id in group_ids}
    ids = dict(snapshot.topic_ids)
    of_commits = defaultdict(set)
    for commit in chosen:
        of_commits[commit.topic].add(commit.topic_id or ids.get(commit.topic))
    for topic, found in of_commits.items():
        # Where all was committed for an earlier topic of the same name, it is saved as that.
        if topic in ids and ids[topic] not in found:
            ids[topic] = max(filter(None, found))
    return SavedOffsets(
        tuple(sorted(chosen, key=_order)),
        snapshot.cluster,
        snapshot.cluster_id,
        snapshot.taken_at,
        dict(sorted(types.items())),
        topic_ids={name: ids[name] for name in sorted({c.topic for c in chosen} & ids.keys())},
    )


def json_text(saved: SavedOffsets) -> str:
    """
    Return the content of a JSON file; the same offsets, the same text.

    Raises ValueError for offsets of a CSV file, whose cluster is unknown.
    """
    if saved.cluster is None or saved.cluster_id is None or saved.taken_at is None:
        raise ValueError("offsets from a CSV file cannot be saved as JSON")
    by_group = {
        name: list(commits)
        for name, commits in groupby(sorted(saved.commits, key=_order), lambda c: c.group_id)
    }
    document = {
        "format": FORMAT,
        "cluster": saved.cluster,
        "cluster_id": saved.cluster_id,
        "taken_at": utc_text(saved.taken_at),
        "topic_ids": topic_ids_content(saved.topic_ids),
        "groups": [
            {
                "group": name,
                "type": saved.types.get(name, GroupType.UNKNOWN),
                "offsets": [_offset_content(commit) for commit in by_group.get(name, ())],
            }
            for name in sorted(saved.types.keys() | by_group)
        ],
    }
    return readable(document)


def read_offsets(path: Path) -> SavedOffsets:
    """
    Read a JSON or a CSV file, whichever it is.

    Raises UsageError that names the file and the line or place of what is wrong.
    """
    try:
        content = read_input(path)
    except OSError as exc:
        raise UsageError(f"offsets file {path} cannot be read: {exc.strerror or exc}") from exc
    if LOOKS_LIKE_JSON.match(content):
        return _read_json(path)
    names_groups, commits = read_csv(path, content)
    return SavedOffsets(commits, names_groups=names_groups)


def _order(commit: Commit) -> tuple[str, str, int]:
    return commit.group_id, commit.topic, commit.partition


def _offset_content(commit: Commit) -> dict[str, object]:
    return {
        "topic": commit.topic,
        "partition": commit.partition,
        "offset": commit.offset,
        "leader_epoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "committed_at": commit.committed_at and utc_text(commit.committed_at),
    }


def _read_json(path: Path) -> SavedOffsets:
    document = read_document(path, "offsets file")
    known = document if isinstance(document, dict) else {}
    if known.get("format") != FORMAT:
        raise UsageError(
            f"offsets file {path} does not have format {FORMAT!r}",
            hint="use a file from 'offsetbook export', or the CSV of kafka-consumer-groups",
        )
    fields = JsonFields.of(document, f"offsets file {path}: file", FILE_FIELDS)
    types: dict[str, GroupType] = {}
    commits: dict[tuple[str, TopicPartition], Commit] = {}
    for group in fields.many("groups", GROUP_FIELDS):
        name = group.text("group")
        if name in types:
            raise UsageError(f"{group.place}: duplicate group {name!r}", hint="remove one")
        types[name] = group.choice("type", GroupType)
        for row in group.many("offsets", OFFSET_FIELDS):
            commit = _commit(name, row)
            if (name, commit.topic_partition) in commits:
                where = f"{commit.topic}:{commit.partition}"
                raise UsageError(f"{row.place}: duplicate {where}", hint="remove one")
            commits[name, commit.topic_partition] = commit
    return SavedOffsets(
        tuple(commits.values()),
        fields.text("cluster"),
        fields.text("cluster_id"),
        fields.time("taken_at"),
        types,
        topic_ids=read_topic_ids(fields),
    )


def _commit(group_id: str, fields: JsonFields) -> Commit:
    return Commit(
        group_id,
        *read_partition(fields),
        fields.count("offset"),
        fields.optional("leader_epoch", fields.count),
        fields.text("metadata"),
        fields.optional("committed_at", fields.time),
    )
