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
from toolkit.model import Problem

Item = TypeVar("Item")
GROUPS_PER_REQUEST = 250
GROUPS_PER_LOOK_UP = 5000
RETRY_FOR_S = 10.0
RETRY_PAUSE_S = 0.2
GROUP_KEY_TYPE = 0


class GroupEntry(NamedTuple):
    """What a coordinator said about one group: the entry of its response, without a group error."""

    coordinator_id: int
    entry: Any


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


def ask_coordinators(
    connection: Connection,
    group_ids: Iterable[str],
    *,
    what: str,
    build: Callable[[Sequence[str]], Any],
) -> Iterator[GroupEntry | Problem]:
    """
    Ask about groups and yield, for each, its entry or the problem that took its place.

    `build` makes the request for some group ids; its response has `groups`, each entry with
    `group_id` and `error_code`. `what` names the question in problems ("committed offsets").
    A coordinator that moved or is loading is asked again for `RETRY_FOR_S`.
    """
    waiting = list(dict.fromkeys(group_ids))
    give_up_at = time.monotonic() + RETRY_FOR_S
    refresh = False
    while waiting:
        again = []
        for result in _ask_once(connection, waiting, build, refresh=refresh):
            if isinstance(result, GroupEntry):
                yield result
            elif result.retry and time.monotonic() < give_up_at:
                again.append(result.group_id)
            else:
                yield Problem(what, result.why, group_id=result.group_id)
        waiting, refresh = again, True
        time.sleep(RETRY_PAUSE_S if waiting else 0)


def _ask_once(
    connection: Connection,
    group_ids: Sequence[str],
    build: Callable[[Sequence[str]], Any],
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
    asks = {
        node_id: [
            TaggedRequest(chunk, build(chunk)) for chunk in in_chunks(ids, GROUPS_PER_REQUEST)
        ]
        for node_id, ids in by_node.items()
    }
    for node_id, chunk, response, _ in connection.send_each(asks):
        if isinstance(response, ToolkitError):
            worth = isinstance(response, ClusterUnreachable)
            yield from (_Failure(group_id, str(response), retry=worth) for group_id in chunk)
            continue
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


def _failure(group_id: str, entry: Any) -> _Failure:
    why = reason(entry.error_code, "Describe", getattr(entry, "error_message", None))
    return _Failure(group_id, why, retry=is_worth_retrying(entry.error_code))


def _left_out(group_id: str) -> _Failure:
    return _Failure(group_id, "missing in the broker's response", retry=True)


def find_coordinators(
    connection: Connection, group_ids: Sequence[str], *, refresh: bool = False
) -> list[Coordinator]:
    """
    Return the coordinator of each group; one that is known is looked up again only to `refresh` it.

    A group that the broker's response leaves out is left out here too.
    """
    known = {} if refresh else connection.coordinators
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
