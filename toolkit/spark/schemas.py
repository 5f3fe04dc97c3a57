"""The columns of every frame in the pipeline, declared once, as Arrow and as Spark see them."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from toolkit.kafka_io.offsets_topic import latest_tables

# Spark knows microseconds only; Kafka and the readers work with milliseconds.
TIME = pa.timestamp("us", tz="UTC")


def schema(*fields: pa.Field) -> pa.Schema:
    return pa.schema(list(fields))


def _fields(kind: pa.DataType, *names: str) -> list[pa.Field]:
    return [pa.field(name, kind) for name in names]


def _text(*names: str) -> list[pa.Field]:
    return _fields(pa.string(), *names)


def _whole(*names: str) -> list[pa.Field]:
    return _fields(pa.int64(), *names)


def _number(*names: str) -> list[pa.Field]:
    return _fields(pa.float64(), *names)


def _time(*names: str) -> list[pa.Field]:
    return _fields(TIME, *names)


def _flag(*names: str) -> list[pa.Field]:
    return _fields(pa.bool_(), *names)


def _packed(*names: str) -> list[pa.Field]:
    """Return columns of packed tables: see `arrow.py`."""
    return _fields(pa.binary(), *names)


PLACE = [*_text("cluster", "topic"), *_whole("partition")]


def _declared_fields(by: pa.Schema, *, but: Collection[str] = ()) -> list[pa.Field]:
    """Return the columns that a reader in `kafka_io` declares, with Spark's grain of time."""
    return [field.with_type(with_time(field.type, TIME)) for field in by if field.name not in but]


def with_time(kind: pa.DataType, time: pa.DataType) -> pa.DataType:
    """Return a type with this one instead of any other type of times."""
    if pa.types.is_list(kind):
        return pa.list_(with_time(kind.value_type, time))
    return time if pa.types.is_timestamp(kind) else kind


# How far one partition of the offsets topic was read.
READ_TO = [
    *_text("topic_id"),
    *_whole("delete_retention_ms", "leader_epoch", "start", "next_offset", "log_start", "records"),
    *_time("read_at"),
    *_text("why_full"),  # why it was read from its start; "" where reading went on
    *_time("resumed_at"),  # where it went on: when the reading before this one was made
]
# A commit in the offsets topic; the Admin protocol has fewer fields.
COMMITS = schema(
    *_text("cluster"),
    *_declared_fields(by=latest_tables.COMMITS, but={"record_offset"}),
    *_flag("pending"),  # an open transaction will commit a new offset; null if unknown
    *_text("source"),  # FROM_LOG, PAST_STABLE or FROM_ADMIN
    *_time("read_at"),  # up to when commits are known
)
# A group from its own records, or from its coordinator.
GROUPS = schema(*_text("cluster"), *_declared_fields(by=latest_tables.GROUPS))
# What is committed, however many groups did; and where its log ended at earlier times.
POSITIONS = schema(*PLACE[1:], *_whole("committed"), *_text("topic_id"))
# Where logs ended, of each partition once: what a run leaves for the time lag of later ones.
LOG_ENDS = schema(*PLACE, *_time("log_read_at"), *_whole("log_end"))
PAST_ENDS = schema(
    *PLACE[1:],
    pa.field("past_ends", pa.list_(pa.struct([*_time("at"), *_whole("log_end")]))),
)
# The facts about the log at a committed position.
LOG_FACTS = schema(
    *_whole("log_start", "log_end", "last_stable"),
    *_text("log_problem"),  # why the three are null; "" where they are not
    *_time("log_read_at"),
    *_time("earlier_at"),
    *_whole("earlier_end"),  # log end offset at `earlier_at`
    pa.field("past_at", pa.list_(TIME)),  # more such instants
    pa.field("past_end", pa.list_(pa.int64())),
    *_number("time_lag_s", "time_lag_error_s"),
    *_text("time_lag_method", "time_lag_why"),
)

# Everything about a commit that rules read.
FACTS = schema(
    *COMMITS,
    *_text("type", "state", "protocol_type"),
    *_whole("members"),
    *_time("empty_since"),
    *_flag("subscribed"),
    *_text("unreadable", "hold", "hold_unread"),
    *_whole("retention_s", "check_interval_s"),
    *LOG_FACTS,
    *_number("skew_s"),  # from the reading of the commit to that of the log end
)
# KIP-496's meters by group, as far as the log still has them.
GROUP_ACTIVITY = schema(
    *_text("cluster", "group"),
    *_time("window_from"),
    *_whole("commits"),
    *_number("commits_per_s"),
    *_whole("expirations", "deletions", "removals", "rebalances"),
    *_number("bytes_per_s"),
    *_flag("complete", "commits_too_often"),
    *_text("why"),
)
LEFTOVERS = schema(
    *_text("cluster", "group", "topic"),
    *_whole("partition"),
    *_text("kind"),
    *_whole("lag"),
    *_time("committed_at", "since"),
    *_text("source", "why"),
)
# What only rules need.
RULE_ONLY_COLUMNS = {
    "topic_id",
    "read_at",
    "recent_at",
    "recent_offset",
    "past_at",
    "past_end",
    "hold",
    "hold_unread",
    "retention_s",
    "check_interval_s",
}


# A block is what one partition of a cluster's offsets topic holds; all of a group is in one.
BLOCK = [*_text("cluster"), pa.field("offsets_partition", pa.int32())]
WHOLE = -1  # instead of a partition: the cluster as a whole
# What the reading tasks yield: a block, or a problem.
READ_BLOCKS = schema(
    *BLOCK,
    *_fields(pa.int32(), "judging_task", "partitions"),  # by whom; how many the topic has
    *_packed("latest"),  # kafka_io.offsets_topic.latest_records.LATEST
    *_packed("activity"),  # kafka_io.offsets_topic.activity.ACTIVITY
    *_packed("removals"),  # kafka_io.offsets_topic.removals.REMOVALS
    pa.field("read_to", pa.struct(READ_TO)),
    *_text("by_admin"),  # why its commits must come through Admin; null where they need not
    *_text("problem"),
)
# What the judging tasks yield: what was found out about some groups, as tables of RESULTS, and the
# files of the history that were written: history.NewFile.
JUDGED = schema(
    *_text("cluster"),
    *_packed("partitions", "groups", "activity", "leftovers", "problems"),
    pa.field(
        "files",
        pa.list_(pa.struct([*_text("table", "path"), *_whole("size"), *_text("stats")])),
    ),
)
# What is stored of an offsets partition for the next run: see read_state.py.
STATE = schema(
    *BLOCK,
    *_fields(pa.int32(), "partitions"),
    *_text("format"),  # of `latest`
    *READ_TO,
    *_packed("latest"),
)

PARTITIONS = schema(
    *(field for field in FACTS if field.name not in RULE_ONLY_COLUMNS),
    *_whole("lag", "stable_lag", "lost"),
    *_text("position", "status", "status_why", "member_state", "trend"),
    *_number("consumed_per_s", "produced_per_s", "catch_up_s"),
    *_time("expires_at", "expires_by"),
    *_text("expiry_rule", "expiry_why"),
    *_time("expires_if_stopped_at"),
    *_flag("expires_immediately_if_stopped"),
    *_text("expiry_confidence"),
)

GROUP_SUMMARY = schema(
    *_text("cluster", "group", "type", "state"),
    *_whole("members", "topics", "partitions", "lag", "lost", "unknown_lag_partitions"),
    *_text("worst_topic"),
    *_whole("worst_partition", "worst_lag"),
    *_number("time_lag_s"),
    *_text("status", "worst_status", "status_why", "member_state", "trend"),
    *_time("next_expiry_at"),
    *_whole("expires_immediately_if_stopped"),
    *_number("skew_s"),
)


PROBLEMS = schema(*_text("cluster", "problem"))


RESULTS = {
    "partitions": PARTITIONS,
    "groups": GROUP_SUMMARY,
    "activity": GROUP_ACTIVITY,
    "leftovers": LEFTOVERS,
    "problems": PROBLEMS,
}
