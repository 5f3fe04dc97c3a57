"""
Send a member's requests to its group's coordinator, wherever that is now.

A broker answers the requests of one connection in order, so a join, which it answers only when the
whole group has come together, goes over a connection of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Generic, Self

from toolkit.errors import BrokerRefused, ClusterUnreachable, ToolkitError
from toolkit.kafka_io.client.connection import Connection, wait_for
from toolkit.kafka_io.client.coordinators import find_coordinators
from toolkit.kafka_io.client.error_codes import ASK_AGAIN, ErrorCode, reason
from toolkit.kafka_io.membership.classic import ClassicFacts, DescribeClassic, Join
from toolkit.kafka_io.membership.request import AnswerT, MemberRequest, MemberResponse
from toolkit.model import HOLDER_CLIENT_ID, Cluster
from toolkit.model.names import shown_name

GIVE_UP_AFTER_S = 30.0
PAUSE_S = 0.2
# Members may take as long as their rebalance timeout to join, 5 minutes by default in Java.
LONGEST_WAIT_S = 600.0
LOOK_EVERY_S = 2.0
# Sessions and delays continue at the broker while this machine is suspended. On macOS both are one.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
REBALANCE_OVER = frozenset({"CompletingRebalance", "Stable"})


def clock() -> float:
    """Return a monotonic time in seconds that includes time in suspend."""
    return time.clock_gettime(CLOCK)


@dataclass(frozen=True, slots=True)
class PendingAnswer(Generic[AnswerT]):
    """A request that was sent, what will be its response, and over which connection it went."""

    request: MemberRequest[AnswerT]
    response: Future[Any]
    connection: Connection
    connections: ExitStack  # all that were open then


class GroupChannel:
    """A connection of offsetbook's members to a group's coordinator, for a `with` statement."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        *,
        client_id: str | None = HOLDER_CLIENT_ID,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Connect when first used, under a client id, or, with None, that of the cluster's settings.

        `check` is called while waiting, and what it raises ends it.
        """
        self.group_id = group_id
        self._client_id = client_id
        self.check = check
        self._cluster = cluster
        self._open = ExitStack()
        self._talk: Connection | None = None
        self._join: Connection | None = None
        self._coordinator: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Close every connection; the next request opens new ones."""
        self._open.close()
        self._open = ExitStack()
        self._talk = self._join = self._coordinator = None

    def ask(self, request: MemberRequest[AnswerT]) -> AnswerT:
        """Send a request and return its answer, as `request.read` gives it."""
        (answer,) = self.ask_together([request])
        return answer

    def ask_together(self, requests: Sequence[MemberRequest[AnswerT]]) -> tuple[AnswerT, ...]:
        """
        Send requests in one go and return their answers in order.

        A coordinator that moved, is loading or does not answer is looked up again for
        `GIVE_UP_AFTER_S`; then ClusterUnreachable or BrokerRefused is raised. All of them are sent
        again then: saying the same once more does no harm to any request of a member.
        """
        if not requests:
            return ()
        give_up_at = time.monotonic() + GIVE_UP_AFTER_S
        while True:
            late = time.monotonic() >= give_up_at
            try:
                answers = self._ask_once(requests)
                if late or not any(answer.error in ASK_AGAIN for answer in answers):
                    return answers
            except ClusterUnreachable:
                if late:
                    raise
                self.disconnect()
            self._coordinator = None
            self.check()
            time.sleep(PAUSE_S)

    def send_ahead(
        self, request: MemberRequest[AnswerT], *, after: PendingAnswer[Any] | None = None
    ) -> PendingAnswer[AnswerT]:
        """
        Send a request on a connection of its own, and do not wait for its answer yet.

        Or on that of a request that was sent ahead before, unless it is closed by now: a broker
        takes it up as soon as it has answered the one before.
        """
        is_open = after is not None and after.connections is self._open
        connection = after.connection if after and is_open else self._connect()
        to = self._find(connection)
        message = request.build(self.group_id)
        response = connection.send_ahead(message, to=to, timeout_s=LONGEST_WAIT_S)
        return PendingAnswer(request, response, connection, self._open)

    def wait_for(self, pending: PendingAnswer[AnswerT]) -> AnswerT:
        """
        Return the answer to a request that was sent ahead.

        It is sent again only if its connection is lost, the coordinator has moved, or a join is not
        answered though the rebalance has ended. Raises what `ask_together` raises.
        """
        if pending.connections is not self._open:  # they were closed: nothing more comes
            return self.ask(pending.request)
        try:
            wait_for([pending.response], self._while_waiting([pending.request]))
        except ClusterUnreachable:
            return self.ask(pending.request)
        answer = pending.request.read(pending.response.result())
        return self.ask(pending.request) if answer.error in ASK_AGAIN else answer

    def is_answered(self, pending: PendingAnswer[Any]) -> bool:
        """Return whether there is an answer, or none can come any more."""
        return pending.response.done() or pending.connections is not self._open

    def sleep(self, seconds: float) -> float:
        """Let time pass, and return `now`."""
        time.sleep(seconds)
        return self.now()

    def now(self) -> float:
        return clock()

    def _ask_once(self, requests: Sequence[MemberRequest[AnswerT]]) -> tuple[AnswerT, ...]:
        waits = any(request.waits for request in requests)
        connection = self._connection(waits=waits)
        messages = [request.build(self.group_id) for request in requests]
        if all(request.to_any for request in requests):
            responses = [connection.send(message) for message in messages]
            return tuple(r.read(a) for r, a in zip(requests, responses, strict=True))
        node_id = self._find(connection)
        timeout_s = LONGEST_WAIT_S if waits else None
        try:
            pending = [
                connection.send_ahead(message, to=node_id, timeout_s=timeout_s)
                for message in messages
            ]
            wait_for(pending, self._while_waiting(requests))
        except BaseException:
            if waits:  # a request left waiting would block the next one
                self.disconnect()
            raise
        return tuple(r.read(a.result()) for r, a in zip(requests, pending, strict=True))

    def _while_waiting(
        self, requests: Sequence[MemberRequest[MemberResponse]]
    ) -> Callable[[], None]:
        """Return what is called at intervals while responses are awaited."""
        if not any(isinstance(request, Join) for request in requests):
            return self.check
        unanswered = _UnansweredJoin(lambda: self._ask_once([DescribeClassic()])[0])

        def look() -> None:
            self.check()
            unanswered.look()

        return look

    def _connection(self, *, waits: bool) -> Connection:
        if waits:
            self._join = self._join or self._connect()
            return self._join
        self._talk = self._talk or self._connect()
        return self._talk

    def _connect(self) -> Connection:
        return self._open.enter_context(Connection(self._cluster, client_id=self._client_id))

    def _find(self, connection: Connection) -> int:
        if self._coordinator is None:
            (found,) = find_coordinators(connection, [self.group_id], refresh=True)
            if found.error_code != ErrorCode.NONE:
                kind = ClusterUnreachable if found.error_code in ASK_AGAIN else BrokerRefused
                why = reason(found.error_code, "Describe")
                raise kind(f"finding the coordinator of group {shown_name(self.group_id)}: {why}")
            self._coordinator = int(found.node_id)
        return self._coordinator


class _UnansweredJoin:
    """
    Looks at the group while the answer to a join is waited for: that answer may never come.

    Of two joins of one member a coordinator answers the one that arrives last. After a lost
    connection, or when another keeper continues for a killed one, that may be the older one, whose
    sender is gone. A coordinator answers every join when the rebalance ends. So a group that is not
    in one any more, in two looks, has no answer for a join that was sent before the first of them.
    """

    def __init__(self, describe: Callable[[], ClassicFacts]) -> None:
        """Begin when the join is sent; `describe` reads the group."""
        self._describe = describe
        self._look_at = time.monotonic() + LOOK_EVERY_S
        self._was_over = False

    def look(self) -> None:
        """Raise ClusterUnreachable if the join is to be sent again; unknown means not yet."""
        if time.monotonic() < self._look_at:
            return
        is_over = False
        with suppress(ToolkitError):
            is_over = self._describe().state in REBALANCE_OVER
        if is_over and self._was_over:
            raise ClusterUnreachable("the rebalance has ended, and a join was not answered")
        self._was_over = is_over
        self._look_at = time.monotonic() + LOOK_EVERY_S
