"""What each column of the job's results means, for people and for Spark's own catalogues."""

from __future__ import annotations

MEANING = {
    "cluster": "name in the fleet file",
    "group": "consumer group",
    "topic": "topic of the committed offset",
    "partition": "partition of that topic",
    # What is committed.
    "committed": "the next record that the group would read",
    "leader_epoch": "of the record before that; null where the client did not tell",
    "metadata": "what the client noted beside the offset",
    "committed_at": "when it was committed; null where only Admin was available",
    "expire_at": "when it expires because an old client asked for that",
    "highest": "the highest offset that was ever committed, as far as is known",
    "highest_at": "when that was first committed",
    "pending": "an open transaction is about to change it; null where not known",
    "source": "where the row is from: 'offsets topic' or 'admin'; of a leftover: how it is known",
    # The group.
    "type": "classic, consumer (KIP-848), streams, share, simple (no members by nature) or unknown",
    "state": "as its coordinator says; Dead where it is not listed any more",
    "protocol_type": "what members of a classic group speak: 'consumer', 'connect'",
    "members": "how many members it has; null where not known",
    "empty_since": "when the last member left, where its own record tells",
    "subscribed": "whether a live member subscribes to the topic; null where not known",
    "unreadable": "why that is not known; empty where it is",
    # The log.
    "log_start": "the first offset of the log",
    "log_end": "one past the last",
    "last_stable": "how far a read_committed consumer can read; before log_end while a transaction "
    "is open",
    "log_problem": "why these are not known; empty where they are",
    "log_read_at": "when they were asked for",
    "earlier_at": "an instant before that",
    "earlier_end": "where the log ended then",
    # Lag.
    "lag": "records still to read; null where there is no such number, never 0 for want of one",
    "stable_lag": "the same up to the last stable offset",
    "lost": "records that were deleted before the group read them",
    "position": "in range, lost records, beyond log end, no commit or log unknown",
    "time_lag_s": "seconds that the oldest unread record has been waiting; of a group: the most",
    "time_lag_bound_s": "the truth is within so many seconds to either side; 0: exact",
    "time_lag_method": "nothing to read, time look-up, history or record",
    # Status.
    "status": "OK, WARN, ERR, STOP, STALL, REWIND or UNSUBSCRIBED; of a group OK, UNSUBSCRIBED, "
    "WARN or ERR; null where nothing can be said",
    "status_why": "what was seen that makes it so",
    "because": "the word of the group's worst partition",
    "member_state": "alive and committing, alive and silent, alive and idle, or gone; null where "
    "unknown",
    "trend": "catching up, falling behind or steady; null where unknown",
    "consumed_per_s": "records a second that the group reads",
    "produced_per_s": "records a second that arrive",
    "drain_s": "seconds until nothing is left to read; null where that is never or unknown",
    # Expiry.
    "expires_at": "when brokers may remove the offset; null where never or unknown, see the rule",
    "expires_by": "when they have done so at the latest",
    "expiry_rule": "the row of the brokers' decision table that decides",
    "expiry_why": "the same in words",
    "expires_if_stopped_at": "when it would expire if the group's last member left now",
    "at_once_if_stopped": "whether that is at the broker's next look; of a group: how many offsets",
    "expiry_confidence": "high, medium, low or none",
    "next_expiry_at": "when the first of the group's offsets expires",
    # Sums of a group.
    "topics": "how many topics it has committed",
    "partitions": "how many partitions it has committed",
    "without_lag": "partitions without a number for their lag",
    "worst_topic": "topic of the partition with the most lag",
    "worst_partition": "that partition",
    "worst_lag": "its lag",
    # Activity.
    "window_from": "where the time that is counted begins: a clock hour, or where reading began",
    "commits": "offset commits in that time",
    "commits_per_s": "the same a second",
    "expirations": "offsets that brokers expired",
    "deletions": "offsets that somebody deleted",
    "removals": "offsets that are gone, of which it cannot be told why",
    "rebalances": "completed rebalances",
    "bytes_per_s": "keys and values written to the offsets topic, a second",
    "complete": "whether nothing of that time was compacted away; otherwise there may be more",
    "hot": "whether it commits far more often than anybody needs; null where that cannot be told",
    # Leftovers.
    "kind": "unsubscribed, deleted topic or empty group",
    "since": "since when the group is unused, where that is known",
    "why": "the reason in words",
    # Everything else.
    "problem": "what could not be read, and why",
}
