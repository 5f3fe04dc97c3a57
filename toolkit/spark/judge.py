"""
The second stage: judge everything that was read of one cluster.

Its commits are brought up to now, facts about all of them are read from coordinators and brokers,
and the rules are applied in slices, so that the memory of a worker depends on the slice. A
coordinator keeps everything about a group in one partition of the offsets topic, so a task has all
of a group. Rules are not written again here: they are the functions of `planning`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import from_arrow_schema as as_spark

from toolkit.errors import ToolkitError
from toolkit.kafka_io.offsets_topic.activity import ACTIVITY
from toolkit.kafka_io.offsets_topic.removals import REMOVALS
from toolkit.model import Cluster, Unread
from toolkit.model.names import shown_name
from toolkit.model.snapshot import MISSING_LOG
from toolkit.planning.expiry.expiry_forecast import with_expiry
from toolkit.planning.lag.group_summary import group_summary
from toolkit.planning.lag.lag import with_lag
from toolkit.planning.lag.status import with_status
from toolkit.planning.lag.status_rules import StatusRules
from toolkit.planning.lag.trend import look_back_s
from toolkit.planning.unsubscribed.group_activity import (
    activity_by_group,
    group_facts,
    with_removal_kinds,
)
from toolkit.planning.unsubscribed.unused_offsets import find_unused_offsets
from toolkit.spark.arrow import Row, as_frame, as_table, pack, rows_of, unpack
from toolkit.spark.ask import ClusterGroups, HoldsRead, ask_groups, ask_holds, ask_logs
from toolkit.spark.catch_up import read_newest
from toolkit.spark.history import LOG_ENDS_TABLE, STATE_TABLE, History, HistoryRun, RunFiles
from toolkit.spark.read_state import state_rows
from toolkit.spark.read_tasks import CONNECTIONS, OffsetsReading, guarded
from toolkit.spark.schemas import (
    FACTS,
    JUDGED,
    LOG_ENDS,
    PARTITIONS,
    PAST_ENDS,
    POSITIONS,
    PROBLEMS,
    RESULTS,
    TIME,
)

COMMITS_AT_ONCE = 20_000
# How far back log ends are taken from the history, and how many: it is only a second witness.
LOOK_BACK = timedelta(days=2)
MOST_ENDS = 50
LOOK = ["log_read_at", "log_end"]
GROUP_KEY = ["cluster", "group"]
HELD = ["group", "topic", "partition"]
OF_THE_GROUP = ["type", "state", "protocol_type", "members", "empty_since", "unreadable"]
# Another column of a table of commits: the number of the row with the facts of the log.
LOG_ROW = "log_row"


@dataclass(frozen=True)
class EvaluationRules:
    """
    The rules, and the time they are applied for: all activity up to `taken_at` is known.

    Groups that are empty for longer than `unused_group_days` are unused. Activity is counted since
    `activity_since` or, in clusters that were read incrementally, since the read before; what was
    written before is in the history of an earlier run. `store` is the history and the run in it.
    """

    rules: StatusRules
    taken_at: datetime
    unused_group_days: float
    activity_since: datetime
    store: tuple[str, HistoryRun] | None = None


def judged(
    reading: OffsetsReading, clusters: Mapping[str, Cluster], judging: EvaluationRules
) -> DataFrame:
    """Judge the read blocks, `schemas.READ_BLOCKS`: return `schemas.JUDGED`."""
    by_task = reading.blocks.repartitionById(reading.judging_tasks, F.col("judging_task"))

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks: dict[str, list[Row]] = defaultdict(list)
        for row in rows_of(batches):
            blocks[row["cluster"]].append(row)
        for name in [*blocks]:
            found = judge_cluster(clusters[name], blocks.pop(name), judging)
            yield from (pa.RecordBatch.from_pylist([row], schema=JUDGED) for row in found)
            del found
        pa.default_memory_pool().release_unused()  # the driver collects beside the workers

    return by_task.mapInArrow(judge, as_spark(JUDGED))


def judge_cluster(
    cluster: Cluster, blocks: Sequence[Row], judging: EvaluationRules
) -> Iterator[Row]:
    """Yield the results for the blocks of a cluster: rows of `schemas.JUDGED`."""
    read = [block for block in blocks if not block["problem"]]
    problems = [block["problem"] for block in blocks if block["problem"]]
    if read:  # else the cluster did not answer a moment ago
        with CONNECTIONS.in_use():
            yield from guarded(
                lambda: _judged(cluster, read, judging, problems),
                lambda why: _problem_row(cluster, [why]),
            )
    yield _problem_row(cluster, problems)


def _problem_row(cluster: Cluster, problems: Sequence[str]) -> Row:
    rows = [{"cluster": cluster.name, "problem": why} for why in problems]
    return {
        "cluster": cluster.name,
        "problems": pack(pa.Table.from_pylist(rows, schema=PROBLEMS)),
    }


def _judged(
    cluster: Cluster, blocks: Sequence[Row], judging: EvaluationRules, problems: list[str]
) -> Iterator[Row]:
    """Yield the slices of a cluster, and add to the problems what could not be read."""
    newest = read_newest(cluster, blocks)
    commits, positions = _with_log_rows(newest.commits)
    if judging.store:
        ends = as_frame(_past_ends(cluster.name, judging, problems))
        positions = positions.merge(ends, on=["topic", "partition"], how="left")
    logs = ask_logs(cluster, positions, look_back_s(judging.rules))
    known = ask_groups(cluster)  # after the log: a group that is not listed has ended since
    problems += [*known.problems, *newest.problems]
    groups = as_frame(newest.groups.select(["group", "type", "is_held"]))
    facts = ClusterFacts(
        cluster.name,
        known,
        logs,
        ask_holds(cluster, groups[groups["is_held"].fillna(value=False)]),
    )
    tables = {
        "commits": commits,
        "groups": newest.groups,
        "activity": _unpacked(blocks, "activity", ACTIVITY),
        "removals": _unpacked(blocks, "removals", REMOVALS),
    }
    parts = (_judged_slice(Slice(facts, **part), judging) for part in _slices(tables))
    if judging.store:
        files = RunFiles(*judging.store)
        yield from _stored(files, cluster, blocks, parts, _log_ends(cluster, positions, logs))
    else:
        yield from (_row(cluster, part) for part in parts)


def _row(cluster: Cluster, part: Mapping[str, pa.Table]) -> Row:
    return {"cluster": cluster.name, **{name: pack(table) for name, table in part.items()}}


def _stored(
    files: RunFiles,
    cluster: Cluster,
    blocks: Sequence[Row],
    parts: Iterable[Mapping[str, pa.Table]],
    log_ends: pa.Table,
) -> Iterator[Row]:
    """Yield slices, and the files of the history in which they are, but for their problems."""
    why = ""
    for part in parts:
        yield _row(cluster, part)
        results = ((name, table) for name, table in part.items() if name != "problems")
        why = why or _why_not_added(files, results)
    more = [(LOG_ENDS_TABLE, log_ends), *((STATE_TABLE, row) for row in state_rows(blocks))]
    why = why or _why_not_added(files, more)
    try:
        new = [one._asdict() for one in files.close()]
    except ToolkitError as exc:
        why = why or str(exc)
    if why:
        yield _problem_row(cluster, [f"the results are not in the history: {why}"])
    else:
        yield {"cluster": cluster.name, "files": new}


def _why_not_added(files: RunFiles, tables: Iterable[tuple[str, pa.Table]]) -> str:
    try:
        for name, table in tables:
            files.add(name, table)
    except ToolkitError as exc:
        return str(exc)
    return ""


def _log_ends(cluster: Cluster, positions: pd.DataFrame, logs: pd.DataFrame) -> pa.Table:
    """Return where logs ended, each partition once: LOG_ENDS."""
    ends = positions[["topic", "partition"]].join(logs[["log_read_at", "log_end"]])
    ends = ends.dropna(subset="log_end").drop_duplicates(["topic", "partition"])
    return as_table(ends.assign(cluster=cluster.name), LOG_ENDS)


def _past_ends(cluster: str, judging: EvaluationRules, problems: list[str]) -> pa.Table:
    """Return where logs ended in earlier runs, the newest first: PAST_ENDS."""
    root, _ = judging.store or ("", None)
    now = judging.taken_at
    ends: list[pa.Table] = []
    try:
        columns = pa.schema([one for one in LOG_ENDS if one.name != "cluster"])
        history = History(root)
        ends += history.rows(
            LOG_ENDS_TABLE, columns, clusters=[cluster], since=now - LOOK_BACK, before=now
        )
    except ToolkitError as exc:
        problems.append(f"log ends of earlier runs: {exc}")
    if not ends:
        return PAST_ENDS.empty_table()
    looks = pa.concat_tables(ends).to_pandas().drop_duplicates()
    by = ["topic", "partition"]
    looks = looks.sort_values([*by, "log_read_at"], ascending=[True, True, False])
    looks = looks.groupby(by, sort=False).head(MOST_ENDS)
    first = ~looks.duplicated(by)
    bounds = np.append(np.flatnonzero(first), len(looks)).astype(np.int32)
    each = PAST_ENDS.field("past_ends").type.value_type
    columns = [pa.array(looks[name], one.type) for name, one in zip(LOOK, each, strict=True)]
    lists = pa.ListArray.from_arrays(bounds, pa.StructArray.from_arrays(columns, fields=list(each)))
    places = looks[first]
    return pa.table([places["topic"], places["partition"], lists], schema=PAST_ENDS)


def _unpacked(blocks: Sequence[Row], name: str, of: pa.Schema) -> pa.Table:
    """Return rows of partitions of the offsets topic, and when each was read before, if it was."""
    tables = []
    for block in blocks:
        rows = unpack(block[name], of)
        at = (block["read_to"] or {}).get("resumed_at")
        tables.append(rows.append_column("resumed_at", pa.array([at] * len(rows), TIME)))
    return pa.concat_tables(tables)


def _with_log_rows(commits: pa.Table) -> tuple[pa.Table, pd.DataFrame]:
    """Return the committed positions, each once, and the commits with the row of their position."""
    every = as_frame(commits.select(POSITIONS.names))
    rows = every.groupby(POSITIONS.names, sort=False, dropna=False).ngroup()
    positions = every.drop_duplicates(ignore_index=True)
    return commits.append_column(LOG_ROW, pa.array(rows, pa.int64())), positions


def _slices(tables: Mapping[str, pa.Table]) -> Iterator[dict[str, pa.Table]]:
    """Yield tables with a column `group` in parts, each with all rows of some groups."""
    names = [table["group"].to_pandas() for table in tables.values()]
    codes, _ = pd.factorize(pd.concat(names, ignore_index=True))
    of_table = np.split(codes, np.cumsum([len(one) for one in names])[:-1])
    sizes = np.bincount(of_table[0], minlength=codes.max(initial=-1) + 1)  # in commits
    slice_of = (np.cumsum(sizes) - sizes) // COMMITS_AT_ONCE  # by its first commit
    for number in np.unique(slice_of):
        yield {
            name: table.filter(pa.array(slice_of[rows] == number))
            for (name, table), rows in zip(tables.items(), of_table, strict=True)
        }


class ClusterFacts(NamedTuple):
    """The facts about a cluster from its coordinators and brokers."""

    cluster: str
    groups: ClusterGroups
    logs: pd.DataFrame  # LOG_FACTS
    holds: HoldsRead


@dataclass(frozen=True)
class Slice:
    """Some groups of a cluster, with all that is known of them."""

    facts: ClusterFacts
    commits: pa.Table  # schemas.COMMITS and LOG_ROW
    groups: pa.Table  # schemas.GROUPS
    activity: pa.Table
    removals: pa.Table

    def frame(self, name: str) -> pd.DataFrame:
        return as_frame(getattr(self, name)).assign(cluster=self.facts.cluster)


def _judged_slice(part: Slice, judging: EvaluationRules) -> dict[str, pa.Table]:
    commits = part.frame("commits")
    groups = _groups(part, commits)
    found = {
        "activity": _activity(part, commits, groups, judging),
        **_of_commits(_facts(part, commits, groups), judging),
    }
    return {name: as_table(frame, RESULTS[name]) for name, frame in found.items()}


def _groups(part: Slice, commits: pd.DataFrame) -> pd.DataFrame:
    """Join the facts about every group of a slice from the log and the coordinators."""
    # Commits name groups of which the log has no record of their own.
    named = commits[GROUP_KEY].drop_duplicates()
    logged = named.merge(part.frame("groups"), on=GROUP_KEY, how="outer")
    known = part.facts.groups
    return group_facts(logged, known.listed, complete=known.complete)


def _facts(part: Slice, commits: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """Add to commits the facts about their groups, logs and cluster: `schemas.FACTS`."""
    by_group = groups.set_index("group")
    logs = part.facts.logs.iloc[commits[LOG_ROW]].set_index(commits.index)
    facts = commits.join(logs).join(by_group[OF_THE_GROUP], on="group")
    holds, unread = part.facts.holds
    facts = facts.merge(holds, on=HELD, how="left").merge(unread, on="group", how="left")
    subscribed = {
        group: frozenset(topics)
        for group, topics in by_group["subscribed"].items()
        if isinstance(topics, Collection)
    }
    facts["subscribed"] = pd.array(
        [
            None if why else topic in subscribed.get(group, ())
            for why, group, topic in zip(
                facts["unreadable"], facts["group"], facts["topic"], strict=True
            )
        ],
        "boolean",
    )
    facts["skew_s"] = (facts["log_read_at"] - facts["read_at"]).dt.total_seconds()
    for name in ("retention_s", "check_interval_s"):
        facts[name] = pd.array([getattr(part.facts.groups, name)] * len(facts), "Int64")
    return facts[[field.name for field in FACTS]]


def _of_commits(facts: pd.DataFrame, judging: EvaluationRules) -> dict[str, pd.DataFrame]:
    """Judge commits and what comes of them. Now is when the logs were read."""
    if facts.empty:
        return {}
    now = facts["log_read_at"].max().to_pydatetime()
    judged = with_expiry(with_status(with_lag(facts), now=now, rules=judging.rules), now=now)
    # As others will read it.
    partitions = as_frame(as_table(judged, PARTITIONS))
    return {
        "partitions": judged,
        "groups": group_summary(partitions),
        "leftovers": find_unused_offsets(
            partitions, now=now, unused_group_days=judging.unused_group_days
        ),
        "problems": pd.concat([log_problems(partitions), _hold_problems(facts)]),
    }


def log_problems(partitions: pd.DataFrame) -> pd.DataFrame:
    """Say for each topic that exists and whose log offsets could not be read, why."""
    unread = partitions[~partitions["log_problem"].isin(["", *MISSING_LOG])]
    unread = unread.drop_duplicates(["cluster", "topic", "log_problem"])
    problem = "log offsets of topic " + unread["topic"] + ": " + unread["log_problem"]
    return unread[["cluster"]].assign(problem=problem)


def _hold_problems(facts: pd.DataFrame) -> pd.DataFrame:
    """Say for each group whose paused partitions could not be read, why."""
    unread = facts[facts["hold_unread"].notna()].drop_duplicates(["cluster", "group"])
    problem = (
        Unread.HELD_PARTITIONS
        + " of group "
        + unread["group"].map(shown_name)
        + ": "
        + unread["hold_unread"]
    )
    return unread[["cluster"]].assign(problem=problem)


def _activity(
    part: Slice, commits: pd.DataFrame, groups: pd.DataFrame, judging: EvaluationRules
) -> pd.DataFrame:
    """Count what the groups of a slice wrote since their partition of the topic was read before."""
    activity, removals = part.frame("activity"), part.frame("removals")
    before = pd.concat([activity["resumed_at"], removals["resumed_at"]]).drop_duplicates()
    found = []
    at: Any
    for at in before if len(before) else [None]:
        is_full = pd.isna(at)
        wrote, removed = (
            rows[rows["resumed_at"].isna() if is_full else rows["resumed_at"] == at]
            for rows in (activity, removals)
        )
        kinds = with_removal_kinds(
            removed if is_full else _with_kinds_known_before(removed, groups),
            retention_s=part.facts.groups.retention_s,
            check_interval_s=part.facts.groups.check_interval_s,
        )
        since = judging.activity_since if is_full else max(judging.activity_since, at)
        found.append(
            activity_by_group(
                wrote, kinds, since=since, now=judging.taken_at, commits=commits[GROUP_KEY]
            )
        )
    return pd.concat(found).sort_values("commits", ascending=False, kind="stable")


def _with_kinds_known_before(removed: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """
    Fill in the kind of groups whose records an earlier run has read.

    A group of which nothing is known is then not simple: why its offsets went is unknown.
    """
    by_group = groups.set_index("group")
    kind = removed["group"].map(by_group["type"])
    untold = removed["group_kind"].isna()
    is_own = untold & kind.isin(["classic", "consumer", "streams"])
    return removed.assign(
        committed=removed["committed"].mask(untold & kind.isna()),
        empty_since=removed["empty_since"].mask(
            is_own, removed["group"].map(by_group["empty_since"])
        ),
        group_kind=removed["group_kind"].mask(is_own, kind),
    )
