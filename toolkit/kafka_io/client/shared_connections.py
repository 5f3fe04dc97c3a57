"""
One open connection to each cluster, for questions and changes that follow one another.

Code that needs a cluster calls `with connected(cluster) as connection`. Inside `in_use` that is the
same connection each time, and each group's coordinator is looked up once; elsewhere it is a new
one, closed at the end of the block.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakSet

from toolkit.errors import ClusterUnreachable
from toolkit.model import Cluster

if TYPE_CHECKING:
    from toolkit.kafka_io.client.connection import Connection

Key = tuple[str, str, tuple[tuple[str, str], ...], float]

# Long enough for the cells of a notebook that runs headlessly. A notebook that is left open must
# not send requests for ever to a cluster that is down.
IDLE_S = 15.0


@dataclass(slots=True, eq=False)
class _OpenConnection:
    connection: Connection
    users: int = 0
    is_lost: bool = False
    closing: threading.Timer | None = None

    def take(self) -> None:
        self.users += 1
        if self.closing:
            self.closing.cancel()
            self.closing = None


class SharedConnections:
    """Connections that stay open for a while between calls; safe to use from several threads."""

    def __init__(self) -> None:
        self._open: dict[Key, _OpenConnection] = {}
        self._opening: dict[Key, threading.Lock] = {}
        self._lock = threading.Lock()
        _ALL.add(self)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let `connected` take these; inside another `in_use`, it keeps taking those of that."""
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
        settings = tuple(sorted(cluster.settings.items()))
        key = cluster.name, cluster.bootstrap_servers, settings, cluster.timeout_s
        found = self._take(key, cluster)
        try:
            yield found.connection
        except ClusterUnreachable:
            found.is_lost = True
            raise
        finally:
            self._give_back(key, found)

    def _take(self, key: Key, cluster: Cluster) -> _OpenConnection:
        # Imported late: it loads the Kafka client, which `--help` need not do.
        from toolkit.kafka_io.client.connection import Connection  # noqa: PLC0415

        with self._lock:
            opening = self._opening.setdefault(key, threading.Lock())
        with opening:  # do not wait for another cluster, which may not respond
            with self._lock:
                if found := self._open.get(key):
                    found.take()
                    return found
            found = _OpenConnection(Connection(cluster))
            with self._lock:
                found.take()
                self._open[key] = found
            return found

    def _give_back(self, key: Key, found: _OpenConnection) -> None:
        with self._lock:
            found.users -= 1
            if found.is_lost and self._open.get(key) is found:
                del self._open[key]  # the next caller gets a new one
            if found.users:
                return
            if self._open.get(key) is not found:
                found.connection.close()
                return
            found.closing = threading.Timer(IDLE_S, self._close_unused, (key, found))
            found.closing.daemon = True
            found.closing.start()

    def _close_unused(self, key: Key, found: _OpenConnection) -> None:
        with self._lock:
            if not found.users and self._open.get(key) is found:
                del self._open[key]
                found.connection.close()

    def close(self) -> None:
        """Close every connection that is not in use; later requests open new ones."""
        with self._lock:
            while self._open:
                _, found = self._open.popitem()
                if found.closing:
                    found.closing.cancel()
                if not found.users:  # else its last user closes it
                    found.connection.close()


_IN_USE: ContextVar[SharedConnections | None] = ContextVar("connections in use", default=None)
_ALL: WeakSet[SharedConnections] = WeakSet()


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


@atexit.register
def close_all() -> None:
    for connections in list(_ALL):
        connections.close()
