"""
One real broker, and how much it was asked: requests, bytes and connections, by its own metrics.

They are read over JMX with the tool that comes with Kafka. The broker is an ordinary one; `jcmd` of
the JDK makes it listen for that tool, on loopback and with a password.
"""

from __future__ import annotations

import operator
import os
import re
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import psutil

from toolkit.sandbox.broker import Broker, free_ports, reserve_ports, start_broker
from toolkit.sandbox.jars import VERSION, kafka_command
from toolkit.spark.java import find_java

HOST = "127.0.0.1"
REQUESTS = "kafka.network:type=RequestMetrics,name=RequestsPerSec,*"
CONNECTIONS = "kafka.server:type=socket-server-metrics,*"
# What a server receives is a "response" in the terms of Kafka's clients, whose code counts it.
COUNTED = ("response-total", "incoming-byte-total", "outgoing-byte-total")
COUNTED += ("connection-creation-total",)
# Counted a second time, under a name that says what it is for; and what brokers say to controllers.
OTHER_NAMES = {"FetchConsumer", "FetchFollower", "BrokerHeartbeat"}
# Passed on to the controller, which is in the same process and counts it again.
COUNTED_TWICE = {"DescribeQuorum"}

# Kafka's own, where a broker for tests has shorter ones.
DEFAULTS = {
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.initial.rebalance.delay.ms": "3000",
}


class Traffic(NamedTuple):
    """What went through one listener."""

    requests: int
    bytes_in: int
    bytes_out: int
    connections: int


class Totals(NamedTuple):
    """What a broker has counted since its start, or between two readings."""

    by_api: Counter[str]
    traffic: dict[str, Traffic]
    cpu_s: float  # of the whole process, when the reading began
    read_cpu_s: float = 0  # of reading itself

    def since(self, before: Totals) -> Totals:
        """Return what has been counted since another reading."""
        traffic = {
            name: Traffic(*map(operator.sub, now, before.traffic[name]))
            for name, now in self.traffic.items()
        }
        cpu_s = self.cpu_s - before.cpu_s - before.read_cpu_s
        return Totals(self.by_api - before.by_api, traffic, cpu_s)


class MeasuredBroker:
    """A broker with a listener for applications, and another one for what is measured."""

    applications, measured = "PLAINTEXT", "MEASURED"

    def __init__(self, broker: Broker, port: int, jmx_port: int) -> None:
        """Make a running broker tell its metrics at a port."""
        self.broker = broker
        self.address = broker.address
        self.measured_address = f"{HOST}:{port}"
        self._process = psutil.Process(broker.pid)
        self._url = f"service:jmx:rmi:///jndi/rmi://{HOST}:{jmx_port}/jmxrmi"
        # A role that may only read; the JDK's own access file has it.
        self._password = f"monitorRole={secrets.token_hex(16)}"
        passwords = broker.directory / "jmx.password"
        passwords.touch(0o600)
        passwords.write_text(self._password.replace("=", " "), "ascii")
        settings = {
            "port": jmx_port,
            "rmi.port": jmx_port,
            "host": HOST,
            "ssl": "false",
            "authenticate": "true",
            "password.file": passwords,
        }
        words = [f"jmxremote.{name}={value}" for name, value in settings.items()]
        _run([str(_jcmd()), str(broker.pid), "ManagementAgent.start", *words])

    def read(self) -> Totals:
        cpu_s = self._cpu_s()
        command = kafka_command("org.apache.kafka.tools.JmxTool")
        command += ["--jmx-url", self._url, "--jmx-auth-prop", self._password, "--one-time"]
        command += ["--object-name", REQUESTS, "--object-name", CONNECTIONS]
        attributes = ",".join(("Count", *COUNTED))
        told = _run([*command, "--attributes", attributes, "--report-format", "properties"])
        return Totals(_by_api(told), _traffic(told), cpu_s, self._cpu_s() - cpu_s)

    def _cpu_s(self) -> float:
        used = self._process.cpu_times()
        return used.user + used.system


@contextmanager
def measured_broker(
    directory: Path, properties: Mapping[str, str] = MappingProxyType({})
) -> Iterator[MeasuredBroker]:
    directory.mkdir()
    port, controller, measured, jmx = free_ports(4)
    reserve_ports(directory, (port, controller), VERSION)
    listeners = {
        MeasuredBroker.applications: port,
        MeasuredBroker.measured: measured,
        "CONTROLLER": controller,
    }
    all_properties = {
        **properties,
        "listeners": ",".join(f"{name}://{HOST}:{at}" for name, at in listeners.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "inter.broker.listener.name": MeasuredBroker.applications,
    }
    # Where it says that it listens: otherwise at whatever address this machine's name has.
    before = os.environ.copy()
    options = [before.get("JAVA_TOOL_OPTIONS", ""), f"-Djava.rmi.server.hostname={HOST}"]
    os.environ["JAVA_TOOL_OPTIONS"] = " ".join(options)
    try:
        broker = start_broker(directory, properties=all_properties)
    finally:
        os.environ.clear()
        os.environ.update(before)
    try:
        yield MeasuredBroker(broker, measured, jmx)
    finally:
        broker.stop()


def _by_api(told: str) -> Counter[str]:
    by_api: Counter[str] = Counter()
    for api, count in re.findall(r"name=RequestsPerSec,request=(\w+).*:Count=(\d+)", told):
        by_api[api] += int(count)
    return Counter(
        {
            api: count // 2 if api in COUNTED_TWICE else count
            for api, count in by_api.items()
            if api not in OTHER_NAMES
        }
    )


def _traffic(told: str) -> dict[str, Traffic]:
    """Return the sums over the network threads of each listener."""
    sums: Counter[tuple[str, str]] = Counter()
    for listener, name, value in re.findall(r",listener=(\w+),.*:([a-z-]+)=([\d.E]+)", told):
        sums[listener, name] += int(float(value))
    return {
        listener: Traffic(*(sums[listener, name] for name in COUNTED)) for listener, _ in [*sums]
    }


def _jcmd() -> Path:
    jcmd = find_java().resolve().with_name("jcmd")
    if not jcmd.exists():
        sys.exit(f"{jcmd} is not there: metrics of a broker need a JDK; set JAVA_HOME to one")
    return jcmd


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[-1]}: status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout
