from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model import Commit, Group, GroupState, GroupType, Snapshot, TopicPartition
from toolkit.plan import Position
from toolkit.plan.saved_offsets import SavedOffsets
from toolkit.storage.formats.atomic_files import write_whole
from toolkit.storage.offsets_files import csv_text, json_text, read_offsets, saved_offsets

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
COMMITS = (
    Commit("a b,c", "orders", 0, 50, 3, "m", NOON),
    Commit("a b,c", "orders", 10, 0),
    Commit("payments", "orders", 0, 2**63 - 1),
)
SAVED = SavedOffsets(
    COMMITS,
    "eu",
    "id",
    NOON,
    {"a b,c": GroupType.CLASSIC, "empty": GroupType.SIMPLE, "payments": GroupType.CONSUMER},
    topic_ids={"orders": "id1"},
)
JSON = """\
{
  "format": "offsetbook offsets 1",
  "cluster": "eu",
  "cluster_id": "id",
  "taken_at": "2026-03-01T12:00:00Z",
  "topic_ids": [
    {"topic": "orders", "id": "id1"}
  ],
  "groups": [
    {
      "group": "a b,c",
      "type": "classic",
      "offsets": [
        {"topic": "orders", "partition": 0, "offset": 50, "leader_epoch": 3, "metadata": "m", \
"committed_at": "2026-03-01T12:00:00Z"},
        {"topic": "orders", "partition": 10, "offset": 0, "leader_epoch": null, "metadata": "", \
"committed_at": null}
      ]
    },
    {"group": "empty", "type": "simple", "offsets": []},
    {
      "group": "payments",
      "type": "consumer",
      "offsets": [
        {"topic": "orders", "partition": 0, "offset": 9223372036854775807, "leader_epoch": null, \
"metadata": "", "committed_at": null}
      ]
    }
  ]
}
"""

names = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
commits = st.builds(
    Commit,
    names,
    st.from_regex(r"[a-zA-Z0-9._-]{1,6}", fullmatch=True),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.none() | st.integers(0, 9),
    names,
    st.none() | st.datetimes(timezones=st.just(UTC)),
)
commit_lists = st.lists(
    commits, min_size=1, max_size=5, unique_by=lambda c: (c.group_id, c.topic, c.partition)
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "offsets"


def test_json_is_readable(path: Path) -> None:
    """One commit a line, sorted; what is read is what was saved."""
    write_whole(path, json_text(replace(SAVED, commits=tuple(reversed(COMMITS)))))

    assert JSON == path.read_text()
    assert SAVED == read_offsets(path)


@given(commit_lists)
@settings(suppress_health_check=list(HealthCheck), deadline=None)  # each writes to the disk
def test_every_commit_comes_back(path: Path, saved: list[Commit]) -> None:
    """JSON brings back everything, CSV of four columns all that it can hold."""
    write_whole(path, json_text(SavedOffsets(tuple(saved), "eu", "id", NOON)))
    assert set(saved) == set(read_offsets(path).commits)
    write_whole(path, csv_text(saved, with_group=True))
    bare = [Commit(c.group_id, c.topic, c.partition, c.offset) for c in saved]
    assert bare == list(read_offsets(path).commits)


def test_the_saved_part_of_a_snapshot() -> None:
    """The selected groups' commits, sorted, with types and topics; also a group without commits."""
    groups = tuple(
        Group(name, SAVED.types.get(name, GroupType.CLASSIC), GroupState.EMPTY)
        for name in ("payments", "other", "empty", "a b,c")
    )
    commits = (Commit("other", "audit", 0, 1), *reversed(COMMITS))
    ids = {"orders": "id1", "audit": "id2"}
    snapshot = Snapshot("eu", "id", NOON, groups, commits, {}, topic_ids=ids)

    assert SAVED == saved_offsets(snapshot, ["a b,c", "payments", "empty"])


def test_csv_is_that_of_the_real_tool() -> None:
    """No header, quotes only where they must be, three columns or four."""
    assert '"a b,c",orders,0,50\n"a b,c",orders,10,0\n' == csv_text(COMMITS[:2], with_group=True)
    assert "orders,0,50\norders,10,0\n" == csv_text(COMMITS[:2], with_group=False)


def test_rows_for_a_plan(path: Path) -> None:
    """JSON gives whole positions, CSV bare offsets, three columns for whichever group is meant."""
    orders_0, orders_10 = TopicPartition("orders", 0), TopicPartition("orders", 10)
    path.write_text("orders,0,50\norders,10,0\n")

    assert {
        ("a b,c", orders_0): Position(50, 3, "m"),
        ("a b,c", orders_10): Position(0),
        ("payments", orders_0): Position(2**63 - 1),
    } == SAVED.rows
    assert {(None, orders_0): 50, (None, orders_10): 0} == read_offsets(path).rows


@pytest.mark.parametrize(
    "content",
    [
        b"g,orders,0,50\ng,orders,1,7\n",
        b"g,orders,0,50\ng,orders,1,7",
        b"\xef\xbb\xbfg,orders,0,50\r\ng,orders,1,7\r\n",
        b"g, orders , 0, 50\ng,orders,\t1,7 \n",
        b'"g","orders","0","50"\n"g","orders","1","7"\n',
    ],
    ids=["plain", "no last newline", "BOM and CRLF", "blanks", "quotes"],
)
def test_csv_as_people_and_spreadsheets_write_it(path: Path, content: bytes) -> None:
    """What means the same is read as the same."""
    path.write_bytes(content)

    expected = (Commit("g", "orders", 0, 50), Commit("g", "orders", 1, 7))
    assert SavedOffsets(expected) == read_offsets(path)


WRONG_CSV = {
    "empty": (b"", "it is empty; each line is topic,partition,offset or group,topic"),
    "only a BOM": (b"\xef\xbb\xbf", "it is empty"),
    "two columns": (b"orders,0\n", "line 1 has 2 columns, expected topic,partition,offset or gro"),
    "five columns": (b"g,t,0,5,x\n", "line 1 has 5 columns"),
    "mixed columns": (b"t,0,5\ng,t,1,5\n", "line 2 has 4 columns, expected topic,partition,offset"),
    "text": (b"hello\n", "line 1 has 1 column,"),
    "no offset": (b"t,0,\n", "line 1 has '' for its offset, which is not a whole number"),
    "a negative offset": (b"t,0,5\nt,1,-1\n", "line 2 has -1 for its offset, which must be from 0"),
    "a huge offset": (b"t,0,9223372036854775808\n", "which must be from 0 to 9223372036854775807"),
    "a huge partition": (b"t,2147483648,5\n", "for its partition, which must be from 0 to 214748"),
    "a fraction": (b"t,0,5.0\n", "line 1 has '5.0' for its offset"),
    "an underscore": (b"t,0,1_0\n", "line 1 has '1_0' for its offset"),
    "other digits": ("t,0,٣\n".encode(), "for its offset, which is not a whole number"),
    "a thousand digits": (b"t,0," + b"1" * 5000 + b"\n", "which is not a whole number"),
    "no topic": (b" ,0,5\n", "line 1 has no topic"),
    "twice": (b"t,0,5\nt,1,5\n t,00,6\n", "line 3 repeats t:0 from line 1"),
    "blank line": (b"t,0,5\n\nt,1,5\n", "line 2 is blank"),
    "header": (b"TOPIC,PARTITION,OFFSET\nt,0,5\n", "line 1 looks like a header"),
    "long header": (b"group,topic,partition,offset\ng,t,0,5\n", "line 1 looks like a header"),
    "comment": (b"# mine\nt,0,5\n", "line 1 has 1 column,"),
    "not UTF-8": (b"t,0,5\n\xff,0,5\n", "line 2 is not UTF-8 text"),
    "an open quote": (b't,0,5\n"t,1,5\n', "line 2 is not CSV"),
    "a quote too many": (b't,0,5\n"t"x,1,5\n', "line 2 is not CSV"),
    "after a long name": (b'"a\nb",t,0,5\ng,t,0,x\n', "line 3 has 'x' for its offset"),
    "many": (b"t,0,5\n" + b"t,0,x\n" * 9, "line 6 has 'x' .*; and 4 more"),
}


@pytest.mark.parametrize("what", WRONG_CSV)
def test_invalid_csv_names_the_line(path: Path, what: str) -> None:
    """Every fault has its line, and nothing is guessed."""
    content, words = WRONG_CSV[what]
    path.write_bytes(content)

    with pytest.raises(UsageError, match=words) as caught:
        read_offsets(path)

    assert str(path) in str(caught.value)
    assert "nothing was changed" in caught.value.hint


@given(st.binary() | st.text("{}\"',0123\nt \r", max_size=20).map(str.encode))
@settings(suppress_health_check=list(HealthCheck), deadline=None)  # each writes to the disk
def test_any_file_at_all(path: Path, content: bytes) -> None:
    """Whatever is in a file, it is offsets or a UsageError that names the file."""
    path.write_bytes(content)

    try:
        assert read_offsets(path).commits
    except UsageError as exc:
        assert str(path) in str(exc)  # noqa: PT017 - only some files are refused


WRONG_JSON = {
    "another format": (("offsets 1", "offsets 2"), "does not have format 'offsetbook offsets 1'"),
    "a negative offset": (('"offset": 50', '"offset": -1'), r"groups\[0\]\.offsets\[0\]\.offset"),
    "a partition twice": (('"partition": 10', '"partition": 0'), r"\[1\]: duplicate orders:0"),
    "a group twice": (('"empty"', '"a b,c"'), r"groups\[1\]: duplicate group 'a b,c'"),
    "another type": (('"simple"', '"odd"'), r"groups\[1\]\.type must be one of classic"),
    "no time": (('"taken_at": "2026', '"taken_at": "20x6'), "taken_at must be a time"),
    "a comma too few": (('"eu",', '"eu"'), "line 4, column 3: not JSON"),
}


@pytest.mark.parametrize("what", WRONG_JSON)
def test_invalid_json_names_the_place(path: Path, what: str) -> None:
    """Every fault has the file and the place in it."""
    edit, words = WRONG_JSON[what]
    assert edit[0] in JSON
    path.write_text(JSON.replace(*edit, 1))

    with pytest.raises(UsageError, match=words) as caught:
        read_offsets(path)

    assert str(path) in str(caught.value)


def test_a_group_that_begins_with_a_brace(path: Path) -> None:
    """A CSV is not taken for JSON because of a group's name."""
    for group_id in ("{x", '{"x"', "{"):
        commit = Commit(group_id, "orders", 0, 5)
        write_whole(path, csv_text([commit], with_group=True))
        assert (commit,) == read_offsets(path).commits


def test_csv_cannot_become_json() -> None:
    """It has neither the cluster nor the time."""
    with pytest.raises(ValueError, match="from a CSV file"):
        json_text(SavedOffsets(COMMITS))
