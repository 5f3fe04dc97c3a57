"""
Send a member's requests to its group's coordinator, wherever that is now.

A broker answers the requests of one connection in order, and a join only when the whole group has
come together. So while a join waits, other requests go over another connection.
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


@dataclass(slots=True, eq=False)
class _OrderedConnection:
    """A connection, and the last request over it that waits for the whole group, if any."""

    connection: Connection
    waiting: Future[Any] | None = None

    @property
    def is_blocked(self) -> bool:
        return self.waiting is not None and not self.waiting.done()


@dataclass(frozen=True, slots=True)
class PendingAnswer(Generic[AnswerT]):
    """A request that was sent, what will be its response, and over which connection it went."""

    request: MemberRequest[AnswerT]
    response: Future[Any]
    sent_over: _OrderedConnection


class GroupChannel:
    """Connections of offsetbook's members to a group's coordinator, for a `with` statement."""

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
        self._open: list[_OrderedConnection] = []
        self._coordinator: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Close every connection; the next request opens new ones."""
        with ExitStack() as closing:
            for one in self._open:
                closing.callback(one.connection.close)
            self._open, self._coordinator = [], None

    def connect(self, count: int) -> None:
        """
        Open connections to the coordinator until `count` can be used at once.

        Where that fails, the next request finds it out, and looks the coordinator up again.
        """
        free = sum(not one.is_blocked for one in self._open)
        new = [self._connect() for _ in range(count - free)]
        with suppress(ClusterUnreachable):
            wait_for([self._send(DescribeClassic(), one) for one in new], self.check)

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
        Send a request over a connection that is not blocked, and do not wait for its answer yet.

        Or over that of a request that was sent ahead before, unless it is closed by now: a broker
        takes it up as soon as it has answered the one before.
        """
        is_open = after is not None and after.sent_over in self._open
        over = after.sent_over if after and is_open else self._unblocked()
        return PendingAnswer(request, self._send(request, over, LONGEST_WAIT_S), over)

    def wait_for(self, pending: PendingAnswer[AnswerT]) -> AnswerT:
        """
        Return the answer to a request that was sent ahead.

        It is sent again only if its connection is lost, the coordinator has moved, or a join is not
        answered though the rebalance has ended. Raises what `ask_together` raises.
        """
        if pending.sent_over not in self._open:  # it was closed: nothing more comes
            return self.ask(pending.request)
        try:
            wait_for([pending.response], self._while_waiting([pending.request]))
        except ClusterUnreachable:
            return self.ask(pending.request)
        answer = pending.request.read(pending.response.result())
        return self.ask(pending.request) if answer.error in ASK_AGAIN else answer

    def is_answered(self, pending: PendingAnswer[Any]) -> bool:
        """Return whether there is an answer, or none can come any more."""
        return pending.response.done() or pending.sent_over not in self._open

    def sleep(self, seconds: float) -> float:
        """Let time pass, and return `now`."""
        time.sleep(seconds)
        return self.now()

    def now(self) -> float:
        return clock()

    def _ask_once(self, requests: Sequence[MemberRequest[AnswerT]]) -> tuple[AnswerT, ...]:
        over = self._unblocked()
        if all(request.to_any for request in requests):
            responses = [over.connection.send(one.build(self.group_id)) for one in requests]
            return tuple(r.read(a) for r, a in zip(requests, responses, strict=True))
        timeout_s = LONGEST_WAIT_S if any(request.waits for request in requests) else None
        pending = [self._send(request, over, timeout_s) for request in requests]
        wait_for(pending, self._while_waiting(requests))
        return tuple(r.read(a.result()) for r, a in zip(requests, pending, strict=True))

    def _send(
        self,
        request: MemberRequest[MemberResponse],
        over: _OrderedConnection,
        timeout_s: float | None = None,
    ) -> Future[Any]:
        to, message = self._find(), request.build(self.group_id)
        response = over.connection.send_ahead(message, to=to, timeout_s=timeout_s)
        if request.waits:
            over.waiting = response
        return response

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

    def _unblocked(self) -> _OrderedConnection:
        """Return a connection over which no join waits, a new one if there is none."""
        return next((one for one in self._open if not one.is_blocked), None) or self._connect()

    def _connect(self) -> _OrderedConnection:
        new = _OrderedConnection(Connection(self._cluster, client_id=self._client_id))
        self._open.append(new)
        return new

    def _find(self) -> int:
        if self._coordinator is None:
            connection = self._unblocked().connection
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
