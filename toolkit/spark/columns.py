"""What each column of the job's results means, for people and for Spark's own catalogues."""

from __future__ import annotations

MEANING = {
    "cluster": "cluster name from the fleet file",
    "group": "consumer group id",
    "topic": "topic of the committed offset",
    "partition": "partition of that topic",
    # The committed offset.
    "committed": "committed offset: the next offset the group reads",
    "leader_epoch": "leader epoch stored with the commit; null if the client sent none",
    "metadata": "commit metadata set by the client",
    "committed_at": "commit time; null if only the Admin API was available",
    "expire_at": "expiry time requested by an old client with the commit",
    "max_committed": "highest offset ever committed, as far as known",
    "max_committed_at": "time of the first commit of `max_committed`",
    "pending": "an open transaction has a pending commit for this partition; null if unknown",
    "source": (
        "origin of the row: 'offsets topic', also 'past the last stable offset' (behind an open "
        "transaction), or 'admin'; for unused offsets, the evidence"
    ),
    # The group.
    "type": "classic, consumer (KIP-848), streams, share, simple (no members by design) or unknown",
    "state": "group state from the coordinator; Dead if no longer listed",
    "protocol_type": "protocol type of a classic group, such as 'consumer' or 'connect'",
    "members": "number of members; null if unknown",
    "empty_since": "time the group became Empty, if its metadata record has it",
    "subscribed": "true if a member subscribes to the topic; null if unknown",
    "unreadable": "why `subscribed` is unknown; empty if it is known",
    # The log.
    "log_start": "log start offset",
    "log_end": "log end offset",
    "last_stable": "last stable offset; less than log_end while a transaction is open",
    "log_problem": "why the log offsets are unknown; empty if they are known",
    "log_read_at": "when the log offsets were read",
    "skew_s": "seconds between reading the commit and the log end, at most; what was consumed in "
    "them is part of the lag",
    "earlier_at": "time of an earlier sample, for the trend",
    "earlier_end": "log end offset at `earlier_at`",
    # Lag.
    "lag": "offsets to the log end, at most so many unread records; null if unknown, never 0",
    "stable_lag": "lag up to the last stable offset",
    "lost": "offsets deleted before the group read them, at most so many records",
    "position": "in range, lost records, beyond log end, no commit or log unknown",
    "time_lag_s": "age of the oldest unread record in seconds; for a group, the maximum",
    "time_lag_error_s": "maximum error of time_lag_s in seconds; 0 means exact",
    "time_lag_method": "nothing to read, time look-up, history or record",
    "time_lag_why": "why time_lag_s is unknown; empty if it is known",
    # Status.
    "status": "OK, WARN, ERR, STOP, STALL, REWIND, UNSUBSCRIBED or HELD (paused by offsetbook); "
    "for a group OK, UNSUBSCRIBED, HELD, WARN or ERR; null if unknown",
    "status_why": "reason for the status",
    "worst_status": "status of the group's worst partition",
    "member_state": "alive and committing, alive and silent, alive and idle (caught up), or gone; "
    "null if unknown",
    "trend": "catching up, falling behind or steady, without a threshold; null if unknown",
    "consumed_per_s": "consumed offsets per second",
    "produced_per_s": "produced offsets per second",
    "catch_up_s": "estimated seconds until lag is 0; null if never or unknown",
    # Expiry.
    "expires_at": (
        "earliest time the broker may expire the offset; null if never or unknown, see expiry_rule"
    ),
    "expires_by": "latest time by which the broker has expired it",
    "expiry_rule": "retention rule that applies",
    "expiry_why": "explanation of the rule",
    "expires_if_stopped_at": "expiry time if the group's last member left now",
    "expires_immediately_if_stopped": (
        "whether it would then expire at the broker's next check; for a group, the number of "
        "offsets"
    ),
    "expiry_confidence": "high, medium, low or none",
    "next_expiry_at": "earliest expiry time of the group's offsets",
    # Sums of a group.
    "topics": "number of topics with a committed offset",
    "partitions": "number of partitions with a committed offset",
    "unknown_lag_partitions": "partitions with unknown lag",
    "worst_topic": "topic of the partition with the largest lag",
    "worst_partition": "number of that partition",
    "worst_lag": "lag of that partition",
    # Activity.
    "window_from": "start: a full hour, the start of the read, or the group's first record",
    "commits": "offset commits in the window",
    "commits_per_s": "offset commits per second",
    "expirations": "offsets expired by brokers",
    "deletions": "offsets deleted on request",
    "removals": "offsets removed for an unknown reason",
    "rebalances": "completed rebalances",
    "bytes_per_s": "bytes per second (keys and values) written to __consumer_offsets",
    "complete": "true if no records of the window were compacted; otherwise counts are minimums",
    "commits_too_often": "commits unusually often; null if unknown",
    # Leftovers.
    "kind": "unsubscribed, deleted topic or empty group",
    "since": "unused since, if known",
    "why": "reason",
    # Everything else.
    "problem": "read error and its cause",
}
