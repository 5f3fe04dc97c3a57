"""Ask group coordinators about many groups at once, and ask again where one moved or is loading."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from toolkit.errors import ClusterUnreachable, ToolkitError
from toolkit.kafka_io.client.connection import Connection, TaggedRequest
from toolkit.kafka_io.client.error_codes import ErrorCode, is_worth_retrying, reason
from toolkit.model import Problem, Unread

Item = TypeVar("Item")
FEWEST_GROUPS, MOST_GROUPS = 25, 250  # in the first request to a coordinator, and in any
# In an answer: an array of a message has at most 1,000,000 since Kafka 4.4, and a coordinator does
# nothing else while it answers.
ELEMENTS_PER_ANSWER = 50_000
GROUPS_PER_LOOK_UP = 5000
RETRY_FOR_S = 10.0
RETRY_PAUSE_S = 0.2
GROUP_KEY_TYPE = 0


class GroupEntry(NamedTuple):
    """A coordinator, and the entry of its response about one group, without a group error."""

    coordinator_id: int
    entry: Any


class GroupEnded(NamedTuple):
    """A coordinator does not know the group, or not as a group of the requested type."""

    group_id: str


class Coordinator(NamedTuple):
    """Which broker coordinates a group, or the error by which that is not known."""

    group_id: str
    node_id: int
    error_code: int = ErrorCode.NONE
    error_message: str | None = None


class _Failure(NamedTuple):
    group_id: str
    why: str
    retry: bool
    code: int = ErrorCode.NONE
    is_silence: bool = False  # a time-out


def ask_coordinators(
    connection: Connection,
    group_ids: Iterable[str],
    *,
    what: Unread,
    build: Callable[[Sequence[str]], Any],
    size: Callable[[Any], int] = lambda _: 1,
) -> Iterator[GroupEntry | GroupEnded | Problem]:
    """
    Ask about groups and yield, for each, its entry, that it ended, or the problem in its place.

    `build` makes the request for some group ids; its response has `groups`, each entry with
    `group_id` and `error_code`. `what` is the subject of problems, and `size` counts the elements
    of an entry, by which the number of groups in a request is chosen. If a coordinator moved, is
    loading or does not answer, it is looked up again and asked for `RETRY_FOR_S`.
    """
    waiting = list(dict.fromkeys(group_ids))
    give_up_at: dict[str, float] = {}  # from a group's first failure: silence takes longer itself
    refresh = False
    while waiting:
        again = []
        for result in _ask_once(connection, waiting, build, size, refresh=refresh):
            now = time.monotonic()
            if isinstance(result, GroupEntry):
                yield result
                continue
            # The successor of a silent coordinator was elected before the silence was noticed.
            patience_s = 2 * RETRY_PAUSE_S if result.is_silence else RETRY_FOR_S
            if result.retry and now < give_up_at.setdefault(result.group_id, now + patience_s):
                again.append(result.group_id)
            elif result.code == ErrorCode.GROUP_ID_NOT_FOUND:
                yield GroupEnded(result.group_id)
            else:
                yield Problem(what, result.why, group_id=result.group_id)
        waiting, refresh = again, True
        time.sleep(RETRY_PAUSE_S if waiting else 0)


def _ask_once(
    connection: Connection,
    group_ids: Sequence[str],
    build: Callable[[Sequence[str]], Any],
    size: Callable[[Any], int],
    *,
    refresh: bool,
) -> Iterator[GroupEntry | _Failure]:
    """Yield exactly one result for each group, also where an answer leaves one out."""
    by_node: dict[int, list[str]] = defaultdict(list)
    owed = set(group_ids)
    for found in find_coordinators(connection, group_ids, refresh=refresh):
        owed.discard(found.group_id)
        if found.error_code == ErrorCode.NONE:
            by_node[found.node_id].append(found.group_id)
        else:
            yield _failure(found.group_id, found)
    yield from map(_left_out, owed)
    batches = {node_id: _AdaptiveBatches(ids) for node_id, ids in by_node.items()}
    asks = {
        node_id: (TaggedRequest(batch, build(batch)) for batch in of_node)
        for node_id, of_node in batches.items()
    }
    for node_id, chunk, response, _ in connection.send_each(asks):
        if isinstance(response, ToolkitError):
            worth = isinstance(response, ClusterUnreachable)
            is_silence = connection.is_silent(node_id)
            for group_id in chunk:
                yield _Failure(group_id, str(response), retry=worth, is_silence=is_silence)
            continue
        batches[node_id].learn(len(chunk), sum(map(size, response.groups)))
        owed = set(chunk)
        for entry in response.groups:
            if entry.group_id not in owed:
                continue
            owed.discard(entry.group_id)
            if entry.error_code == ErrorCode.NONE:
                yield GroupEntry(node_id, entry)
            else:
                yield _failure(entry.group_id, entry)
        yield from map(_left_out, owed)


class _AdaptiveBatches(Iterator[Sequence[str]]):
    """The groups of a coordinator, as many at a time as the answers so far allow."""

    def __init__(self, group_ids: Sequence[str]) -> None:
        self._group_ids, self._next, self._count = group_ids, 0, FEWEST_GROUPS

    def __next__(self) -> Sequence[str]:
        batch = self._group_ids[self._next : self._next + self._count]
        if not batch:
            raise StopIteration
        self._next += len(batch)
        return batch

    def learn(self, groups: int, elements: int) -> None:
        fitting = ELEMENTS_PER_ANSWER * groups // max(elements, 1)
        self._count = max(1, min(fitting, 2 * self._count, MOST_GROUPS))


def _failure(group_id: str, entry: Any) -> _Failure:
    why = reason(entry.error_code, "Describe", getattr(entry, "error_message", None))
    code = entry.error_code
    return _Failure(group_id, why, retry=is_worth_retrying(code), code=code)


def _left_out(group_id: str) -> _Failure:
    return _Failure(group_id, "missing in the broker's response", retry=True)


def find_coordinators(
    connection: Connection, group_ids: Sequence[str], *, refresh: bool = False
) -> list[Coordinator]:
    """
    Return the coordinator of each group; one that is known is looked up again only to `refresh` it.

    A group that the broker's response leaves out is left out here too.
    """
    known = {} if refresh else dict(connection.coordinators)  # others may forget one meanwhile
    found = [Coordinator(name, known[name]) for name in group_ids if name in known]
    unknown = [name for name in group_ids if name not in known]
    for chunk in in_chunks(unknown, GROUPS_PER_LOOK_UP):
        request = FindCoordinatorRequest(
            key_type=GROUP_KEY_TYPE, coordinator_keys=list(chunk), min_version=4
        )
        for one in connection.send(request).coordinators:
            found.append(Coordinator(one.key, one.node_id, one.error_code, one.error_message))
            if one.error_code == ErrorCode.NONE:
                connection.coordinators[one.key] = one.node_id
    return found


def in_chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield consecutive slices of at most `size` items (`itertools.batched` needs Python 3.12)."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
