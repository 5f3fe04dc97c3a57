"""
Two operators pause partitions of one live group at the same moment, from two state folders.

Starts its own broker with default heartbeats, and for each kind of application a group of real
consumers that log every record they are delivered. In each trial both make a plan and then apply it
within `--apart` seconds of each other: for the same partition, of which one must be refused, and in
turns for different ones, which both must pause. Then what is paused is resumed. `--busy` processes
do nothing but use the processors meanwhile.
"""

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from broker_metrics import DEFAULTS
from live_operator import REASON, Operator
from measuring import machine, markdown, new_parser, own_broker, parse_options, say, spread

from toolkit.errors import Blocked
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.model import Cluster, TopicPartition
from toolkit.plan import ChangeStatus
from toolkit.sandbox.jars import VERSION

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))  # the applications that the tests start
sys.path.insert(0, str(ROOT / "scripts"))

from consumer_processes.analysis import (  # noqa: E402 - see above
    delivered_during,
    longest_silence,
    missing,
    repeats,
)
from consumer_processes.kinds import KINDS  # noqa: E402
from live_groups import LiveGroup, start_live_group  # noqa: E402
from repeat_test import busy  # noqa: E402

DEFAULT_KINDS = (
    "librdkafka-range",
    "librdkafka-cooperative-sticky",
    "librdkafka-consumer",
    "java-sticky",
    "java-cooperative-sticky",
    "java-consumer",
)
PAUSED = {"same": (1, 1), "different": (1, 4)}
PER_SECOND = 4  # records of each partition: what silence is measured with
LOOK_FOR_S = 8.0  # after both have returned
LATE_S = 1.0  # cooperative members that were evicted may not know it yet


@dataclass
class Found:
    """What the trials of one kind and one choice of partitions found; times are in seconds."""

    kind: str
    choice: str
    outcomes: Counter[str] = field(default_factory=Counter)  # of both operators, in words
    paused_s: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    silent_s: list[float] = field(default_factory=list)  # the longest of the other partitions
    delivered: int = 0  # records of paused partitions
    repeated: list[int] = field(default_factory=list)
    lost: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # that do not say who paused since when

    @property
    def is_as_said(self) -> bool:
        """Whether one was always refused of the same partition, and both paused different ones."""
        wanted = {"same": "done + refused", "different": "done + done"}[self.choice]
        return not (self.lost or self.delivered or self.reasons or self.outcomes.keys() - {wanted})


@dataclass(frozen=True)
class Applied:
    """What one operator achieved."""

    places: frozenset[TopicPartition]
    began: float
    ended: float
    status: str
    why: str = ""


def main() -> None:
    options = _options()
    with (
        own_broker(DEFAULTS) as (address, folder),
        ProcessPoolExecutor(options.together) as together,
        busy(options.busy),
    ):
        trials = [
            together.submit(_measure, kind, address, folder / f"{number}", options)
            for number, kind in enumerate(options.kinds)
        ]
        found = [one for trial in trials for one in trial.result()]
    print("\n".join([_surroundings(options), "", *_table(found)]))
    if not all(one.is_as_said for one in found):
        sys.exit(1)


def _measure(kind: str, address: str, folder: Path, options: argparse.Namespace) -> list[Found]:
    found = {choice: Found(kind, choice) for choice in PAUSED}
    with ExitStack() as ending:
        live = start_live_group(
            Cluster("live", address),
            kind,
            folder.name,
            folder / "log",
            ending,
            per_second=PER_SECOND,
        )
        operators = []
        for name in ("ann", "bob"):
            os.environ["OFFSETBOOK_STATE"] = str(folder / name)
            operators.append(Operator(address, live.group, *live.topics))
        for number in range(options.tries):
            for choice, one in found.items():
                _try(live, operators, choice, one, options.apart)
                say(f"{time.strftime('%H:%M:%S')} {number + 1} {one}")
        log = live.applications.deliveries()
        found["different"].lost = sum(len(missing(log, place)) for place in live.places)
    return list(found.values())


def _try(
    live: LiveGroup, operators: Sequence[Operator], choice: str, found: Found, apart: float
) -> None:
    places = [live.places_of(number) for number in PAUSED[choice]]
    delays = (0.0, random.uniform(0, apart))  # noqa: S311 - no secret
    with ThreadPoolExecutor() as pool:
        changes = list(pool.map(_planned, operators, places))
        both = list(pool.map(_apply, changes, places, random.sample(delays, 2)))
    began, ended = min(one.began for one in both), max(one.ended for one in both)
    others = set(live.places).difference(*places)
    live.applications.until_delivered(others, since=ended + LOOK_FOR_S)
    log = [one for one in live.applications.deliveries() if one.at > began]
    found.silent_s.append(
        max(longest_silence(log, place, began, ended + LOOK_FOR_S) for place in others)
    )
    found.outcomes[" + ".join(sorted(one.status for one in both))] += 1
    grace = LATE_S if live.applications.kind.is_cooperative else 0
    for operator, one in zip(operators, both, strict=True):
        seconds = one.ended - one.began
        if one.status == ChangeStatus.DONE:
            found.paused_s.append(seconds)
            held_since, resumed_at = one.ended + grace, time.time()
            operator.resume(one.places)
            live.applications.until_delivered(one.places, since=resumed_at)
            log = live.applications.deliveries()
            found.delivered += len(delivered_during(log, one.places, held_since, resumed_at))
        elif one.status == ChangeStatus.REFUSED:
            found.refused_s.append(seconds)
        is_told = one.status == ChangeStatus.REFUSED and " since " in one.why
        if one.status != ChangeStatus.DONE and not is_told:
            found.reasons[one.why] += 1
    live.until_at_rest()
    found.repeated.append(len(repeats(live.applications.deliveries(), start=began)))


def _planned(operator: Operator, places: Collection[TopicPartition]) -> PlannedChange:
    operator.when_stable()
    return operator.planned_pause(places)


def _apply(change: PlannedChange, places: frozenset[TopicPartition], delay: float) -> Applied:
    time.sleep(delay)
    began = time.time()
    try:
        done = change.decide(dry_run=False, approve=change.fingerprint, reason=REASON).apply()
    except Blocked as exc:
        return Applied(places, began, time.time(), "blocked", str(exc))
    if done.outcome is None:
        return Applied(places, began, time.time(), "not applied", str(done.failed or done.decided))
    (step,) = done.outcome.steps
    return Applied(places, began, time.time(), step.status, step.why)


def _surroundings(options: argparse.Namespace) -> str:
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, Apache Kafka {VERSION}, {machine('confluent-kafka')}: "
        f"{options.together} groups at a time and {options.busy} busy loops, plans applied up to "
        f"{options.apart:g} s apart. Six partitions, two consumers; seconds are the median "
        "(lowest–highest)."
    )


def _table(found: Sequence[Found]) -> Iterator[str]:
    heading = ("group", "partitions", "outcomes", "paused within s", "refused within s")
    heading += ("silence of the others s", "paused records delivered", "repeats", "never delivered")
    rows = []
    for one in found:
        outcomes = "; ".join(f"{count} × {words}" for words, count in one.outcomes.items())
        cells = [
            one.kind,
            one.choice,
            outcomes,
            *(spread(some, ".1f") if some else "" for some in (one.paused_s, one.refused_s)),
            spread(one.silent_s, ".1f"),
            f"{one.delivered:,}",
            f"{sum(one.repeated):,} in {sum(map(bool, one.repeated))} trials",
            f"{one.lost:,}",
        ]
        rows.append(cells)
    yield from markdown(heading, rows)
    for one in found:
        for why, count in one.reasons.items():
            yield f"\n{one.kind}, {one.choice}, {count} ×: {why}"


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument(
        "kinds",
        nargs="*",
        default=DEFAULT_KINDS,
        help=f"of {', '.join(KINDS)}, one or more groups of each",
    )
    parser.add_argument("--tries", type=int, default=25, help="of each choice of partitions")
    parser.add_argument("--apart", type=float, default=0.5, help="seconds at most")
    parser.add_argument("--together", type=int, default=3, help="groups at a time")
    parser.add_argument("--busy", type=int, default=0, help="busy loops")
    return parse_options(parser, kinds=DEFAULT_KINDS[:1], tries=1, together=1)


if __name__ == "__main__":
    main()
