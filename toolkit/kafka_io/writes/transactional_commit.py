"""
Commit offsets for a live group atomically, in a transaction.

A coordinator takes offsets without a member id inside a transaction also while the group has
members, which it refuses outside of one (error 25). While the transaction is open, members that
load their positions wait (error 88); if its producer is gone, it times out and nothing has
happened. `toolkit.operate` is the only caller.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Self

from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.coordinators import RETRY_FOR_S, RETRY_PAUSE_S, find_coordinators
from toolkit.kafka_io.client.error_codes import (
    MAY_TAKE_EFFECT,
    ErrorCode,
    is_worth_retrying,
    reason,
)
from toolkit.model import TopicPartition
from toolkit.model.names import shown_name
from toolkit.plan import Position

TRANSACTION_KEY = 1
# Then the broker aborts an open transaction; until then members that load offsets wait for it.
TIMEOUT_MS = 30_000
NO_PRODUCER = -1
NO_KNOWN_EPOCH = -1
# Later versions need transaction.version 2, which brokers before 4.0 do not have.
ADD_VERSION = COMMIT_VERSION = END_VERSION = 4
MEMBER_VERSION = 3  # of TxnOffsetCommit: before, every commit was without a member


class OffsetsTransaction:
    """
    A transaction that commits offsets of one group; leaving the `with` block early aborts it.

    Opening one aborts what an earlier one for the same group left open. Raises BrokerRefused, for
    instance where the right to write to the transactional id is missing, and ClusterUnreachable.
    """

    def __init__(self, connection: Connection, group_id: str) -> None:
        """Prepare a transaction; `transactional_id` is the resource to which a right is needed."""
        self.transactional_id = f"offsetbook-move-{group_id}"
        self._connection = connection
        self._group_id = group_id
        self._producer = (NO_PRODUCER, NO_PRODUCER)
        self._is_open = False
        self.is_in_doubt = False  # whether the last request may take effect though it was refused

    def __enter__(self) -> Self:
        answer = self._ask_transactions(
            InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS
            )
        )
        self._producer = (answer.producer_id, answer.producer_epoch)
        self._ask_transactions(
            AddOffsetsToTxnRequest(
                **self._signed(), group_id=self._group_id, max_version=ADD_VERSION
            )
        )
        self._is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        """Abort the transaction if it was not committed."""
        if self._is_open:
            self._end(committed=False)

    def add(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Add offsets; those that were added before are added again, newer in the log."""

        def code_of(answer: Any) -> int:
            codes = {p.error_code for topic in answer.topics for p in topic.partitions}
            return max(codes - {ErrorCode.NONE}, default=ErrorCode.NONE)

        request = TxnOffsetCommitRequest(
            **self._signed(),
            group_id=self._group_id,
            topics=_topics(positions),
            min_version=MEMBER_VERSION,
            max_version=COMMIT_VERSION,
        )
        self._ask(request, self._find_group, code_of)

    def commit(self) -> None:
        """Commit it; from then on the offsets are what members load."""
        self._end(committed=True)

    def _end(self, *, committed: bool) -> None:
        self._is_open = False
        request = EndTxnRequest(**self._signed(), committed=committed, max_version=END_VERSION)
        self._ask_transactions(request)

    def _signed(self) -> dict[str, Any]:
        producer_id, epoch = self._producer
        return {
            "transactional_id": self.transactional_id,
            "producer_id": producer_id,
            "producer_epoch": epoch,
        }

    def _ask_transactions(self, request: Any) -> Any:
        return self._ask(request, self._find_transactions, lambda answer: int(answer.error_code))

    def _ask(self, request: Any, find: Callable[[], Any], code_of: Callable[[Any], int]) -> Any:
        """Ask a coordinator, and again for a while where it is not there or not ready yet."""
        give_up_at = time.monotonic() + RETRY_FOR_S
        self.is_in_doubt = False
        while True:
            found = find()
            code = found.error_code
            if code == ErrorCode.NONE:
                answer = self._connection.send(request, to=found.node_id)
                code = code_of(answer)
                self.is_in_doubt |= code in MAY_TAKE_EFFECT
                if code == ErrorCode.NONE:
                    return answer
            if not is_worth_retrying(code) or time.monotonic() > give_up_at:
                raise BrokerRefused(
                    f"{type(request).__name__.removesuffix('Request')} for group "
                    f"{shown_name(self._group_id)} "
                    f"with transactional id {self.transactional_id}: {reason(code, 'Read')}"
                )
            time.sleep(RETRY_PAUSE_S)

    def _find_group(self) -> Any:
        (found,) = find_coordinators(self._connection, [self._group_id], refresh=True)
        return found

    def _find_transactions(self) -> Any:
        request = FindCoordinatorRequest(
            key_type=TRANSACTION_KEY, coordinator_keys=[self.transactional_id], min_version=4
        )
        (found,) = self._connection.send(request).coordinators
        return found


def _topics(positions: Mapping[TopicPartition, Position]) -> list[Any]:
    topic_type = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for (topic, number), position in positions.items():
        epoch = NO_KNOWN_EPOCH if position.leader_epoch is None else position.leader_epoch
        by_topic[topic].append(
            topic_type.TxnOffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=position.offset,
                committed_leader_epoch=epoch,
                committed_metadata=position.metadata,
            )
        )
    return [topic_type(name=topic, partitions=rows) for topic, rows in by_topic.items()]
