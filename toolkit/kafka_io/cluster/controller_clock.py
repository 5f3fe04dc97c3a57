"""
The clock of a cluster, compared with the clock of this machine.

The leader of the metadata quorum reports the current time as its own `LastCaughtUpTimestamp`
(DescribeQuorum version 1, KIP-836). It does so between the request and the response, so the
difference is known to within the round trip. Other brokers do not report their time.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kafka.protocol.admin import DescribeQuorumRequest

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.error_codes import ErrorCode, reason

QUORUM_TOPIC = "__cluster_metadata"
MILLISECOND = timedelta(milliseconds=1)  # the unit in which the time is reported


class ClockDifference(NamedTuple):
    """How far a controller's clock is ahead of this machine's: `ahead` plus or minus `error`."""

    controller_id: int
    ahead: timedelta
    error: timedelta


def read_clock_difference(connection: Connection) -> ClockDifference:
    """
    Return the difference between the clocks of the active controller and of this machine.

    Raises ClusterUnreachable, and BrokerRefused where the cluster does not report it: without
    KRaft, and without the ACL Describe on Cluster.
    """
    topic_data = DescribeQuorumRequest.TopicData
    partition = topic_data.PartitionData(partition_index=0)
    request = DescribeQuorumRequest(
        topics=[topic_data(topic_name=QUORUM_TOPIC, partitions=[partition])], min_version=1
    )
    started, sent_at = time.monotonic(), datetime.now(UTC)
    response = connection.send(request)
    round_trip = timedelta(seconds=time.monotonic() - started)
    for quorum in (partition for topic in response.topics for partition in topic.partitions):
        if quorum.error_code != ErrorCode.NONE:
            raise BrokerRefused(f"DescribeQuorum: {reason(quorum.error_code, 'Describe')}")
        for voter in quorum.current_voters:
            if voter.replica_id == quorum.leader_id and voter.last_caught_up_timestamp > 0:
                controller_time = datetime.fromtimestamp(voter.last_caught_up_timestamp / 1000, UTC)
                return ClockDifference(
                    voter.replica_id,
                    controller_time - sent_at - round_trip / 2,
                    round_trip / 2 + MILLISECOND,
                )
    if response.error_code != ErrorCode.NONE:
        raise BrokerRefused(f"DescribeQuorum: {reason(response.error_code, 'Describe')}")
    raise BrokerRefused("DescribeQuorum: the controller does not report its time")
