"""
Pausing, resuming and moving partitions of live groups, on one real broker with default heartbeats.

Starts its own broker and, for each kind of application, a group of real consumers in processes of
their own that log every record they are delivered. Each group is paused several times, the last
time for over a minute with consumers that join, leave and are killed, and then moved several times.
The tables are printed; `--write` puts them into `README.md` beside this file, and what owners of
applications want to know into `docs/explanation/what-happens.md`.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from broker_metrics import DEFAULTS
from live_results import Found, Moves, Pauses, for_owners, put_between_markers, tables
from measuring import machine, median_of, new_parser, own_broker, parse_options

from toolkit.sandbox.jars import VERSION

HERE = Path(__file__).parent
README = HERE / "README.md"
PAGE = HERE.parent / "docs" / "explanation" / "what-happens.md"
KINDS = (
    "librdkafka-range",
    "librdkafka-cooperative-sticky",
    "librdkafka-consumer",
    "java-range",
    "java-cooperative-sticky",
    "java-consumer",
    "kafka-python-range",
    "kafka-python-sticky",
    "aiokafka-sticky",
)
VERSIONS = {
    "librdkafka": f"librdkafka (confluent-kafka {version('confluent-kafka')})",
    "java": f"Java {VERSION} (console consumer)",
    "kafka-python": f"kafka-python {version('kafka-python')}",
    "aiokafka": f"aiokafka {version('aiokafka')}",
}
# The sandbox has quicker heartbeats than Kafka's defaults, which are measured here.


def main() -> None:
    options = _options()
    with (
        own_broker(DEFAULTS) as (address, folder),
        ThreadPoolExecutor(options.together) as together,
    ):
        logs = options.logs or folder
        found = list(
            together.map(lambda kind: measure(kind, address, logs / kind, options), options.kinds)
        )
    result = "\n".join([*surroundings(options), "", *tables(found)])
    print(result)
    if options.write:
        owners = "\n".join([next(surroundings(options)), "", *for_owners(found, VERSIONS)])
        for page, text in ((README, result), (PAGE, owners)):
            page.write_text(put_between_markers(page.read_text("utf-8"), text, "live.py"), "utf-8")
    if any(one.trouble for one in found):
        sys.exit(1)


def measure(kind: str, address: str, folder: Path, options: argparse.Namespace) -> Found:
    """Return what the trials of one kind found, which run in a process of their own."""
    folder.mkdir(parents=True)
    numbers = [str(options.rounds), str(options.hold)]
    trials = "from live_trials import main; main()"
    command = [sys.executable, "-c", trials, kind, address, str(folder), *numbers]
    fixtures = HERE.parent / "tests" / "fixtures"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE), str(fixtures), str(HERE.parent)]),
        "OFFSETBOOK_STATE": str(folder / "state"),
    }
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=False)
    if done.returncode:
        return Found(kind, 0, trouble=[f"all: status {done.returncode}"])
    told = json.loads(done.stdout)
    parts = {"pauses": Pauses(**told["pauses"]), "moves": Moves(**told["moves"])}
    return Found(**{**told, **parts})


def surroundings(options: argparse.Namespace) -> Iterator[str]:
    versions = machine("confluent-kafka", "kafka-python", "aiokafka")
    yield (
        "Six partitions with ten records a second each, of which 1 and 4 are paused and moved; two "
        f"consumers, in the hold of {options.hold:.0f} s three join, one leaves and one is killed. "
        f"{median_of(f'{options.rounds} pauses and {options.rounds} moves')}"
    )
    yield ""
    yield (
        f"Apache Kafka {VERSION}, its console consumer, {versions}: the broker and "
        f"{options.together} groups at a time share the machine."
    )


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("kinds", nargs="*", default=KINDS, help=f"of {', '.join(KINDS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hold", type=float, default=70, help="seconds of the long hold")
    parser.add_argument("--together", type=int, default=3, help="groups at a time")
    parser.add_argument("--logs", type=Path, help="keep what every application was delivered here")
    parser.add_argument(
        "--write", action="store_true", help=f"put it into {README.name} and {PAGE.name}"
    )
    return parse_options(parser, kinds=KINDS[:1], rounds=1, hold=1, together=1)


if __name__ == "__main__":
    main()
