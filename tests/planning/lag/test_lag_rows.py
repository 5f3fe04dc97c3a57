"""Lag as plain rows: the same as in frames."""

from __future__ import annotations

from dataclasses import replace

from facts import live, member, snapshot
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import Commit, GroupType, LogOffsets, Snapshot, TopicPartition
from toolkit.model.commit_columns import CommitColumns
from toolkit.planning.frames.snapshot_frames import offsets_frame
from toolkit.planning.lag.lag import lag_by_group, with_lag
from toolkit.planning.lag.lag_rows import group_rows, partition_rows
from toolkit.report.frame_cells import rows_of

OFFSETS = st.integers(0, 6) | st.integers(2**60, 2**60 + 2)  # six still fit into Int64
PARTITIONS = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 2))
LOGS = st.dictionaries(PARTITIONS, st.builds(LogOffsets, *(st.none() | OFFSETS,) * 3))
COMMITS = st.dictionaries(st.tuples(st.sampled_from("gh"), PARTITIONS), OFFSETS)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Return a cluster whose groups have committed and own some partitions."""
    commits = [Commit(group, *p, offset) for (group, p), offset in draw(COMMITS).items()]
    pending = draw(st.sets(st.integers(0, len(commits))))
    commits = [replace(one, pending=n in pending) for n, one in enumerate(commits)]
    groups = [
        live(name, member("a", "b", owns=tuple(draw(st.sets(PARTITIONS)))), type=kind)
        for name, kind in (("g", GroupType.CLASSIC), ("s", GroupType.SHARE))
    ]
    return replace(snapshot(*groups, commits=tuple(commits)), logs=draw(LOGS))


@given(clusters())
def test_rows_are_those_of_the_frames(facts: Snapshot) -> None:
    """Partitions and groups have the same cells, None for null, whatever the reading found."""
    frame = with_lag(offsets_frame(facts))
    in_columns = replace(facts, commits=CommitColumns(facts.commits))

    for one in (facts, in_columns):
        table = partition_rows(one)
        assert list(frame.columns) == list(table.columns)
        assert rows_of(frame).rows == list(table.rows)
    by_group = lag_by_group(frame)
    table = group_rows(facts)
    assert list(by_group.columns) == list(table.columns)
    assert sorted(rows_of(by_group).rows, key=str) == sorted(table.rows, key=str)


@given(clusters())
def test_largest_lag_comes_first(facts: Snapshot) -> None:
    """Unknown lags come last, and equal ones stay in the order of their names."""
    lag = list(partition_rows(facts).columns).index("lag")
    rows = sorted(partition_rows(facts).rows, key=lambda row: (row[lag] is None, -(row[lag] or 0)))

    assert rows == list(partition_rows(facts, largest_first=True).rows)
    lags = [row[4] for row in group_rows(facts).rows]
    assert lags == sorted(lags, key=lambda lag: (lag is None, -(lag or 0)))


def test_columns_give_every_commit_back() -> None:
    """Commits in columns are equal to the objects, also by place, whatever is known of them."""
    first = Commit("g", "a", 1, 2**62, 7, "note", None)
    commits = (first, Commit("g", "a", 0, 5, pending=True), Commit("h", "b", 3, 1, topic_id="id"))
    columns = CommitColumns(commits)

    assert columns == commits
    assert ["g", "h"] == [block.group_id for block in columns.blocks]
    assert [*commits] == [columns[place] for place in range(3)]
    assert columns[-1] == commits[-1]
