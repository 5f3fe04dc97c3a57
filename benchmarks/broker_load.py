"""
How much a broker is asked: by offsetbook, by `kafka-consumer-groups`, by a metrics exporter.

Starts its own broker, fills it as `snapshot.py` does, and reads the broker's own metrics before and
after each of these, some times in turns:

    lag, ...       whole commands of offsetbook, and the fleet job on this one cluster
    tool           kafka-consumer-groups --describe --all-groups
    exporter       one poll of kafka_exporter that is running, where it is installed
    pause, resume  a whole hold of two of six partitions of a live group, from command to command

Whoever is measured has a listener of its own, so that applications do not count. What these ask
while their group is paused is shown beside what they ask in as long a time without it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from broker_metrics import HOST, MeasuredBroker, Totals, Traffic, measured_broker
from measuring import groups_parser, in_turns, markdown, parse_options, say, spread
from snapshot import fill, surroundings, tool_command

from toolkit.model import Cluster
from toolkit.sandbox.broker import free_ports

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))  # the applications that the tests start

from live_groups import LiveGroup, start_live_group  # noqa: E402 - is found by the line above

KINDS = {"librdkafka-range": "classic", "librdkafka-consumer": "KIP-848"}
PAUSED = (1, 4)
COMMANDS = (
    ("lag",),
    ("lag", "--by", "partition", "--output", "csv"),
    ("unsubscribed",),
    ("groups", "list"),
)
EXPORTER = "kafka_exporter"


class Load(NamedTuple):
    """What one run asked of the broker, and what applications ask in as long a time alone."""

    totals: Totals
    alone: Totals | None = None


Case = tuple[str, Callable[[], Load]]  # by name, something to measure


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="offsetbook-benchmark-") as name, ExitStack() as ending:
        folder = Path(name)
        os.environ["OFFSETBOOK_STATE"] = str(folder / "state")
        measured = ending.enter_context(measured_broker(folder / "benchmark"))
        say(f"making {options.groups} groups with {options.commits} commits each")
        fill(measured.address, options.groups, options.commits)
        fleet = folder / "fleet.yaml"
        address = measured.measured_address
        fleet.write_text(f"clusters:\n  benchmark:\n    bootstrap.servers: {address}\n")
        loads = {}
        for cases in (_readers, _pauses):
            ways = dict(cases(measured, fleet, options, ending))
            loads |= in_turns(ways, options.rounds, _told)
    about = f"one broker, holds of {options.hold:.0f} s"
    print("\n".join([*surroundings(options, about), "", *_table(loads)]))


def _told(load: Load) -> Traffic:
    return load.totals.traffic[MeasuredBroker.measured]


def _readers(
    measured: MeasuredBroker, fleet: Path, options: argparse.Namespace, ending: ExitStack
) -> Iterator[Case]:
    rows = options.groups * options.commits
    for command in COMMANDS:
        yield _case(measured, " ".join(command), partial(_offsetbook, fleet, *command))
    fleet_lag = ("fleet-lag", "--history", str(fleet.parent / "history"))
    yield _case(measured, "fleet-lag --full", partial(_offsetbook, fleet, *fleet_lag, "--full"))
    yield _case(measured, "fleet-lag, later run", partial(_offsetbook, fleet, *fleet_lag))
    yield _case(measured, "tool", partial(_tool, measured.measured_address, rows))
    if options.exporter:
        url = ending.enter_context(_exporter(options.exporter, measured.measured_address))
        yield _case(measured, "exporter, one poll", partial(_poll, url, rows))
    else:
        say(f"no {EXPORTER} on the path: its row is left out")


def _case(measured: MeasuredBroker, name: str, run: Callable[[], object]) -> Case:
    def once() -> Load:
        before = measured.read()
        run()
        totals = measured.read().since(before)
        asked = _told(Load(totals)).requests
        if asked != totals.by_api.total():
            sys.exit(f"{name}: {asked} requests, but by API they are {totals.by_api}")
        return Load(totals)

    return name, once


def _offsetbook(fleet: Path, *words: str) -> str:
    offsetbook = Path(sys.executable).parent / "offsetbook"
    return _output([str(offsetbook), *words, "--fleet", str(fleet)])


def _tool(address: str, rows: int) -> None:
    told = _output(tool_command(address, "--describe", "--all-groups"))
    _require_rows("tool", told, "group-", rows)


@contextmanager
def _exporter(program: str, address: str) -> Iterator[str]:
    """Start an exporter, wait until it serves, and yield where its metrics are."""
    at = f"{HOST}:{free_ports(1)[0]}"
    words = [f"--kafka.server={address}", f"--web.listen-address={at}"]
    process = subprocess.Popen([program, *words], stderr=subprocess.DEVNULL)
    try:
        give_up_at = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://{at}/healthz", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > give_up_at:
                    sys.exit(f"{program} does not serve at {at}")
                time.sleep(0.1)
        yield f"http://{at}/metrics"
    finally:
        process.terminate()
        process.wait()


def _poll(url: str, rows: int) -> None:
    with urllib.request.urlopen(url, timeout=300) as answer:  # noqa: S310 - http, on loopback
        told = answer.read().decode()
    _require_rows("exporter", told, "kafka_consumergroup_lag{", rows)


def _require_rows(name: str, told: str, prefix: str, rows: int) -> None:
    found = sum(line.startswith(prefix) for line in told.splitlines())
    if found < rows:
        sys.exit(f"{name} told {found} lags, not {rows}")


def _pauses(
    measured: MeasuredBroker, fleet: Path, options: argparse.Namespace, ending: ExitStack
) -> Iterator[Case]:
    """Start a live group of each kind; it commits, as applications do, every 5 s."""
    for kind, protocol in KINDS.items():
        live = start_live_group(
            Cluster("benchmark", measured.address), kind, kind, fleet.parent / kind, ending
        )
        name = f"pause, {options.hold:.0f} s, resume: {protocol}"
        yield name, partial(_pause, measured, fleet, live, options.hold)


def _pause(measured: MeasuredBroker, fleet: Path, live: LiveGroup, hold_s: float) -> Load:
    """Pause, wait and resume with the commands of KIP-1249; then as long a time with nothing."""
    live.until_at_rest()
    before, began = measured.read(), time.monotonic()
    topics = f"{live.topics[0]}:{','.join(map(str, PAUSED))}"
    flags = ("--group", live.group, "--topic", topics, "--execute", "--reason", "benchmark")
    _offsetbook(fleet, "consumer-groups", "--pause", *flags)
    time.sleep(hold_s)
    _offsetbook(fleet, "consumer-groups", "--resume", *flags)
    live.until_at_rest()
    took_s = time.monotonic() - began
    after = measured.read()
    time.sleep(took_s)
    alone = measured.read().since(after)
    return Load(after.since(before), alone)


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: status {done.returncode}: {done.stderr}")
    return done.stdout


def _table(loads: dict[str, list[Load]]) -> Iterator[str]:
    rows = []
    for name, taken in loads.items():
        counts = [spread(values, ",.0f") for values in zip(*map(_told, taken), strict=True)]
        is_alone = taken[0].alone is None
        cpu = spread([load.totals.cpu_s for load in taken], ".2f") if is_alone else "–"
        rows.append((name, *counts, cpu, _by_api(taken[-1])))
    heading = ("", "requests", "bytes in", "bytes out", "connections", "broker's CPU s")
    return markdown((*heading, "requests by API"), rows)


def _by_api(load: Load) -> str:
    """Return the requests of one run; beside applications, those that these do not make alone."""
    if load.alone is None:
        return _named(load.totals.by_api)
    more = Counter(load.totals.by_api - load.alone.by_api)
    for api in ("Produce", "Fetch"):
        del more[api]
    name = MeasuredBroker.applications
    with_it, without = (one.traffic[name].requests for one in (load.totals, load.alone))
    return f"{_named(more)}; applications {with_it:,} requests, {without:,} without it"


def _named(by_api: Counter[str]) -> str:
    return ", ".join(f"{count:,} {api}" for api, count in by_api.most_common())


def _options() -> argparse.Namespace:
    parser = groups_parser(__doc__)
    parser.add_argument("--hold", type=float, default=30, help="seconds of a pause")
    parser.add_argument("--exporter", default=shutil.which(EXPORTER), help=f"{EXPORTER} to run")
    return parse_options(parser, groups=20, commits=2, rounds=1, hold=2)


if __name__ == "__main__":
    main()
