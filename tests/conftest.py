"""How the tests are run; what they share is in `tests/fixtures`."""

import compileall
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import kafka_version  # noqa: F401 -- before what takes the default version from toolkit
import pytest
from consumer_processes.live_applications import LiveApplications

import toolkit
from toolkit.kafka_io.client.shared_connections import close_all
from toolkit.sandbox import broker, fleet

# Of tests/fixtures; what others import comes before them.
pytest_plugins = [
    "since",
    "tiers",
    "time_limits",
    "run_record",
    "class_archive",
    "processes",
    "worker_files",
    "applications",
    "brokers",
    "clusters",
    "operators",
    "workspaces",
    "shells",
    "secured",
    "live_groups",
    "streams_app",
    "recipe_holds",
    "holding",
    "small_notebooks",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-seeds", default="0:30", help="first seed, and one past the last")
    parser.addoption("--fault-log", default="", help="a file to add a line for each run to")


def pytest_configure(config: pytest.Config) -> None:
    """Take a polite kill for Ctrl-C, so that fixtures end their brokers then too."""
    # Programs whose files may not grow would leave half a file of bytecode, which others then read.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # None that the tests start has to compile it then.
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(Path(toolkit.__file__).parent, quiet=2)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Programs that tests start would ignore what a shell in the background has us ignore.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # How long an example takes says more about the machine than about the rule.
    slow = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
    hypothesis.settings.register_profile("patient", **slow)
    hypothesis.settings.register_profile("brief", **slow, max_examples=15)
    hypothesis.settings.load_profile("brief" if config.getoption("tier") == "fast" else "patient")
    # However busy the machine is; no test claims these limits.
    broker.START_TIMEOUT_S = fleet.SEED_TIMEOUT_S = 600
    # Members hear of a rebalance with a heartbeat. Benchmarks keep the default.
    LiveApplications.heartbeat_ms = 1_000


@pytest.fixture(autouse=True)
def no_connection_stays_open() -> Iterator[None]:
    """Close what sessions keep open for a while: the test's broker may be gone a moment later."""
    yield
    close_all()
