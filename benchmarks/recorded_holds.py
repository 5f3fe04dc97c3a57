"""
What a pause and a resume send, and what the consumers do: recorded, and drawn as diagrams.

    python benchmarks/recorded_holds.py [KIND ...] [--write]

Starts its own broker and, for each kind of application, two real consumers of six partitions, of
which 1 and 4 are paused and resumed. Prints a sequence diagram of each, with the seconds since the
pause began; `--write` puts them into `docs/explanation/what-happens.md`.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from live import DEFAULTS
from live_results import put_between_markers
from measuring import new_parser, own_broker, parse_options

from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import Join, Leave, Sync
from toolkit.kafka_io.membership.consumer import LEAVE_EPOCH, ConsumerHeartbeat
from toolkit.live.classic_assignment import is_sentinel
from toolkit.live.classic_member import CLIENT_ID_ENDS
from toolkit.live.keeper import Hold, new_hold
from toolkit.live.recipe_steps import CheckedChannel
from toolkit.model import CaptureMode, Cluster, GroupType, HoldNote
from toolkit.sandbox.jars import VERSION

sys.path.append(str(Path(__file__).parent.parent / "tests" / "fixtures"))

from consumer_processes.analysis import delivered_during, longest_silence, repeats
from live_groups import start_live_group

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "what-happens.md"
KINDS = ("librdkafka-range", "librdkafka-cooperative-sticky", "librdkafka-consumer")
PARTITIONS, PAUSED, PER_SECOND = 6, (1, 4), 10
HELD_S, AFTER_S = 8.0, 8.0
TOGETHER_S = 0.3  # what one member is told within this time is one line
HEAD = """\
sequenceDiagram
participant S as offsetbook
participant C as Group coordinator
participant A as Consumer a
participant B as Consumer b"""


class Line(NamedTuple):
    """One line of a diagram: when it happened, between whom, and what."""

    at: float  # seconds since 1970
    who: str  # such as S->>C
    what: str


class Recorder(CheckedChannel):
    """A way to a group's coordinator that notes what is sent to change the group."""

    def __init__(self, channel: GroupChannel) -> None:
        super().__init__(channel, lambda: None)
        self.lines: list[Line] = []
        self._members: set[str] = set()  # ids of ours with which a member has joined

    def ask_together(self, requests: Sequence[Any]) -> tuple[Any, ...]:
        self._note(requests)
        answers = super().ask_together(requests)
        self._note_answers(answers)
        return answers

    def send_ahead(self, request: Any, *, after: Any = None) -> Any:
        if after and isinstance(request, Leave):
            self._members.update(request.member_ids)  # they have joined when it is taken up
        self._note([request], ", when the JoinGroup before is answered" if after else "")
        return super().send_ahead(request, after=after)

    def wait_for(self, pending: Any) -> Any:
        answer = super().wait_for(pending)
        self._note_answers([answer])
        return answer

    def _note(self, requests: Iterable[Any], when: str = "") -> None:
        now = time.time()
        for request in requests:
            if isinstance(request, Join):
                self._members.add(request.member_id)
            if what := self._in_words(request):
                self.lines.append(Line(now, "S->>C", f"{what}{when}"))

    def _note_answers(self, answers: Iterable[Any]) -> None:
        if any(getattr(one, "members", None) and getattr(one, "leads", False) for one in answers):
            self.lines.append(Line(time.time(), "C-->>S", "offsetbook's member is the leader"))

    def _in_words(self, request: Any) -> str:
        """Describe a request that changes the group; "" for one that only looks."""
        match request:
            case Join(member_id=""):
                what = "JoinGroup, to be given a member id"
            case Join():
                what = "JoinGroup"
            case Sync(assignments=assignments) if assignments:
                what = "SyncGroup with all partitions but the paused ones"
            case Leave(ids):
                what = f"LeaveGroup for {', '.join(self._named(ids))}"
            case ConsumerHeartbeat(epoch=0):
                what = "ConsumerGroupHeartbeat: join"
            case ConsumerHeartbeat(epoch=epoch) if epoch == LEAVE_EPOCH:
                what = "ConsumerGroupHeartbeat: leave"
            case ConsumerHeartbeat(topics=()):
                what = "ConsumerGroupHeartbeat: no subscription, one partition still owned"
            case _:
                what = ""
        return what

    def _named(self, ids: Sequence[str]) -> Iterator[str]:
        ours = [one for one in ids if is_sentinel(one)]
        yield from (f"consumer {one[:CLIENT_ID_ENDS]}" for one in ids if one not in ours)
        if members := len(self._members.intersection(ours)):
            yield "a member of offsetbook" if members == 1 else f"{members} members of offsetbook"
        if unused := len(ours) - members:
            yield "an unused id" if unused == 1 else f"{unused} unused ids"


def record(kind: str, address: str, folder: Path) -> str:
    """Return what happened to the group of one kind of application, as a section of the page."""
    with ExitStack() as ending:
        cluster = Cluster("record", address)
        live = start_live_group(
            *(cluster, kind, f"record-{kind}", folder, ending),
            partitions=PARTITIONS,
            per_second=PER_SECOND,
        )
        time.sleep(AFTER_S)  # so that what is told of the start is over
        type_ = GroupType.CLASSIC if live.applications.kind.is_classic else GroupType.CONSUMER
        hold = new_hold(
            type_, live.applications.kind.assignor, prefer=CaptureMode.LOSSLESS, note=HoldNote()
        )
        channel = ending.enter_context(GroupChannel(cluster, live.group))
        recorder, paused = Recorder(channel), live.places_of(*PAUSED)
        began = time.time()
        hold.capture(recorder, paused)
        held = time.time()
        _keep(hold, recorder, HELD_S)
        resumed = time.time()
        hold.release(recorder, paused)
        live.applications.until_delivered(paused, since=resumed)
        time.sleep(AFTER_S)
        log = live.applications.deliveries()
        lines = [
            *recorder.lines,
            Line(held, "Note over S,C", "paused: 1 and 4"),
            Line(resumed, "Note over S,C", "resume"),
            *_of_consumers(live.applications.events(), began),
        ]
        ends = {"the pause": (began, resumed), "the resume": (resumed, time.time() - 2)}
        silences = {
            what: max(longest_silence(log, p, *when) for p in set(live.places) - paused)
            for what, when in ends.items()
        }
        repeated, leaked = repeats(log, began), delivered_during(log, paused, held, resumed)
    told = ", ".join(f"{seconds:.1f} s at {what}" for what, seconds in silences.items())
    return (
        f"{_diagram(sorted(lines), began)}\n\nThe other partitions were silent for at most {told}. "
        f"Delivered twice: {len(repeated)} records. Of the paused partitions {len(leaked)} "
        "records were delivered during the pause."
    )


def _keep(hold: Hold, recorder: Recorder, seconds: float) -> None:
    ends_at = time.time() + seconds
    while time.time() < ends_at:
        time.sleep(hold.beat_every_s)
        hold.keep(recorder)


def _of_consumers(events: Iterable[Any], since: float) -> Iterator[Line]:
    """Yield what the consumers were assigned, and what they revoked or lost."""
    later = [one for one in events if one.at >= since]
    for (who, what), found in _runs(later, key=lambda one: (one.consumer, one.what)):
        numbers = ", ".join(str(one.partition) for one in sorted(found, key=lambda o: o.partition))
        yield Line(found[0].at, f"Note over {who.upper()}", f"{what} {numbers}")


def _runs(events: list[Any], key: Callable[[Any], Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Yield events that belong together: the same key, within a moment."""
    for found, group in groupby(sorted(events, key=lambda one: (key(one), one.at)), key=key):
        run: list[Any] = []
        for one in group:
            if run and one.at > run[0].at + TOGETHER_S:
                yield found, run
                run = []
            run.append(one)
        yield found, run


def _diagram(lines: list[Line], began: float) -> str:
    """Return Mermaid's notation; the same line several times in a row is one, with its count."""
    drawn = []
    for (who, what), same in groupby(lines, key=lambda line: (line.who, line.what)):
        times = list(same)
        count = f" ({len(times)} times)" if len(times) > 1 else ""
        drawn.append(f"{who}: {times[0].at - began:.1f} s: {what}{count}")
    return "\n".join(["```mermaid", HEAD, *drawn, "```"])


def main() -> None:
    options = _options()
    with own_broker(DEFAULTS) as (address, folder):
        found = [record(kind, address, folder / kind) for kind in options.kinds]
    sections = [f"### {kind}\n\n{text}" for kind, text in zip(options.kinds, found, strict=True)]
    result = "\n\n".join([f"Apache Kafka {VERSION}.", *sections])
    print(result)
    if options.write:
        page = put_between_markers(PAGE.read_text("utf-8"), result, "recorded_holds.py")
        PAGE.write_text(page, "utf-8")


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("kinds", nargs="*", default=KINDS, help=f"such as {', '.join(KINDS)}")
    parser.add_argument("--write", action="store_true", help=f"put the result into {PAGE.name}")
    return parse_options(parser, kinds=KINDS[:1])


if __name__ == "__main__":
    main()
