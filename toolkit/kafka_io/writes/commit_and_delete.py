"""
The requests that change a group; `toolkit.operate` is the only caller.

A broker's response is not proof of a change: the caller reads it back. If the coordinator moved, is
loading or was too slow, the request is sent again; so it is to the successor of a coordinator that
does not answer. Any other error is a result. After silence, and after an error of
`MAY_TAKE_EFFECT`, only a success tells that nothing else comes of the request.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kafka.protocol.consumer import OffsetDeleteRequest

from toolkit.errors import BrokerRefused, ClusterUnreachable, ToolkitError
from toolkit.kafka_io.client.connection import Connection, TaggedRequest
from toolkit.kafka_io.client.coordinators import (
    RETRY_FOR_S,
    RETRY_PAUSE_S,
    Coordinator,
    find_coordinators,
)
from toolkit.kafka_io.client.error_codes import (
    ASK_AGAIN,
    MAY_TAKE_EFFECT,
    ErrorCode,
    is_worth_retrying,
    reason,
)
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.wire.messages import DeleteGroupsRequest
from toolkit.kafka_io.wire.offset_messages import CommitOfIdleGroup, CommittedOffsets
from toolkit.kafka_io.writes.transactional_commit import OffsetsTransaction
from toolkit.model import TopicPartition
from toolkit.model.names import shown_name
from toolkit.plan import Position

NOTHING = Position(0)  # in place of a position where only the size of a key matters
MARKER_PAUSE_S = 0.02
# A broker handles one request of a connection at a time; these keep it busy.
COMMITS_AT_ONCE = 16

# Repeating a request changes nothing where it was carried out already.
SEND_AGAIN = ASK_AGAIN | {ErrorCode.REQUEST_TIMED_OUT}
IN_DOUBT = "the request may still take effect"

# Errors that OffsetCommit repeats for every partition though they are about the group.
ABOUT_THE_GROUP = (
    ASK_AGAIN
    | MAY_TAKE_EFFECT
    | {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)

# A commit of many offsets becomes one batch of records, which must fit the offsets topic's limit of
# 1 MB by default; a record takes its names, its metadata and about 100 bytes.
BATCH_BYTES = 400_000
RECORD_BYTES = 100


class WriteResult(NamedTuple):
    """
    The response of a coordinator: the group's own error, and the errors of single partitions.

    `is_lost` is set where the request may still take effect: there was no response, or only one
    that does not exclude it.
    """

    error: str = ""
    partitions: Mapping[TopicPartition, str] = {}
    is_lost: bool = False


class GroupWriter:
    """Changes groups of one cluster, one request at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._in_doubt: set[str] = set()  # groups of which a request may still take effect

    def commit(self, group_id: str, positions: Mapping[TopicPartition, Position]) -> WriteResult:
        """Commit offsets without being a member, which brokers accept while the group is idle."""
        requests = (CommitOfIdleGroup(group_id, chunk) for chunk in _chunks(group_id, positions))
        return self._ask_each(group_id, requests, _commit_code, _commit_result)

    def commit_together(
        self, by_group: Mapping[str, Mapping[TopicPartition, Position]]
    ) -> dict[str, WriteResult | ToolkitError]:
        """
        Commit offsets of many groups as `commit` does, and return the responses.

        A group is left out if its coordinator was not looked up or nothing was sent to it, or if
        the request is to be repeated: use `commit` for it. After an error, the request may still
        take effect.
        """
        asks = defaultdict(list)
        for group_id, positions in by_group.items():
            node_id = self._connection.coordinators.get(group_id)
            parts = list(_chunks(group_id, positions))
            if node_id is not None and len(parts) == 1:
                request = CommitOfIdleGroup(group_id, parts[0])
                asks[node_id].append(TaggedRequest(group_id, request))
        results: dict[str, WriteResult | ToolkitError] = {}
        lost = {}
        for response in self._connection.send_each(asks, at_once=COMMITS_AT_ONCE):
            answer = response.response
            if isinstance(answer, ClusterUnreachable) and response.is_sent:
                lost[response.about] = response.node_id, answer
            elif isinstance(answer, ToolkitError):
                results |= {response.about: answer} if response.is_sent else {}
            elif self._noted(response.about, _commit_code(answer)) not in SEND_AGAIN:
                results[response.about] = self._judged(response.about, _commit_result(answer))
        for group_id, (node_id, error) in lost.items():
            self._in_doubt.add(group_id)
            with suppress(ToolkitError):
                if self._has_moved(group_id, node_id):
                    continue
            results[group_id] = error
        return results

    def move(self, group_id: str, positions: Mapping[TopicPartition, Position]) -> WriteResult:
        """Commit offsets of a live group in one transaction; see `transactional_commit`."""
        with OffsetsTransaction(self._connection, group_id) as transaction:
            for chunk in _chunks(group_id, positions):
                transaction.add(chunk)
            try:
                transaction.commit()
            except BrokerRefused as exc:
                result = WriteResult(str(exc))
                return _doubted(result) if transaction.is_in_doubt else result
        self.wait_for_the_end_of(group_id, positions, committed=True)
        return WriteResult()

    def wait_for_the_end_of(
        self, group_id: str, moved: Mapping[TopicPartition, Position], *, committed: bool = False
    ) -> None:
        """
        Wait until a transaction that was ended has reached the group, which takes its marker.

        What was `committed` for the first time is not pending until then: brokers leave it out.
        """
        give_up_at = time.monotonic() + RETRY_FOR_S
        while time.monotonic() < give_up_at:
            commits, _ = read_commits(self._connection, [group_id])
            pending = {TopicPartition(c.topic, c.partition) for c in commits if c.pending}
            known = {TopicPartition(c.topic, c.partition) for c in commits} - pending
            if known >= moved.keys() if committed else not pending & moved.keys():
                return
            time.sleep(MARKER_PAUSE_S)

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> WriteResult:
        """Delete committed offsets (KIP-496); the group may be live, its topics not subscribed."""
        chunks = _chunks(group_id, dict.fromkeys(partitions, NOTHING))
        requests = (_delete_request(group_id, chunk) for chunk in chunks)
        return self._ask_each(group_id, requests, lambda r: r.error_code, _offsets_deletion)

    def delete_group(self, group_id: str, committed: Iterable[TopicPartition] = ()) -> WriteResult:
        """
        Delete an idle group with everything it committed (KIP-229), `committed`.

        The coordinator writes a tombstone for each offset, all in one batch. Where they are too
        many for that, all but the last of the offsets are deleted before.
        """
        for chunk in list(_chunks(group_id, dict.fromkeys(committed, NOTHING)))[:-1]:
            answered = self.delete_offsets(group_id, chunk)
            if answered.error or answered.partitions:
                return answered
        request = DeleteGroupsRequest(groups_names=[group_id])
        return self._ask(group_id, request, lambda r: r.results[0].error_code, _deletion)

    def _ask_each(
        self,
        group_id: str,
        requests: Iterable[Any],
        code_of: Callable[[Any], int],
        result_of: Callable[[Any], WriteResult],
    ) -> WriteResult:
        """Send requests until one is refused as a whole, and return what became of all."""
        refused: dict[TopicPartition, str] = {}
        is_lost = False
        for request in requests:
            result = self._ask(group_id, request, code_of, result_of)
            refused |= result.partitions
            is_lost |= result.is_lost
            if result.error:
                return WriteResult(result.error, refused, is_lost=is_lost)
        return WriteResult("", refused, is_lost=is_lost)

    def _ask(
        self,
        group_id: str,
        request: Any,
        code_of: Callable[[Any], int],
        result_of: Callable[[Any], WriteResult],
    ) -> WriteResult:
        try:
            answer = self._answer(group_id, request, code_of)
            return self._judged(group_id, result_of(answer))
        except BrokerRefused as exc:
            return self._judged(group_id, WriteResult(str(exc)))

    def _answer(self, group_id: str, request: Any, code_of: Callable[[Any], int]) -> Any:
        """Ask the group's coordinator, and again for a while where it has moved or is loading."""
        give_up_at = time.monotonic() + RETRY_FOR_S
        while True:
            found = self._find(group_id)
            if found.error_code != ErrorCode.NONE:
                if time.monotonic() >= give_up_at or not is_worth_retrying(found.error_code):
                    why = reason(found.error_code, "Describe", found.error_message)
                    raise BrokerRefused(
                        f"changing group {shown_name(group_id)} of cluster "
                        f"{self._connection.cluster.name}: its coordinator was not found: {why}"
                    )
            else:
                try:
                    answer = self._connection.send(request, to=found.node_id)
                except ClusterUnreachable:
                    self._in_doubt.add(group_id)
                    if not self._has_moved(group_id, found.node_id):
                        raise
                    continue
                code = self._noted(group_id, code_of(answer))
                if code not in SEND_AGAIN or time.monotonic() >= give_up_at:
                    return answer
            self._connection.coordinators.pop(group_id, None)
            time.sleep(RETRY_PAUSE_S)

    def _find(self, group_id: str) -> Coordinator:
        left_out = Coordinator(group_id, -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return next(iter(find_coordinators(self._connection, [group_id])), left_out)

    def _noted(self, group_id: str, code: int) -> int:
        """Return the code of an answer, after noting whether the request may still take effect."""
        if code in MAY_TAKE_EFFECT:
            self._in_doubt.add(group_id)
        return code

    def _judged(self, group_id: str, result: WriteResult) -> WriteResult:
        """Return the result of a request, with the doubt that earlier attempts have left."""
        if not result.error and not result.partitions:
            self._in_doubt.discard(group_id)
        return _doubted(result) if group_id in self._in_doubt else result

    def _has_moved(self, group_id: str, node_id: int) -> bool:
        """Look for a group's coordinator again, and return whether it is another one now."""
        coordinators = self._connection.coordinators
        coordinators.pop(group_id, None)
        find_coordinators(self._connection, [group_id])
        return coordinators.get(group_id, node_id) != node_id


def _doubted(result: WriteResult) -> WriteResult:
    error = result.error and f"{result.error}; {IN_DOUBT}"
    return WriteResult(error, result.partitions, is_lost=True)


def _commit_result(answer: CommittedOffsets) -> WriteResult:
    if answer.is_accepted:
        return WriteResult()
    codes = answer.codes
    group_codes = set(codes.values()) & ABOUT_THE_GROUP
    if group_codes and len(set(codes.values())) == 1:
        return WriteResult(_commit_reason(group_codes.pop()))
    refused = {key: reason(code, "Read") for key, code in codes.items() if code != ErrorCode.NONE}
    return WriteResult("", refused)


def _commit_reason(code: int) -> str:
    words = reason(code, "Read")
    return (
        f"the group has members, and only they can commit: {words}"
        if code == ErrorCode.UNKNOWN_MEMBER_ID
        else words
    )


def _commit_code(answer: CommittedOffsets) -> int:
    """Return the coordinator's own error, if any; a broker refuses some partitions before it."""
    codes = {code for topic in answer.topics for code in topic.error_codes}
    return next(iter(codes & ABOUT_THE_GROUP or codes - {ErrorCode.NONE}), ErrorCode.NONE)


def _offsets_deletion(answer: Any) -> WriteResult:
    if answer.error_code != ErrorCode.NONE:
        return WriteResult(reason(answer.error_code, "Delete"))
    codes = {
        TopicPartition(topic.name, found.partition_index): found.error_code
        for topic in answer.topics
        for found in topic.partitions
    }
    refused = {key: reason(code, "Read") for key, code in codes.items() if code != ErrorCode.NONE}
    return WriteResult("", refused)


def _deletion(answer: Any) -> WriteResult:
    (result,) = answer.results
    if result.error_code == ErrorCode.NONE:
        return WriteResult()
    return WriteResult(reason(result.error_code, "Delete", result.error_message))


def _chunks(
    group_id: str, positions: Mapping[TopicPartition, Position]
) -> Iterator[dict[TopicPartition, Position]]:
    """Yield positions in parts that each fit a batch of the offsets topic."""
    chunk: dict[TopicPartition, Position] = {}
    size = 0
    for partition, position in positions.items():
        names = f"{group_id}{partition.topic}{position.metadata}"
        needed = RECORD_BYTES + len(names.encode("utf-8", "surrogatepass"))
        if chunk and size + needed > BATCH_BYTES:
            yield chunk
            chunk, size = {}, 0
        chunk[partition] = position
        size += needed
    if chunk:
        yield chunk


def _delete_request(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        by_topic[topic].append(number)
    topic_type = OffsetDeleteRequest.OffsetDeleteRequestTopic
    topics = [
        topic_type(
            name=topic,
            partitions=[
                topic_type.OffsetDeleteRequestPartition(partition_index=number)
                for number in numbers
            ],
        )
        for topic, numbers in by_topic.items()
    ]
    return OffsetDeleteRequest(group_id=group_id, topics=topics)
