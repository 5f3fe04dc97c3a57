import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from secured import reader

from toolkit.errors import BrokerRefused, ClusterUnreachable, FleetFileError, ToolkitError
from toolkit.kafka_io.client import connection_diagnosis
from toolkit.kafka_io.client.client_settings import admin_settings, bootstrap_servers, bulk_settings
from toolkit.kafka_io.client.connection import Connection, TaggedRequest
from toolkit.kafka_io.client.error_codes import is_worth_retrying, reason
from toolkit.kafka_io.groups.group_times import GroupTimes, read_group_times
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster

# The client leaves a socket that could not connect to the garbage collector, which warns about it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PLAIN_SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": reader(),
}
FROM_VARIABLE = {"sasl.password": "${env:OFFSETBOOK_PASSWORD}"}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for what a listener says, however busy the machine is that it runs on."""
    monkeypatch.setattr(connection_diagnosis, "PROBE_TIMEOUT_S", 60)


@pytest.fixture(autouse=True)
def sockets_are_collected() -> Iterator[Any]:
    """Have the client's abandoned sockets collected here, not in the middle of another test."""
    yield
    gc.collect()


def refusal(servers: str, **settings: Any) -> Any:
    """Return the error of an attempt to connect, once it is sure that it is one clean line."""
    before = set(threading.enumerate())  # other connections may be open all the while
    with pytest.raises(ToolkitError) as caught, Connection(Cluster("eu", servers, settings)):
        pass
    assert "\n" not in str(caught.value)
    assert "cluster eu" in str(caught.value)
    assert caught.value.hint
    left = set(threading.enumerate()) - before
    assert not any(thread.name.startswith("kafka") for thread in left)
    return caught.value


@contextmanager
def listener(answer: Any) -> Iterator[Any]:
    """Listen on a port of its own and hand every connection to `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stopped = threading.Event()
        server.settimeout(0.1)

        def serve() -> None:
            while not stopped.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(60)
                    answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            stopped.set()
            thread.join()


def speak_http(connection: Any) -> None:
    """Answer as a web server does to what it does not understand."""
    connection.recv(100)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def hang_up(connection: Any) -> None:
    """Take what comes and say nothing."""
    connection.recv(100)


def test_nobody_listens() -> None:
    """A closed port is told from everything else, with the address that was tried."""
    server = "127.0.0.1:1"  # where nobody may listen but root, and nobody does

    error = refusal(server)

    assert type(error) is ClusterUnreachable
    assert f"at {server}: cannot connect" in error.problem


@pytest.mark.parametrize("answer", [speak_http, hang_up])
def test_not_kafka(answer: Any) -> None:
    """A server that is none of Kafka's is recognised as such, whether it answers or not."""
    with listener(answer) as server:
        error = refusal(server)

    assert type(error) is ClusterUnreachable
    assert "did not respond like a Kafka broker" in error.problem
    assert "check the port" in error.hint


def test_each_server_that_does_not_answer_is_named() -> None:
    """With several bootstrap servers the reason of each is told."""
    with listener(hang_up) as hung:
        error = refusal(f"127.0.0.1:1,{hung}")

    assert "127.0.0.1:1: cannot connect (Connection refused)" in error.problem
    assert f"{hung}: the port is open, but it did not respond like a Kafka broker" in error.problem
    assert "check the address" in error.hint
    assert "check the port" in error.hint


@pytest.mark.parametrize("number", range(3))
def test_one_server_that_answers_is_enough(number: int, bare_cluster: Cluster) -> None:
    """Of a list in which others are down or say nothing, wherever it is in the list."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = ["127.0.0.1:1", f"127.0.0.1:{silent.getsockname()[1]}"]
        servers.insert(number, bare_cluster.bootstrap_servers)
        with Connection(Cluster("eu", ",".join(servers))) as connection:
            assert connection.broker_ids


@pytest.mark.parametrize("server", ["no-such-host.invalid:9092", f"{'a' * 70}.invalid:9092"])
def test_unknown_host(server: str) -> None:
    """A host name that does not resolve, or could not even be asked for, is named."""
    error = refusal(server)

    assert type(error) is ClusterUnreachable
    assert f"unknown host name {server.removesuffix(':9092')!r}" in error.problem


@pytest.mark.parametrize(
    "servers",
    ["", "127.0.0.1", "127.0.0.1:", ":9092", "h:99999", "h:0", "h:1,", "http://h:1", "h:1 h:2"],
)
def test_not_an_address(servers: str) -> None:
    """What is not a host and a port is refused before anything is sent, and named."""
    error = refusal(servers)

    assert type(error) is FleetFileError
    assert "is not host:port" in error.problem


def test_addresses_of_every_kind() -> None:
    """Names, IPv4 and bracketed IPv6 addresses are taken apart, with blanks around them."""
    cluster = Cluster("eu", "broker-1.example:9093, 10.0.0.1:1 ,[::1]:65535")

    assert bootstrap_servers(cluster) == [
        ("broker-1.example", 9093),
        ("10.0.0.1", 1),
        ("::1", 65535),
    ]
    assert admin_settings(cluster)["bootstrap_servers"][2] == "[::1]:65535"


def test_tls_listener_spoken_to_in_plain_text(secured: Any) -> None:
    """A TLS listener is recognised, and the setting that is missing is named."""
    error = refusal(secured.tls.bootstrap_servers)

    assert type(error) is ClusterUnreachable
    assert "expects TLS" in error.problem
    assert "security.protocol" in error.hint


def test_plain_listener_spoken_to_with_tls(secured: Any) -> None:
    """A plain listener is recognised when TLS was expected."""
    error = refusal(secured.plain.bootstrap_servers, **{"security.protocol": "SSL"})

    assert type(error) is ClusterUnreachable
    assert "does not use TLS" in error.problem


def test_certificate_that_nobody_vouches_for(secured: Any) -> None:
    """An untrusted certificate is not accepted, and certificates are among what to check."""
    error = refusal(secured.tls.bootstrap_servers, **{"security.protocol": "SSL"})

    assert type(error) is ClusterUnreachable
    assert "certificates" in error.hint


def test_tls_with_its_certificate(secured: Any) -> None:
    """With the certificate named in the fleet file, TLS works for requests and bulk reading."""
    with Connection(secured.tls) as connection:
        assert connection.cluster_id
        assert read_group_times(connection, []) == (GroupTimes(), [])


def test_wrong_password(secured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused password is said to be one, without showing it."""
    monkeypatch.setenv("OFFSETBOOK_PASSWORD", "wr0ng-secret")
    error = refusal(secured.sasl.bootstrap_servers, **PLAIN_SASL, **FROM_VARIABLE)

    assert type(error) is BrokerRefused
    assert "authentication failed" in error.problem
    assert "Invalid username or password" in error.problem
    assert "sasl.password" in error.hint
    assert "wr0ng-secret" not in f"{error!r} {error.__cause__!r}"


def test_right_password(secured: Any) -> None:
    """A password from a file is used without the line end that editors add."""
    assert read_snapshot(secured.sasl, groups=["none"]).cluster_id


@pytest.mark.parametrize("reference", ["${env:OFFSETBOOK_NOT_SET}", "${file:/no/such/file}"])
def test_dangling_reference(reference: str) -> None:
    """A secret that is not where the fleet file says is named by its reference."""
    error = refusal("127.0.0.1:1", **PLAIN_SASL, **{"sasl.password": reference})

    assert type(error) is FleetFileError
    assert f"sasl.password refers to {reference}" in error.problem


def test_references_are_resolved_for_both_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both clients get the secret itself, and the record of the cluster keeps the reference."""
    monkeypatch.setenv("OFFSETBOOK_PASSWORD", "right")
    cluster = Cluster("eu", "one:1, two:2", {**PLAIN_SASL, **FROM_VARIABLE})

    assert admin_settings(cluster)["sasl_plain_password"] == "right"  # noqa: S105 - a test's
    assert admin_settings(cluster)["bootstrap_servers"] == ["one:1", "two:2"]
    assert bulk_settings(cluster)["sasl.password"] == "right"
    assert "right" not in repr(cluster)


def test_only_secrets_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user name or a client id does not carry a variable of this machine to a server."""
    monkeypatch.setenv("OFFSETBOOK_PASSWORD", "right")
    settings = {**PLAIN_SASL, **FROM_VARIABLE, "sasl.username": "${env:OFFSETBOOK_PASSWORD}"}
    cluster = Cluster("eu", "one:1", settings)

    assert admin_settings(cluster)["sasl_plain_username"] == "${env:OFFSETBOOK_PASSWORD}"
    assert bulk_settings(cluster)["sasl.username"] == "${env:OFFSETBOOK_PASSWORD}"


@pytest.mark.parametrize("protocol", ["SASL-SSL", "ssl", "TLS", ""])
def test_unknown_protocol_is_not_taken_for_plain_text(protocol: str) -> None:
    """A misspelt security.protocol is refused; the client would speak plain text instead."""
    error = refusal("127.0.0.1:1", **{"security.protocol": protocol})

    assert type(error) is FleetFileError
    assert "SASL_SSL" in error.hint


def test_mechanism_that_the_broker_does_not_offer(
    secured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SASL mechanism that is not enabled is a refused login as well."""
    monkeypatch.setenv("OFFSETBOOK_PASSWORD", "right")
    settings = {**PLAIN_SASL, **FROM_VARIABLE, "sasl.mechanism": "SCRAM-SHA-256"}
    error = refusal(secured.sasl.bootstrap_servers, **settings)

    assert type(error) is BrokerRefused
    assert "mechanism" in error.problem


def test_login_where_none_is_wanted(secured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener without SASL is recognised, or the setting to check is named."""
    monkeypatch.setenv("OFFSETBOOK_PASSWORD", "right")
    error = refusal(secured.plain.bootstrap_servers, **PLAIN_SASL, **FROM_VARIABLE)

    assert isinstance(error, BrokerRefused | ClusterUnreachable)
    assert "sasl.mechanism" in error.hint or "security.protocol" in error.hint


def test_literal_secret_is_refused_and_not_repeated() -> None:
    """A password that was given in place of a reference is not used, and not shown."""
    error = refusal("127.0.0.1:1", **PLAIN_SASL, **{"sasl.password": "hunter2"})

    assert type(error) is FleetFileError
    assert "hunter2" not in str(error)


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


def test_error_codes_in_words() -> None:
    """A code is told by its name and number, with the missing ACL or what the broker says."""
    missing = "the ACL Read on the group is missing (GROUP_AUTHORIZATION_FAILED, code 30)"
    assert missing == reason(30, "Read", "Not authorized.")
    assert "in its own words (" in reason(68, "Delete", "in its own words.")
    assert "code 31000" in reason(31000, "Read")
    assert is_worth_retrying(14)
    assert not is_worth_retrying(30)
