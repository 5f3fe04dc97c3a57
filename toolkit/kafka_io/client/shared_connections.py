"""
One open connection to each cluster, for questions and changes that follow one another.

Whoever needs a cluster says `with connected(cluster) as connection`. Inside `in_use` that is the
same connection each time, and each group's coordinator is looked up once; elsewhere it is a new
one, closed at the end of the block.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from toolkit.errors import ClusterUnreachable
from toolkit.model import Cluster

if TYPE_CHECKING:
    from toolkit.kafka_io.client.connection import Connection

Key = tuple[str, str, tuple[tuple[str, str], ...]]

# After this its brokers may have other addresses, so a new connection is opened.
KEPT_FOR_S = 60.0


@dataclass(slots=True)
class _OpenConnection:
    connection: Connection
    users: int = 0
    used_until: float = 0.0
    is_lost: bool = False

    @property
    def is_old(self) -> bool:
        return not self.users and time.monotonic() > self.used_until + KEPT_FOR_S


class SharedConnections:
    """Connections that stay open between calls; safe to use from several threads."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._kept: dict[Key, _OpenConnection] = {}
        self._lock = threading.Lock()
        # Closing takes locks, which a finalizer must not: the next use does it, or the exit.
        weakref.finalize(self, _ABANDONED.append, self._kept).atexit = False

    def __enter__(self) -> Self:
        """Be closed by the `with` that this begins."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every connection."""
        self.close()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let `connected` take these; inside another `in_use`, it keeps taking those of that."""
        _close_abandoned()
        if _IN_USE.get() is not None:
            yield
            return
        token = _IN_USE.set(self)
        try:
            yield
        finally:
            _IN_USE.reset(token)

    @contextmanager
    def to(self, cluster: Cluster) -> Iterator[Connection]:
        """Connect to a cluster, unless that is done; see `connected`."""
        key = cluster.name, cluster.bootstrap_servers, tuple(sorted(cluster.settings.items()))
        kept = self._take(key, cluster)
        try:
            yield kept.connection
        except ClusterUnreachable:
            kept.is_lost = True
            raise
        finally:
            self._give_back(key, kept)

    def _take(self, key: Key, cluster: Cluster) -> _OpenConnection:
        # Imported late: it loads the Kafka client, which `--help` need not do.
        from toolkit.kafka_io.client.connection import Connection  # noqa: PLC0415

        with self._lock:
            kept = self._kept.get(key)
            if kept and kept.is_old:
                self._kept.pop(key).connection.close()
                kept = None
            if kept is None:
                kept = self._kept[key] = _OpenConnection(Connection(cluster))
            kept.users += 1
            return kept

    def _give_back(self, key: Key, kept: _OpenConnection) -> None:
        with self._lock:
            kept.users -= 1
            kept.used_until = time.monotonic()
            if kept.is_lost and self._kept.get(key) is kept:
                del self._kept[key]
            if kept.is_lost and not kept.users:
                kept.connection.close()

    def close(self) -> None:
        """Close every connection; what is asked later opens new ones."""
        with self._lock:
            _close_all(self._kept)


_IN_USE: ContextVar[SharedConnections | None] = ContextVar("connections in use", default=None)
_ABANDONED: deque[dict[Key, _OpenConnection]] = deque()


@contextmanager
def connected(cluster: Cluster) -> Iterator[Connection]:
    """
    Connect to a cluster, over the connection that is in use if there is one.

    Raises what `Connection` raises. One over which the cluster could not be reached is not used
    again.
    """
    from toolkit.kafka_io.client.connection import Connection  # noqa: PLC0415 - as above

    shared = _IN_USE.get()
    with shared.to(cluster) if shared else Connection(cluster) as connection:
        yield connection


def _close_all(kept: dict[Key, _OpenConnection]) -> None:
    while kept:
        kept.popitem()[1].connection.close()


@atexit.register
def _close_abandoned() -> None:
    while _ABANDONED:
        _close_all(_ABANDONED.popleft())
