"""
Decode and evaluate a block: the content of one `__consumer_offsets` partition.

A coordinator keeps everything about a group in one partition, so that a block can be decoded and
judged by itself, once the cluster has been asked about its groups and logs. Rules are not written
again here: they are the functions of `planning`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import pandas as pd
import pyarrow as pa

from toolkit.kafka_io.offsets_topic.activity import ACTIVITY
from toolkit.kafka_io.offsets_topic.commit_rows import decode_commits
from toolkit.kafka_io.offsets_topic.group_rows import decode_groups
from toolkit.kafka_io.offsets_topic.latest_records import LATEST
from toolkit.kafka_io.offsets_topic.removals import REMOVALS
from toolkit.model import HELD_PARTITIONS, Policy
from toolkit.model.names import shown_name
from toolkit.model.snapshot import MISSING_LOG
from toolkit.planning.expiry.with_expiry import with_expiry
from toolkit.planning.lag.group_summary import group_summary
from toolkit.planning.lag.lag import with_lag
from toolkit.planning.lag.status import with_status
from toolkit.planning.lag.status_rules import StatusRules
from toolkit.planning.unsubscribed.group_activity import activity_by_group, with_removal_kinds
from toolkit.planning.unsubscribed.group_facts import group_facts
from toolkit.planning.unsubscribed.unused_offsets import find_unused_offsets
from toolkit.spark.arrow import as_columns, as_frame, as_table
from toolkit.spark.packed_tables import Row, pack, unpack
from toolkit.spark.schemas import (
    COMMITS,
    FACTS,
    GROUPS,
    HELD_GROUPS,
    HOLDS,
    HOLDS_UNREAD,
    LISTED,
    LOG_FACTS,
    PARTITIONS,
    POSITIONS,
    RESULTS,
    TAIL,
    schema,
)
from toolkit.spark.source_rows import FROM_LOG, PAST_STABLE

NO_POLICY = Policy()
COMMITS_AT_ONCE = 50_000
SETTLED = {"pending": False, "counts": False}  # before the last stable offset all is settled
GROUP_KEY = ["cluster", "group"]
POSITION = [field.name for field in POSITIONS]
HELD = ["group", "topic", "partition"]
OF_THE_GROUP = ["type", "state", "protocol_type", "members", "empty_since", "unreadable"]


@dataclass(frozen=True)
class EvaluationRules:
    """
    The rules, and the time they are applied for: all commits up to `taken_at` are known.

    Groups that are empty for longer than `unused_group_days` are unused. Activity is counted since
    `activity_since` or, in clusters that were read incrementally, since that read began
    (`read_on`); what was written before is in the history of an earlier run.
    """

    rules: StatusRules
    taken_at: datetime
    unused_group_days: float
    activity_since: datetime
    read_on: Mapping[str, datetime]


def decoded_block(block: Row, policy: Policy = NO_POLICY) -> Row:
    """
    Decode a row of `schemas.SOURCE_BLOCKS`: return one of `schemas.DECODED`.

    Groups that the cluster's policy ignores are left out.
    """
    latest = unpack(block["latest"], LATEST)
    found, _ = decode_commits(latest)
    tail = unpack(block["tail"], TAIL).to_pylist()
    by_key = {(row["group"], row["topic"], row["partition"]): row for row in tail}
    keys = zip(*found.select(["group", "topic", "partition"]).to_pydict().values(), strict=True)
    told = [by_key.get(key, SETTLED) for key in keys] if tail else [SETTLED] * found.num_rows
    found = found.append_column("pending", pa.array([one["pending"] for one in told], pa.bool_()))
    sources = [PAST_STABLE if one["counts"] else FROM_LOG for one in told]
    found = found.append_column("source", pa.array(sources, pa.string()))
    by_log = as_columns(found, schema(*COMMITS))
    commits = pa.concat_tables([by_log, unpack(block["commits"], schema(*COMMITS))])
    commits = without_ignored(commits, policy)
    by_log = as_columns(decode_groups(latest)[0], schema(*GROUPS))
    groups = pa.concat_tables([by_log, unpack(block["groups"], schema(*GROUPS))])
    groups = without_ignored(groups, policy)
    held = groups.filter(groups["is_held"].fill_null(False))
    return {
        "cluster": block["cluster"],
        "offsets_partition": block["offsets_partition"],
        "commits": pack(commits),
        "groups": pack(groups),
        "held_groups": pack(held.select([field.name for field in HELD_GROUPS])),
        "positions": pack(commits.select(POSITION).group_by(POSITION).aggregate([])),
        "activity": block["activity"],
        "removals": block["removals"],
    }


def without_ignored(table: pa.Table, policy: Policy) -> pa.Table:
    """Return rows without those of groups that a policy ignores."""
    if not policy.ignored_groups:
        return table
    known = {name: not policy.ignores(name) for name in table["group"].unique().to_pylist()}
    return table.filter(pa.array([known[name] for name in table["group"].to_pylist()], pa.bool_()))


def evaluate_blocks(rows: Iterable[Row], judging: EvaluationRules) -> Iterator[Row]:
    """
    Judge rows of `schemas.DECODED`, with the log facts of their positions and cluster facts.

    Yields rows of `schemas.EVALUATED_BLOCKS`. Blocks of a cluster are judged together up to some
    size: most are small, and the rules take longer to begin than to judge a thousand commits.
    """
    waiting: list[Block] = []
    for row in rows:
        block = Block.of(row)
        size = sum(len(one.commits) for one in waiting)
        if waiting and (block.cluster != waiting[0].cluster or size > COMMITS_AT_ONCE):
            yield _judged(_together(waiting), judging)
            waiting = []
        waiting.append(block)
    if waiting:
        yield _judged(_together(waiting), judging)


class Block(NamedTuple):
    """A row of `schemas.DECODED` with all that was asked about it."""

    cluster: str
    retention_s: int | None
    check_interval_s: int | None
    complete: bool  # whether all groups could be listed
    listed: pd.DataFrame
    commits: pa.Table
    groups: pa.Table
    activity: pa.Table
    removals: pa.Table
    log_facts: pa.Table
    holds: pa.Table
    holds_unread: pa.Table

    @classmethod
    def of(cls, row: Row) -> Block:
        """Unpack it."""
        return cls(
            row["cluster"],
            row["retention_s"],
            row["check_interval_s"],
            bool(row["complete"]),
            as_frame(unpack(row["listed"], schema(*LISTED))),
            *(unpack(row[name], of) for name, of in TABLES.items()),
        )

    def frame(self, name: str) -> pd.DataFrame:
        """Return one of its tables."""
        return as_frame(getattr(self, name)).assign(cluster=self.cluster)


TABLES = {
    "commits": schema(*COMMITS),
    "groups": schema(*GROUPS),
    "activity": ACTIVITY,
    "removals": REMOVALS,
    "log_facts": schema(*LOG_FACTS),
    "holds": schema(*HOLDS),
    "holds_unread": schema(*HOLDS_UNREAD),
}


def _together(blocks: Sequence[Block]) -> Block:
    """Return the blocks of a cluster as one."""
    tables = {name: pa.concat_tables([getattr(one, name) for one in blocks]) for name in TABLES}
    return blocks[0]._replace(**tables)


def _judged(block: Block, judging: EvaluationRules) -> Row:
    commits = block.frame("commits")
    groups = _groups(block, commits)
    found = {
        "activity": _activity(block, commits, groups, judging),
        **_of_commits(_facts(block, commits, groups), judging),
    }
    packed = {name: pack(as_table(frame, RESULTS[name])) for name, frame in found.items()}
    return {"cluster": block.cluster, **packed}


def _groups(block: Block, commits: pd.DataFrame) -> pd.DataFrame:
    """Put together what the log and the coordinators tell of every group of a block."""
    # Commits name groups of which the log has no record of their own.
    named = commits[GROUP_KEY].drop_duplicates()
    logged = named.merge(block.frame("groups"), on=GROUP_KEY, how="outer")
    return group_facts(logged, block.listed, complete=block.complete)


def _facts(block: Block, commits: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """Add to commits what is known of their groups, logs and cluster: `schemas.FACTS`."""
    logs = block.frame("log_facts").drop(columns="cluster").drop_duplicates(POSITION)
    by_group = groups.set_index("group")
    facts = commits.merge(logs, on=POSITION, how="left")
    facts = facts.join(by_group[OF_THE_GROUP], on="group")
    holds = block.frame("holds").drop(columns="cluster").drop_duplicates(HELD)
    unread = block.frame("holds_unread").drop(columns="cluster").drop_duplicates("group")
    facts = facts.merge(holds, on=HELD, how="left").merge(unread, on="group", how="left")
    read = facts["group"].map(by_group["subscribed"])
    facts["subscribed"] = pd.array(
        [
            None if why else isinstance(topics, Collection) and topic in topics
            for why, topics, topic in zip(facts["unreadable"], read, facts["topic"], strict=True)
        ],
        "boolean",
    )
    for name in ("retention_s", "check_interval_s"):
        facts[name] = pd.array([getattr(block, name)] * len(facts), "Int64")
    return facts[[field.name for field in FACTS]]


def _of_commits(facts: pd.DataFrame, judging: EvaluationRules) -> dict[str, pd.DataFrame]:
    """Judge commits and what comes of them. Now is when the logs were read."""
    if facts.empty:
        return {}
    now = facts["log_read_at"].max().to_pydatetime()
    known = with_lag(facts).assign(commits_read_at=judging.taken_at)
    judged = with_expiry(with_status(known, now=now, rules=judging.rules), now=now)
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
    said = "log offsets of topic " + unread["topic"] + ": " + unread["log_problem"]
    return unread[["cluster"]].assign(problem=said)


def _hold_problems(facts: pd.DataFrame) -> pd.DataFrame:
    """Say for each group whose paused partitions could not be read, why."""
    unread = facts[facts["hold_unread"].notna()].drop_duplicates(["cluster", "group"])
    said = (
        HELD_PARTITIONS
        + " of group "
        + unread["group"].map(shown_name)
        + ": "
        + unread["hold_unread"]
    )
    return unread[["cluster"]].assign(problem=said)


def _activity(
    block: Block, commits: pd.DataFrame, groups: pd.DataFrame, judging: EvaluationRules
) -> pd.DataFrame:
    """Count what the groups of a block wrote lately."""
    read_on = judging.read_on.get(block.cluster)
    removed = block.frame("removals")
    if read_on:
        removed = _with_kinds_known_before(removed, groups)
    kinds = with_removal_kinds(
        removed, retention_s=block.retention_s, check_interval_s=block.check_interval_s
    )
    return activity_by_group(
        block.frame("activity"),
        kinds,
        since=max(judging.activity_since, read_on or judging.activity_since),
        now=judging.taken_at,
        commits=commits[GROUP_KEY],
    )


def _with_kinds_known_before(removed: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """
    Fill in the kind of groups whose records an earlier run has read.

    A group of which nothing is known is then not simple: why its offsets went cannot be told.
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
