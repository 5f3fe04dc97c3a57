"""A broker that is stopped, not gone: its connections stay open, and nothing comes any more."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from applications import Applications
from brokers import TwoBrokers, until_ready
from kafka.protocol.admin import ListGroupsRequest
from processes import suspended
from secured import Secured, secured_at, start_secured

from toolkit.errors import BrokerRefused, ClusterUnreachable, ToolkitError
from toolkit.journeys.doctor.cluster_checks import check_cluster
from toolkit.kafka_io.client.connection import Connection, TaggedRequest
from toolkit.kafka_io.logs.bulk_records import read_records
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC, offsets_partitions
from toolkit.model import Cluster, TopicPartition
from toolkit.sandbox.jars import VERSION

pytestmark = [
    pytest.mark.faults("a broker is stopped"),
    pytest.mark.starts("a broker that the tests stop"),
]

LIMIT_S = 2.0
WATCHED_S = 120  # an answer that never comes fails the test, and does not hang the run
LISTENERS = ("plain", "tls", "sasl_ssl")


@pytest.fixture(scope="module")
def stoppable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Return a broker that no other test uses, with all listeners."""
    directory = tmp_path_factory.mktemp("stoppable") / "broker"
    start_secured(directory)
    found = secured_at(directory)
    yield found
    found.broker.stop()


@pytest.fixture(params=LISTENERS)
def cluster(request: pytest.FixtureRequest, stoppable: Secured) -> Cluster:
    """Return the broker behind each kind of listener, with a short limit."""
    found = {"plain": stoppable.plain, "tls": stoppable.tls, "sasl_ssl": stoppable.role("operator")}
    return replace(found[request.param], timeout_s=LIMIT_S)


def error_of(attempt: Callable[[], object]) -> ToolkitError:
    """Return the error with which an attempt ends; one that does not end fails the test."""
    with pytest.raises(ToolkitError) as caught:
        attempt()
    return caught.value


def test_stopped_before_connecting(cluster: Cluster, stoppable: Secured) -> None:
    """Connecting ends after the time limit, with an error that names it and its setting."""
    with suspended(stoppable.broker.pid):
        error = error_of(lambda: Connection(cluster))

    assert isinstance(error, ClusterUnreachable)
    assert "no answer" in error.problem
    assert "timeout in the fleet file" in error.hint


def test_stopped_in_the_middle(cluster: Cluster, stoppable: Secured) -> None:
    """Each request over an open connection ends after the limit, with the same error."""
    request = ListGroupsRequest()
    with Connection(cluster) as connection:
        node = connection.broker_ids[0]
        connection.send(request, to=node)
        with suspended(stoppable.broker.pid):
            alone = error_of(lambda: connection.send(request))
            together = error_of(lambda: connection.send_ahead(request, to=node).result())
            (answer,) = connection.send_each({node: [TaggedRequest("", request)]})

    assert [ClusterUnreachable] * 3 == [type(e) for e in (alone, together, answer.response)]
    assert "ListGroups on cluster secured: no answer within 2 s" in str(alone)


# The client leaves a socket of which the TLS handshake never ends to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
@pytest.mark.parametrize("in_the_middle", [False, True])
def test_stopped_while_records_are_read(
    cluster: Cluster,
    stoppable: Secured,
    applications: Callable[[Cluster], Applications],
    in_the_middle: bool,  # noqa: FBT001 -- a case of the test
) -> None:
    """So does reading many records, whether the broker stops before it or in the middle."""
    apps = applications(stoppable.plain)
    apps.commit(apps.name("group"), {TopicPartition(apps.create_topic(apps.name("t")), 0): 0})
    with Connection(stoppable.plain) as connection:
        logs = offsets_partitions(connection).logs
    number, start = next((n, log.log_start) for n, log in logs.items() if log.log_end)
    reading = read_records(
        cluster, TopicPartition(OFFSETS_TOPIC, number), range(start or 0, 1_000_000)
    )
    if in_the_middle:
        next(reading)
    with suspended(stoppable.broker.pid):
        error = error_of(lambda: list(reading))

    assert isinstance(error, BrokerRefused)
    assert f"reading __consumer_offsets partition {number} of cluster" in error.problem
    assert ("no data for 2 s" if in_the_middle else "within 2 s") in error.problem
    assert "Error" not in error.problem


def test_one_of_two_that_is_stopped_costs_its_own_rows(restarted_pair: TwoBrokers) -> None:
    """
    Any responding broker is asked; the stopped one is waited for once, not by each request.

    What was not sent to it after that is told from what may yet be answered.
    """
    cluster, second = restarted_pair
    request = ListGroupsRequest()
    with Connection(replace(cluster, timeout_s=LIMIT_S)) as connection, suspended(second.pid):
        three = [TaggedRequest(number, request) for number in range(3)]
        asks = dict.fromkeys(connection.broker_ids, three)
        found = {(one.node_id, one.about): one for one in connection.send_each(asks, at_once=2)}
        again = error_of(lambda: connection.send(request, to=2))
        anywhere = [connection.send(request).error_code for _ in range(4)]

    assert isinstance(found[2, 0].response, ClusterUnreachable), found[2, 0]
    assert "no answer within 2 s" in found[2, 0].response.problem
    assert [True, True, False] == [found[2, number].is_sent for number in range(3)]
    assert [0] * 3 == [found[1, number].response.error_code for number in range(3)]
    assert "no answer within 2 s" in again.problem
    assert again.__cause__
    assert () == again.__cause__.args  # the client has nothing to tell: it was not asked
    assert [0] * 4 == anywhere


def test_a_command_reports_it(stoppable: Secured) -> None:
    """A command at a stopped broker ends with the error, and nothing else on stderr."""
    program = Path(sys.executable).with_name("offsetbook")
    given = ("--bootstrap-server", stoppable.plain.bootstrap_servers, "--timeout", "1500", "--list")
    with suspended(stoppable.broker.pid):
        done = subprocess.run(
            [program, "consumer-groups", *given],
            capture_output=True,
            encoding="utf-8",
            timeout=WATCHED_S,
            check=False,
        )

    assert (1, "") == (done.returncode, done.stdout)
    assert 1 == len(done.stderr.splitlines())
    assert "within 1.5 s" in done.stderr


def test_doctor_names_the_broker_that_does_not_respond(restarted_pair: TwoBrokers) -> None:
    """A stopped broker is an error; the facts of the other broker are still reported."""
    cluster, second = restarted_pair
    until_ready(cluster.bootstrap_servers, brokers=2)
    with suspended(second.pid):
        rows = check_cluster(replace(cluster, timeout_s=LIMIT_S))
    found = {row.check: row for row in rows}

    assert "error" == found["connection"].status
    assert "2 brokers; no answer from 2: " in found["connection"].finding
    assert "no answer within 2 s" in found["connection"].finding
    assert f"Apache Kafka {VERSION.rpartition('.')[0]}" in found["broker version"].finding
    assert "ok" == found["permission: describe groups"].status
