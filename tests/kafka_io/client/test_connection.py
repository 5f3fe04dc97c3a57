import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from secured import reader

from toolkit.errors import ClusterUnreachable, FleetFileError, ToolkitError
from toolkit.kafka_io.client.client_settings import admin_settings
from toolkit.kafka_io.client.connection import Connection, TaggedRequest
from toolkit.kafka_io.client.error_codes import is_worth_retrying, reason
from toolkit.kafka_io.groups.group_times import GroupTimes, read_group_times
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster

# The client leaves a socket that could not connect to the garbage collector, which warns about it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("sockets_are_collected"),
]

Refusal = Callable[[Cluster], ToolkitError]

CLOSED = "127.0.0.1:1"  # where nobody may listen but root, and nobody does
PLAIN_SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": reader(),
}
FROM_VARIABLE = {"sasl.password": "${env:OFFSETBOOK_PASSWORD}"}


@contextmanager
def listener(answer: Callable[[Any], None]) -> Iterator[str]:
    """Listen on a port of its own and hand every connection to `answer`."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            answer(self.request)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def speak_http(connection: Any) -> None:
    """Answer as a web server does to what it does not understand."""
    connection.recv(100)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def hang_up(connection: Any) -> None:
    """Take what comes and say nothing; what was not taken is refused by a reset."""
    connection.recv(100)
    connection.close()


@pytest.mark.parametrize("answer", [speak_http, hang_up])
def test_not_kafka(answer: Any, refusal: Refusal) -> None:
    """A server that is none of Kafka's is recognised as such, whether it answers or not."""
    with listener(answer) as server:
        error = refusal(at(server))

    assert type(error) is ClusterUnreachable
    assert "did not respond like a Kafka broker" in error.problem
    assert "check the port" in error.hint


def test_each_bootstrap_server_that_does_not_respond_is_named(refusal: Refusal) -> None:
    """The error has the reason of each."""
    with listener(hang_up) as hung:
        error = refusal(at(f"{CLOSED},{hung}"))

    assert "127.0.0.1:1: cannot connect (Connection refused)" in error.problem
    assert f"{hung}: the port is open, but it did not respond like a Kafka broker" in error.problem
    assert "check the address" in error.hint
    assert "check the port" in error.hint


@pytest.mark.parametrize("number", range(3))
def test_one_server_that_answers_is_enough(number: int, bare_cluster: Cluster) -> None:
    """Of a list in which others are down or say nothing, wherever it is in the list."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = [CLOSED, f"127.0.0.1:{silent.getsockname()[1]}"]
        servers.insert(number, bare_cluster.bootstrap_servers)
        with Connection(Cluster("eu", ",".join(servers))) as connection:
            assert connection.broker_ids


def at(servers: str, *, password: str | None = None) -> Cluster:
    login = {} if password is None else {**PLAIN_SASL, "sasl.password": password}
    return Cluster("eu", servers, login)


# tests/kafka_io/client/test_java_answers.py has more of them.
NOT_ADDRESSES = ["", "127.0.0.1", "h:1,", "h:1 h:2"]
LONG = "a" * 70
# The address and other settings, the type of error, words of the problem and words of the hint.
REFUSED: list[tuple[Cluster, type[ToolkitError], str, str]] = [
    (at(CLOSED), ClusterUnreachable, f"at {CLOSED}: cannot connect", ""),
    *[
        (at(f"{host}:9092"), ClusterUnreachable, f"unknown host name {host!r}", "")
        for host in ("no-such-host.invalid", f"{LONG}.invalid")
    ],
    *[(at(servers), FleetFileError, "is not host:port", "") for servers in NOT_ADDRESSES],
    *[
        (at(CLOSED, password=where), FleetFileError, f"sasl.password refers to {where}", "")
        for where in ("${env:OFFSETBOOK_NOT_SET}", "${file:/no/such/file}")
    ],
    (at(CLOSED, password="hunter2"), FleetFileError, "", ""),  # noqa: S106 - a test's
    # The client would speak plain text where the protocol is misspelt.
    *[
        (Cluster("eu", CLOSED, {"security.protocol": name}), FleetFileError, "", "SASL_SSL")
        for name in ("SASL-SSL", "ssl", "TLS", "")
    ],
]


@pytest.mark.parametrize(
    ("cluster", "kind", "problem", "hint"),
    REFUSED,
    ids=[" ".join([of.bootstrap_servers, *[*of.settings.values()][-1:]]) for of, *_ in REFUSED],
)
def test_clusters_that_cannot_be_reached(
    cluster: Cluster, kind: type[ToolkitError], problem: str, hint: str, refusal: Refusal
) -> None:
    """A closed port, an unknown host and a wrong setting are named; a secret is not shown."""
    error = refusal(cluster)

    assert kind is type(error)
    assert problem in error.problem
    assert hint in error.hint
    assert "hunter2" not in str(error)


def test_tls_and_passwords(secured: Any) -> None:
    """A certificate serves requests and bulk reading; a password has no line end of an editor."""
    with Connection(secured.tls) as connection:
        assert connection.cluster_id
        assert read_group_times(connection, []) == (GroupTimes(), [])
    assert read_snapshot(secured.sasl, groups=["none"]).cluster_id


def test_references_are_resolved_for_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the secret itself; the cluster's record, and what is no secret, keep the words."""
    reference = FROM_VARIABLE["sasl.password"]
    monkeypatch.setenv("OFFSETBOOK_PASSWORD", "right")
    settings = {**PLAIN_SASL, **FROM_VARIABLE, "sasl.username": reference}
    cluster = Cluster("eu", "one:1, two:2", settings)
    admin = admin_settings(cluster)

    assert ["one:1", "two:2"] == admin["bootstrap_servers"]
    assert (reference, "right") == (admin["sasl_plain_username"], admin["sasl_plain_password"])
    assert "right" not in repr(cluster)


def test_request_that_cannot_be_sent_is_answered(bare_cluster: Cluster) -> None:
    """A request that fails in an unforeseen way is answered with the error, not waited for."""
    asks = [
        TaggedRequest(name, DescribeGroupsRequest(groups=[name])) for name in ("a", "\ud800", "b")
    ]
    with Connection(bare_cluster) as connection:
        node = connection.broker_ids[0]
        list_groups(connection)  # from here on there is a connection to send on
        answers = {answer.about: answer.response for answer in connection.send_each({node: asks})}

    assert {"a", "\ud800", "b"} == answers.keys()
    assert ["a", "b"] == [answers[name].groups[0].group_id for name in ("a", "b")]
    assert isinstance(answers["\ud800"], ToolkitError)


def test_broker_that_is_not_there_is_a_problem(bare_cluster: Cluster) -> None:
    """Asking a broker that the cluster does not have gives an error in place of its answer."""
    with Connection(bare_cluster) as connection:
        (answer,) = connection.send_each({77: [TaggedRequest("groups", ListGroupsRequest())]})

    assert isinstance(answer.response, ClusterUnreachable)
    assert answer.response.problem.endswith(": no answer (UnknownBrokerIdError: 77)")


def test_error_codes_in_words() -> None:
    """A code is shown by name and number, with the missing ACL or the broker's message."""
    missing = "the ACL Read on the group is missing (GROUP_AUTHORIZATION_FAILED, code 30)"
    assert missing == reason(30, "Read", "Not authorized.")
    assert "in its own words (" in reason(68, "Delete", "in its own words.")
    assert "code 31000" in reason(31000, "Read")
    assert is_worth_retrying(14)
    assert not is_worth_retrying(30)
