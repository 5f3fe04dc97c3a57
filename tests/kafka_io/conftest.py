"""What a cluster's users do to it: topics, records, members and commits that are not ours."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewTopic

from toolkit.kafka_io.connect import Connection
from toolkit.model import Cluster, TopicPartition
from toolkit.sandbox.broker import VERSION, Broker, start_broker

PATIENCE_S = 60


def eventually(condition: Callable[[], Any]) -> Any:
    """Return what `condition` returns once it is true; brokers do most things a little later."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < give_up_at, f"still not so after {PATIENCE_S} s"
        time.sleep(0.05)
    return found


class Applications:
    """The applications on one cluster; members leave their groups when the test is over."""

    def __init__(self, cluster: Cluster, name: Callable[[str], str], ending: ExitStack) -> None:
        """Act on `cluster`; `name` makes new names, what has to be closed is put on `ending`."""
        self.cluster = cluster
        self.name = name
        self.address = cluster.bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": self.address})
        self.eventually = eventually
        self._ending = ending
        self._producer = Producer({"bootstrap.servers": self.address})

    def create_topic(
        self, name: str, *, partitions: int = 1, records: int = 0, broker: int = 1
    ) -> str:
        """Create a topic on a broker with `records` in every partition, and return its name."""
        # Old records are not expected to expire, whatever the clock says.
        config = {"retention.ms": "-1"}
        assignment = [[broker]] * partitions
        topic = NewTopic(name, partitions, replica_assignment=assignment, config=config)
        self.admin.create_topics([topic])[name].result(PATIENCE_S)
        eventually(lambda: name in self.admin.list_topics(timeout=10).topics)
        for partition in range(partitions):
            self.produce(name, partition, records)
        return name

    def produce(self, topic: str, partition: int, records: int) -> None:
        """Add records to a partition."""
        for number in range(records):
            self._producer.produce(topic, str(number).encode(), partition=partition)
        assert self._producer.flush(PATIENCE_S) == 0

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until nobody is told of it any more."""
        self.admin.delete_topics([name])[name].result(PATIENCE_S)
        eventually(lambda: name not in self.admin.list_topics(timeout=10).topics)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Cut the log of a partition."""
        self.admin.delete_records([Position(topic, partition, before)])[
            Position(topic, partition)
        ].result(PATIENCE_S)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """Commit for a group without members, as an admin client does."""
        positions = [Position(*key, offset, metadata) for key, offset in offsets.items()]

        def is_done() -> bool:
            # The coordinator of a broker's first group loads its partition for a moment.
            request = [ConsumerGroupTopicPartitions(group, positions)]
            answer = self.admin.alter_consumer_group_offsets(request)[group].result(PATIENCE_S)
            return not any(position.error for position in answer.topic_partitions)

        eventually(is_done)

    @staticmethod
    def position(partition: TopicPartition, offset: int) -> Position:
        """Return an offset in the client's own terms."""
        return Position(*partition, offset)

    def join(
        self, group: str, topics: Sequence[str], *, protocol: str = "classic", **settings: Any
    ) -> Consumer:
        """Be a member of a group, and return it once it has been assigned something."""
        consumer = self.consumer(group, **{"group.protocol": protocol}, **settings)
        consumer.subscribe(list(topics))
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment())
        return consumer

    def consumer(self, group: str, **settings: Any) -> Consumer:
        """Return a consumer that commits only when it is told to, and reads new records only."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": group,
                "client.id": f"{group}-client",
                "enable.auto.commit": False,
                **settings,
            }
        )
        self._ending.callback(consumer.close)
        return consumer

    def transaction(self, name: str) -> Producer:
        """Return a producer with a transaction begun; the test ends it."""
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": name})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        return producer


@pytest.fixture(name="eventually")
def _eventually() -> Callable[[Callable[[], Any]], Any]:
    """Return the function that waits for a condition."""
    return eventually


@pytest.fixture(scope="session")
def applications_until(
    unique_name: Callable[[str], str],
) -> Callable[[Cluster, ExitStack], Applications]:
    """Return a function that makes the applications on a cluster, until a stack is closed."""
    return lambda cluster, ending: Applications(cluster, unique_name, ending)


@pytest.fixture
def applications(
    applications_until: Callable[[Cluster, ExitStack], Applications],
) -> Iterator[Callable[[Cluster], Applications]]:
    """Return a function that makes the applications on a cluster, until the test is over."""
    with ExitStack() as ending:
        yield lambda cluster: applications_until(cluster, ending)


@pytest.fixture
def apps(applications: Callable[[Cluster], Applications], bare_cluster: Cluster) -> Applications:
    """Return the applications on the quiet cluster."""
    return applications(bare_cluster)


class Secured(NamedTuple):
    """One broker behind three listeners."""

    plain: Cluster  # may do everything
    sasl: Cluster  # user "reader", who may do what no ACL denies
    tls: Cluster  # may do everything


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Return a broker with an authorizer and listeners for plain text, passwords and TLS."""
    directory = tmp_path_factory.mktemp("secured")
    certificate = _self_signed(directory)
    plain, controller, sasl, tls = _free_ports(4)
    _remember_ports(directory, plain, controller)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    broker = start_broker(
        directory,
        properties={
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},"
            f"PASSWORD://127.0.0.1:{sasl},TLS://127.0.0.1:{tls}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "PASSWORD:SASL_PLAINTEXT,TLS:SSL",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.password.plain.sasl.jaas.config": f'{login} user_reader="right";',
            "listener.name.tls.ssl.keystore.type": "PEM",
            "listener.name.tls.ssl.keystore.location": str(certificate),
        },
    )
    try:
        password = directory / "password"
        password.write_text("right\n")
        yield Secured(
            Cluster("secured", broker.address),
            Cluster(
                "secured",
                f"127.0.0.1:{sasl}",
                {
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": "reader",
                    "sasl.password": f"${{file:{password}}}",
                },
            ),
            Cluster(
                "secured",
                f"127.0.0.1:{tls}",
                {"security.protocol": "SSL", "ssl.ca.location": str(directory / "certificate.pem")},
            ),
        )
    finally:
        broker.stop()


@pytest.fixture
def two_brokers(tmp_path: Path) -> Iterator[tuple[Cluster, Broker]]:
    """Return a cluster of two brokers, and the second one, which may be stopped."""
    one, two = tmp_path / "one", tmp_path / "two"
    first = start_broker(one)
    second = None
    try:
        with Connection(Cluster("two", first.address)) as connection:
            cluster_id = connection.cluster_id
        # Data that is formatted already: the second broker joins the first one's cluster.
        (two / "data").mkdir(parents=True)
        (two / "data" / "meta.properties").write_text(
            f"version=1\ncluster.id={cluster_id}\nnode.id=2\n"
        )
        port, unused = _free_ports(2)
        _remember_ports(two, port, unused)
        second = start_broker(
            two,
            properties={
                "process.roles": "broker",
                "node.id": "2",
                "controller.quorum.voters": f"1@127.0.0.1:{first.controller_port}",
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            },
        )
        yield Cluster("two", first.address), second
    finally:
        if second:
            second.stop()
        first.stop()


def _self_signed(directory: Path) -> Path:
    """Return a file with a new key and its certificate for 127.0.0.1."""
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("no openssl command to make a certificate with")
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    subject = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *made],
        check=True,
        capture_output=True,
    )
    both = directory / "keystore.pem"
    both.write_text(key.read_text() + certificate.read_text())
    return both


def _remember_ports(directory: Path, port: int, controller_port: int) -> None:
    """Have a broker take these ports: it keeps those of its last start, which never was."""
    known = {"version": VERSION, "port": port, "controller_port": controller_port}
    (directory / "broker.json").write_text(json.dumps(known))


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]
