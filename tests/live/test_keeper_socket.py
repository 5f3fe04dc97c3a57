"""A keeper is told things through a socket that only its user can open."""

from __future__ import annotations

import socket
import stat
import threading
from collections.abc import Iterator

import pytest

from toolkit.errors import HoldLost
from toolkit.live.keeper_socket import KeeperReply, KeeperRequest, KeeperSocket, ask_keeper


@pytest.fixture
def control() -> Iterator[KeeperSocket]:
    """Return a keeper's end that answers whatever it is asked, until the test is over."""
    asked: list[str] = []

    def echo(request: KeeperRequest) -> KeeperReply:
        asked.append(request["do"])
        return {"ok": True, "words": request["do"]}

    with KeeperSocket() as control:

        def serve() -> None:
            while "bye" not in asked:
                control.serve(echo)

        server = threading.Thread(target=serve)
        server.start()
        yield control
        ask_keeper(str(control.path), {"do": "bye"})
        server.join()


def test_what_is_asked_is_answered(control: KeeperSocket) -> None:
    """A request gets its answer."""
    assert {"ok": True, "words": "status"} == ask_keeper(str(control.path), {"do": "status"})


def test_only_its_user_can_open_the_socket(control: KeeperSocket) -> None:
    """The folder that the socket is in lets nobody else in."""
    assert 0o700 == stat.S_IMODE(control.path.parent.stat().st_mode)


def test_nonsense_is_refused_and_does_no_harm(control: KeeperSocket) -> None:
    """Whoever talks nonsense is told so, who hangs up is forgotten, and the next one is heard."""
    for nonsense in (b"hello\n", b""):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(control.path))
            connection.sendall(nonsense)
            connection.shutdown(socket.SHUT_WR)
            assert b"invalid request" in connection.recv(1000)

    assert ask_keeper(str(control.path), {"do": "status"})["ok"]


def test_nobody_at_the_socket_is_said() -> None:
    """Once the keeper is gone, so is its socket, and asking it is an error that says so."""
    with KeeperSocket() as control:
        path = control.path
    assert not path.parent.exists()

    with pytest.raises(HoldLost, match="does not respond"):
        ask_keeper(str(path), {"do": "status"})
