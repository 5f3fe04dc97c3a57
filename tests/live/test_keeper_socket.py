"""A keeper is told things through a socket that only its user can open."""

import json
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.errors import HoldLost
from toolkit.live import keeper_socket
from toolkit.live.keeper_socket import KeeperReply, KeeperRequest, KeeperSocket, ask_keeper


@pytest.fixture
def control() -> Iterator[KeeperSocket]:
    """Return a keeper's end that answers whatever it is asked, until the test is over."""
    asked: list[str] = []

    def echo(request: KeeperRequest) -> KeeperReply:
        asked.append(request.do)
        return {"ok": True, "words": request.do}

    with KeeperSocket() as control:

        def serve() -> None:
            while "bye" not in asked:
                control.serve(echo, lambda _: None)

        server = threading.Thread(target=serve)
        server.start()
        yield control
        ask_keeper(str(control.path), {"do": "bye"})
        server.join()


def test_a_request_gets_its_response(control: KeeperSocket) -> None:
    """The valid request reaches the keeper, and its response the client."""
    assert {"ok": True, "words": "status"} == ask_keeper(str(control.path), {"do": "status"})


def test_only_its_user_can_open_the_socket(control: KeeperSocket) -> None:
    """The folder of the socket is closed to other users."""
    assert 0o700 == stat.S_IMODE(control.path.parent.stat().st_mode)


def test_invalid_requests_are_rejected(control: KeeperSocket) -> None:
    """A client that hangs up is forgotten, and the next one is served."""
    for nonsense in (b"hello\n", b""):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(control.path))
            connection.sendall(nonsense)
            connection.shutdown(socket.SHUT_WR)
            assert b"invalid request" in connection.recv(1000)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(control.path))
            connection.sendall(nonsense)

    assert ask_keeper(str(control.path), {"do": "status"})["ok"]


def test_a_socket_without_a_keeper_is_an_error() -> None:
    """Once the keeper has ended, its socket is gone."""
    with KeeperSocket() as control:
        path = control.path
    assert not path.parent.exists()

    with pytest.raises(HoldLost, match="does not respond"):
        ask_keeper(str(path), {"do": "status"})


def test_the_socket_of_a_killed_keeper_is_removed(tmp_path: Path) -> None:
    """The next keeper removes the socket and its folder, and nothing else there."""
    left, kept = tmp_path / "left", tmp_path / "kept"
    for folder in (left, kept):
        folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(left / "keeper"))
    (kept / "keeper").write_text("not a socket")

    for after in (left / "keeper", kept / "keeper", tmp_path / "missing"):
        with KeeperSocket(after=str(after)):
            pass

    assert [kept] == [*tmp_path.iterdir()]
    assert "not a socket" == (kept / "keeper").read_text("utf-8")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    st.binary()
    | JSON.map(lambda value: json.dumps(value).encode())
    | JSON.map(lambda value: json.dumps({"do": "add", "partitions": value}).encode())
    | st.just(b"[" * 200_000)
    | st.just(b'{"do": "add", "partitions": [["\\ud800", 0]]}')
    | st.just(b"1" * 5000)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_bytes_get_a_response(control: KeeperSocket, line: bytes) -> None:
    """A line is a valid request, or is rejected as invalid."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(control.path))
        connection.sendall(line.replace(b"\n", b" ") + b"\n")
        answer = json.loads(connection.makefile("rb").readline())

    assert answer["ok"] or answer["words"].startswith("invalid request")


def test_no_client_keeps_the_keeper_waiting(
    control: KeeperSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that send nothing, too slowly or too much, or do not read, are dropped."""
    monkeypatch.setattr(keeper_socket, "PATIENCE_S", 0.2)
    monkeypatch.setattr(keeper_socket, "LONGEST_LINE", 1000)
    with ExitStack() as open_connections:
        silent, dribbling, talking = (
            open_connections.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3)
        )
        for connection in (silent, dribbling, talking):
            connection.connect(str(control.path))
        with suppress(OSError):
            while True:  # a byte now and then until the keeper has hung up
                dribbling.sendall(b" ")
                time.sleep(0.01)
        with suppress(OSError):
            while True:
                talking.sendall(b"x" * 10_000)

        assert ask_keeper(str(control.path), {"do": "status"})["ok"]
