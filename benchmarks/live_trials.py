"""
One kind of application in the benchmark `live`: its group is paused, resumed and moved.

Run by `live.py`, in a process of its own, with KIND ADDRESS FOLDER ROUNDS HOLD_S; prints JSON.
"""

import json
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position
from consumer_processes.analysis import (
    delivered_during,
    first_after,
    last_before,
    longest_silence,
    missing,
    repeats,
    two_at_once,
)
from consumer_processes.log import Delivery
from live_groups import LiveGroup, start_live_group
from live_operator import Done, Operator
from live_results import Found

from toolkit.model import Cluster, TopicPartition

PARTITIONS, PAUSED, PER_SECOND = 6, (1, 4), 10
SHORT_S, REST_S = 8.0, 7.0  # between two auto-commits, and more
SILENT_S = 1.0  # longer is an interruption
LATE_S = 1.0  # cooperative members that were evicted may not know it yet
MOVED_BACK = 50  # records
# What happens in the long hold, so many seconds after it is confirmed. The killed one is dead for
# long enough that also its KIP-848 session, 45 s, is over when the partitions are resumed.
CHURN = ((8, "start", "c"), (14, "kill", "c"), (24, "start", "d"), (32, "stop", "b"))
CHURN += ((42, "start", "e"),)
KILLED = "c"


class Trials:
    """Does it all to one group."""

    def __init__(self, live: LiveGroup, operator: Operator) -> None:
        """Use a group whose partitions are all being delivered."""
        self.live, self.operator = live, operator
        self.apps = live.applications
        self.kind = self.apps.kind
        self.paused = live.places_of(*PAUSED)
        self.others = frozenset(live.places) - self.paused
        self.found = Found(self.kind.name, len(self.others))

    def attempt(self, what: str, do: Callable[[], None]) -> None:
        """Do something; what fails is told, and must not keep the others from a result."""
        print(time.strftime("%H:%M:%S"), self.kind.name, what, file=sys.stderr, flush=True)
        try:
            do()
        except Exception as exc:  # noqa: BLE001  # whatever it is, it is told
            traceback.print_exc()
            self.found.trouble.append(f"{what}: {type(exc).__name__}: {exc}")

    def settle(self) -> None:
        """Wait until all is delivered and the group is at rest, and then for an auto-commit."""
        self.apps.until_delivered(self.live.places)
        self.operator.when_stable()
        time.sleep(REST_S)

    def hold(self, hold_s: float, churn: tuple[tuple[int, str, str], ...] = ()) -> None:
        """Pause, wait, resume, and judge what was delivered."""
        self.found.pauses.announced = self.operator.announced_repeats(self.paused)
        paused = self.operator.pause(self.paused)
        captured = paused.ended + SHORT_S
        for after, act, name in churn:
            time.sleep(max(0.0, paused.ended + after - time.time()))
            getattr(self.apps, act)(name)
        time.sleep(max(0.0, paused.ended + hold_s - time.time()))
        self.found.keeper_mib = max(self.found.keeper_mib, self.operator.keeper_mib())
        resumed = self.operator.resume(self.paused)
        self.apps.until_delivered(self.paused, since=resumed.began)
        self.settle()
        self.judge_hold(paused, resumed, captured)

    def judge_hold(self, paused: Done, resumed: Done, captured: float) -> None:
        """Count what was delivered from the approval of a pause until all is as before."""
        log, into = self.apps.deliveries(), self.found.pauses
        self.judge_others(log, paused.began, captured, into.gap_s)
        into.interrupted.append(sum(gap > SILENT_S for gap in self.gaps(log, paused, captured)))
        into.confirmed_s.append(paused.ended - paused.began)
        grace = LATE_S if self.kind.is_cooperative else 0
        sure = paused.ended + grace
        into.late += len(delivered_during(log, self.paused, paused.ended, sure))
        into.leaked += len(delivered_during(log, self.paused, sure, resumed.began))
        into.held_s = max(into.held_s, resumed.began - paused.ended)
        twice = repeats(log, paused.began, time.time())
        into.repeats.append(len([one for one in twice if not _was_killed(log, one)]))
        first = {place: first_after(log, place, resumed.began) for place in self.paused}
        into.all_resumes += len(first)
        into.exact_resumes += sum(
            one is not None and one.offset == resumed.offsets.get(place)
            for place, one in first.items()
        )
        into.resumed_s.append(max(one.at for one in first.values() if one) - resumed.began)

    def gaps(self, log: list[Delivery], paused: Done, captured: float) -> list[float]:
        """Return the longest silence of each of the others while the hold was captured."""
        return [longest_silence(log, place, paused.began, captured) for place in self.others]

    def judge_others(
        self, log: list[Delivery], start: float, end: float, into: list[float]
    ) -> None:
        """Note the longest silence of any of the others."""
        into.append(max(longest_silence(log, place, start, end) for place in self.others))

    def move(self) -> None:
        """Move the partitions back, and judge what was delivered."""
        moved = self.operator.move(self.paused, -MOVED_BACK)
        self.apps.until(lambda log: all(_back(log, place, moved) for place in self.paused))
        self.settle()
        log, into = self.apps.deliveries(), self.found.moves
        back = {place: _back(log, place, moved) for place in self.paused}
        into.all += len(back)
        into.exact += sum(one.offset == moved.offsets[place] for place, one in back.items() if one)
        since = {place: one.at for place, one in back.items() if one}
        into.delivered_s.append(max(since.values()) - moved.began)
        into.repeats.append(len(repeats(log, moved.began, time.time(), moved=since)))
        self.judge_others(log, moved.began, max(since.values()) + SHORT_S, into.gap_s)

    def judge_all(self) -> None:
        """Count what was never delivered, once there is nothing more to deliver."""
        ends = end_offsets(self.live)
        self.apps.until(
            lambda log: {p for p, end in ends.items() if (end - 1) in _offsets(log, p)} == set(ends)
        )
        log = self.apps.deliveries()
        self.found.delivered = len(log)
        self.found.missing = sum(
            len(missing(log, place, first=0, last=end - 1)) for place, end in ends.items()
        )
        self.found.two_at_once = len(two_at_once(log))


def _was_killed(log: list[Delivery], repeated: Delivery) -> bool:
    """Whether a record was delivered before to the killed application, which lost a commit."""
    record = (repeated.place, repeated.offset)
    return any((one.place, one.offset) == record and one.consumer == KILLED for one in log)


def _back(log: list[Delivery], place: TopicPartition, moved: Done) -> Delivery | None:
    """Return the first delivery of a moved partition that goes back."""
    before = last_before(log, place, moved.began)
    highest = before.offset if before else -1
    for one in log:
        if one.place == place and one.at > moved.began:
            if one.offset <= highest:
                return one
            highest = one.offset
    return None


def _offsets(log: list[Delivery], place: TopicPartition) -> set[int]:
    return {one.offset for one in log if one.place == place}


def end_offsets(live: LiveGroup) -> dict[TopicPartition, int]:
    settings = {"bootstrap.servers": live.cluster.bootstrap_servers, "group.id": "end-offsets"}
    consumer = Consumer(settings)
    try:
        return {
            place: consumer.get_watermark_offsets(Position(*place), timeout=20)[1]
            for place in live.places
        }
    finally:
        consumer.close()


def main() -> None:
    kind, address, folder, rounds, hold_s = sys.argv[1:]
    with ExitStack() as consumers, ExitStack() as traffic:
        live = start_live_group(
            Cluster("live", address),
            kind,
            f"live-{kind}",
            Path(folder) / "log",
            consumers,
            traffic=traffic,
            partitions=PARTITIONS,
            per_second=PER_SECOND,
        )
        trials = Trials(live, Operator(address, live.group, live.topics[0]))
        trials.settle()
        for number in range(int(rounds)):
            # The last one is the long one: a short one after it would find many members.
            last = number == int(rounds) - 1
            length = (float(hold_s), CHURN) if last else (SHORT_S, ())
            trials.attempt(f"pause {number + 1}", partial(trials.hold, *length))
        for number in range(int(rounds)):
            trials.attempt(f"move {number + 1}", trials.move)
        traffic.close()
        trials.attempt("counting", trials.judge_all)
    json.dump(asdict(trials.found), sys.stdout)
