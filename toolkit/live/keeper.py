"""
The process that holds partitions: `python -m toolkit.live.keeper HOLD_FILE [--standby]`.

The keeper captures the partitions, sends heartbeats, follows the group and its coordinator, and
ends on request, after the pause duration, or when another operator has resumed the partitions; it
never captures these again. Its starter has the other end of its standard input: until a line
arrives there, the hold ends with the starter. The keeper starts a standby with the same standard
input, which takes the hold over if the keeper dies.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from toolkit.errors import (
    Blocked,
    BrokerRefused,
    ClusterUnreachable,
    HoldLost,
    Interrupted,
    StateFileError,
    ToolkitError,
)
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.live.application_hold import ApplicationHold
from toolkit.live.classic_hold import ClassicHold
from toolkit.live.consumer_hold import ConsumerHold
from toolkit.live.hold_end_record import record_end
from toolkit.live.keeper_socket import KeeperReply, KeeperRequest, KeeperSocket
from toolkit.live.recipe_steps import CheckedChannel, RecipeChannel
from toolkit.live.streams_hold import StreamsHold
from toolkit.model import CaptureMode, GroupType, HoldNote, TopicPartition
from toolkit.model.groups import SESSION_TIMEOUT_S, STREAMS_PROTOCOL
from toolkit.plan import ChangeStatus
from toolkit.storage.hold_files import (
    HoldRecord,
    HoldStatus,
    PlannedEnd,
    keeper_lock,
    read_hold,
    write_hold,
)

log = logging.getLogger("keeper")

OPTION = "--standby"
LOOKED_AT_FOR_S = 10.0  # another process may just check whether a keeper runs
STANDBY_AGAIN_S = 5.0  # pause before it is started again
OPEN_FILES = 4_096  # at most


# `capture`, `keep` and `release` are recipes. After a failed or interrupted capture the hold is as
# before; `keep` and `release` raise HoldLost if the broker has removed sentinels; then `held` is
# what the others hold. `survives_s` is how long a hold lasts without a keeper, None if that is not
# known, and `state` is what another process needs to continue.
Hold = ClassicHold | StreamsHold | ConsumerHold | ApplicationHold


def new_hold(type_: GroupType, assignor: str, *, prefer: CaptureMode, note: HoldNote) -> Hold:
    """Return a hold for a type of group, which holds nothing yet."""
    if type_ is GroupType.CONSUMER:
        return ConsumerHold(prefer=prefer, note=note)
    if type_ is GroupType.STREAMS:
        return ApplicationHold(note=note)
    note = replace(note, survives_s=SESSION_TIMEOUT_S)
    if assignor == STREAMS_PROTOCOL:
        return StreamsHold(note=note)
    return ClassicHold(note=note, prefer=prefer)


def taken_over(
    type_: GroupType, assignor: str, state: Mapping[str, Any], *, note: HoldNote
) -> Hold:
    """Return a hold that another process has started."""
    if type_ is GroupType.CONSUMER:
        return ConsumerHold.from_state(dict(state), note=note)
    if type_ is GroupType.STREAMS:
        return ApplicationHold.from_state(state, note=note)
    kind = StreamsHold if assignor == STREAMS_PROTOCOL else ClassicHold
    return kind.from_state(state, note=note)


class Standby:
    """
    The standby of one keeper, a child process, so that its end is noticed.

    It waits for the keeper's lock, which the kernel frees when the keeper ends, and not before.
    So a hold never has two keepers: a stopped or slow keeper still has the lock.
    """

    def __init__(self, path: Path) -> None:
        """`path`: the hold file."""
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = -math.inf

    def ensure(self) -> None:
        """Start the standby if it does not run; if that fails, the hold continues without."""
        if self._process and self._process.poll() is None:
            return
        if time.monotonic() < self._started_at + STANDBY_AGAIN_S:
            return
        self._started_at = time.monotonic()
        try:
            self._process = subprocess.Popen(
                # -P: do not import modules from the working directory. The standby inherits the
                # standard input, and so learns about the starter what the keeper learns.
                [sys.executable, "-P", "-m", "toolkit.live.keeper", str(self._path), OPTION],
                start_new_session=True,
            )
        except OSError as exc:
            log.warning("the standby did not start: %s", exc)


def is_detached(starter: int) -> bool:
    """
    Return whether a starter has detached its keeper; `starter` is a readable pipe from it.

    The line stays in the pipe, where a standby finds it; a readable pipe without data has ended.
    """
    return any(fcntl.ioctl(starter, termios.FIONREAD, bytes(4)))


class Keeper:
    """Keeps one hold; `starter` is the pipe from its starter, None if there is none."""

    def __init__(self, path: Path, record: HoldRecord, *, starter: int | None) -> None:
        """Prepare to capture the partitions of a record, or to continue for another keeper."""
        self.path = path
        self.record = record
        self.starter = starter
        self.end_reason = ""
        self.lost: HoldLost | None = None  # found by a request
        self.added: frozenset[TopicPartition] = frozenset()  # by the last request
        self.is_ending = False
        self.is_unwritten = False  # whether the hold file is out of date
        self.wakeful, self.waker = socket.socketpair()
        kind = (record.type, record.assignor)
        if record.status is HoldStatus.HELD:
            self.hold = taken_over(*kind, record.members, note=record.note)
        else:
            self.hold = new_hold(*kind, prefer=record.prefer, note=record.note)
        self.standby = Standby(path)
        self.control = KeeperSocket(after=record.socket)
        self.channel = GroupChannel(record.cluster, record.group_id, check=self.check)
        self.heard_at = self.channel.now()  # when the brokers last heard of the hold

    def run(self) -> None:
        """Hold until the end, and record how the hold ended."""
        with self.wakeful, self.waker, self.control, self.channel:
            self.note(socket=str(self.control.path), pid=os.getpid())
            try:
                # A keeper that takes over does not capture again what was resumed since.
                if self.record.status is HoldStatus.STARTING:
                    with self.recipe() as channel:
                        self.hold.capture(channel, frozenset(self.record.wanted))
                    self.standby.ensure()
                self.note_held("held")
                self.keep()
            except HoldLost as exc:
                self.note_end(exc.problem)
            except Interrupted as exc:
                self.end(exc.problem, None if self.end_reason else PlannedEnd.TIME_OVER)
            except ToolkitError as exc:
                self.end(str(exc))

    @contextmanager
    def recipe(self) -> Iterator[RecipeChannel]:
        """Yield the channel of one recipe, and note what it has changed, also if it fails."""
        try:
            yield CheckedChannel(self.channel, self.check)
        except HoldLost:
            raise
        except BaseException:
            self.note_members()
            raise
        self.heard_at = self.channel.now()
        self.note_members()

    def note_members(self) -> None:
        """Write down what another keeper needs to continue, if anything is held."""
        self.note(members=self.hold.state() if self.hold.held else {})

    def keep(self) -> None:
        """Keep the hold until nothing is held any more."""
        while self.hold.held:
            self.wait(self.hold.beat_every_s)
            self.check()
            self.release_what_is_over()
            if self.hold.held:
                self.beat()
        self.end(PlannedEnd.RESUMED, PlannedEnd.RESUMED)

    def beat(self) -> None:
        """Send the heartbeats of the hold; raises HoldLost if nothing is held any more."""
        held = self.hold.held
        try:
            with self.recipe() as channel:
                self.hold.keep(channel)
            self.note_held("held")
            self.standby.ensure()  # not earlier: what ends this keeper might end it, too
        except HoldLost as exc:
            if self.hold.held in {held, frozenset()}:
                raise
            self.note_members()  # the others are still held
            self.note_held(str(exc))
        except (ClusterUnreachable, BrokerRefused) as exc:
            # The broker may be back in time; until then the hold lasts as without a keeper.
            self.note(words=f"{self.probable_state()}: {exc}")

    def probable_state(self) -> str:
        """Describe the probable state of the hold while no broker is reachable."""
        survives_s = self.hold.survives_s
        if survives_s is not None and self.channel.now() - self.heard_at > survives_s:
            return "probably no longer held: the session timeout has passed"
        return "held, as far as known"

    def wait(self, seconds: float) -> None:
        """Wait for the time of the next heartbeat, and serve requests meanwhile."""
        beat_at = time.monotonic() + seconds
        while self.hold.held and (left := beat_at - time.monotonic()) > 0:
            ready = self.ready(left, self.control.fileno())
            if self.end_reason or self.is_over:
                return
            if self.control.fileno() in ready:
                self.control.serve(self.answer, self.release_unheard)
                if self.lost:
                    raise self.lost

    @property
    def is_over(self) -> bool:
        """Whether the pause duration has ended; a capture is finished first."""
        until = self.record.note.until
        return bool(until and until < now() and self.record.status is HoldStatus.HELD)

    def ready(self, seconds: float, *more: int) -> list[int]:
        """Return the readable descriptors after so long at most; note a message of the starter."""
        sources = [self.wakeful.fileno(), *more]
        if self.starter is not None:
            sources.append(self.starter)
        found, _, _ = select.select(sources, [], [], seconds)
        if self.wakeful.fileno() in found:
            self.wakeful.recv(100)
        if self.starter in found and self.starter is not None:
            if is_detached(self.starter):
                log.info("detached from the starter")
            else:
                self.end_reason = self.end_reason or (
                    "the process that started the hold has exited"
                )
            self.starter = None
        return found

    def check(self) -> None:
        """Raise Interrupted, once, when the hold has to end."""
        self.ready(0)
        over = PlannedEnd.TIME_OVER if self.is_over else ""
        if not self.is_ending and (why := self.end_reason or over):
            self.is_ending = True  # cleaning up is not interrupted
            raise Interrupted(why)

    def answer(self, request: KeeperRequest) -> KeeperReply:
        """Carry out a request from the socket, and return its result."""
        some = self.hold.held if request.partitions is None else request.partitions
        self.added = frozenset()
        try:
            match request.do:
                case "status":
                    pass
                case "add":
                    self.beat()  # partitions that were lost meanwhile are captured again
                    self.added = some - self.hold.held
                    with self.recipe() as channel:
                        self.hold.capture(channel, self.added)
                    self.note(wanted=tuple(sorted({*self.record.wanted, *some})))
                    self.note(added_until=self.ends(some, request.for_s))
                    self.note_held("held")
                case "release":
                    self.release(some)
                case other:
                    return {"ok": False, "words": f"unknown request {other!r}"}
        except Interrupted:
            raise
        except ToolkitError as exc:
            self.lost = exc if isinstance(exc, HoldLost) and not self.hold.held else None
            return {"ok": False, "words": str(exc)}
        return {"ok": True, "words": self.record.words, "held": sorted(self.hold.held)}

    def ends(
        self, asked: frozenset[TopicPartition], for_s: float | None
    ) -> dict[TopicPartition, datetime]:
        """Return the ends of added partitions after a request for some, which last `for_s`."""
        before = self.record.added_until
        if for_s is None:
            return {place: until for place, until in before.items() if place not in asked}
        return {**before, **dict.fromkeys(self.added, now() + timedelta(seconds=for_s))}

    def release_what_is_over(self) -> None:
        """Release partitions whose time is over: the move that added them has died."""
        over = {place for place, until in self.record.added_until.items() if until < now()}
        if over & self.hold.held:
            self.try_to_release(frozenset(over))

    def release_unheard(self, request: KeeperRequest) -> None:
        """Release partitions added for a process that has given up and reported "refused"."""
        if request.do == "add" and self.added & self.hold.held:
            self.try_to_release(self.added)

    def try_to_release(self, some: frozenset[TopicPartition]) -> None:
        """Release some partitions; log an error of a broker."""
        try:
            self.release(some)
        except HoldLost:
            raise
        except ToolkitError as exc:
            log.warning("%s", exc)

    def release(self, some: frozenset[TopicPartition]) -> None:
        """
        Release some partitions on request; with the last, the hold ends.

        Partitions that another operator has resumed count as released. Raises HoldLost if all
        others were resumed as well.
        """
        is_last = self.hold.held <= some
        self.is_ending = self.is_ending or is_last  # releasing everything is not interrupted
        try:
            with self.recipe() as channel:
                self.hold.release(channel, some & self.hold.held)
        except HoldLost:
            if not (is_last or self.hold.held):
                raise
            self.note_members()
        except ToolkitError:
            self.is_ending = False  # the hold continues, and the request may be repeated
            raise
        self.note(
            wanted=tuple(sorted({*self.record.wanted} - some)), added_until=self.ends(some, None)
        )
        self.note_held("held")

    def end(self, words: str, planned: PlannedEnd | None = None) -> None:
        """Release everything that is held, and record how the hold ended."""
        self.is_ending = True
        try:
            if self.hold.held:
                with self.recipe() as channel:
                    self.hold.release(channel, self.hold.held)
        except HoldLost as exc:
            # That is the response to a repeated leave whose first response was lost.
            if self.channel.now() - self.heard_at > 2 * self.hold.beat_every_s:
                words, planned = f"{words}; {exc.problem}", None
        except ToolkitError as exc:
            why = "could not leave the group, so its members leave at the session timeout: "
            words = f"{words}; {why if self.hold.held else ''}{exc}"
            self.note_end(words, status=ChangeStatus.NOT_CONFIRMED)
            return
        self.note_end(words, planned)

    def note_end(
        self,
        words: str,
        planned: PlannedEnd | None = None,
        *,
        status: ChangeStatus = ChangeStatus.DONE,
    ) -> None:
        """Record how the hold ended; in the audit log, too, unless a resume is recorded there."""
        was_held = self.record.status is HoldStatus.HELD
        self.note(status=HoldStatus.ENDED, words=words, planned_end=planned)
        if was_held and planned is not PlannedEnd.RESUMED:
            try:
                record_end(self.path, self.record, words, now(), status=status)
            except StateFileError as exc:
                log.warning("%s", exc)
        self.note(held=())

    def note_held(self, words: str) -> None:
        """Write down which partitions are held now."""
        held = tuple(sorted(self.hold.held))
        note = replace(self.record.note, survives_s=self.hold.survives_s)
        self.note(status=HoldStatus.HELD, words=words, held=held, note=note)

    def note(self, **changes: Any) -> None:
        """
        Write the hold file if anything changed, or if the last change could not be written.

        If the disk is full, a hold continues, but a new one does not start.
        """
        record = replace(self.record, **changes)
        if record == self.record and not self.is_unwritten:
            return
        if record.words != self.record.words:
            log.info("%s: %s", record.status, record.words)
        was, self.record = self.record, record
        try:
            write_hold(self.path, record)
            self.is_unwritten = False
        except StateFileError as exc:
            if was.status is HoldStatus.STARTING and record.status is not HoldStatus.ENDED:
                raise
            self.is_unwritten = True
            log.warning("%s", exc)


def now() -> datetime:
    return datetime.now(UTC)


def allow_open_files() -> None:
    """
    Raise the limit of open files as far as captures need and this process may.

    Shells often allow few. A capture by claims has a connection, of four files, for each partition.
    """
    unlimited = resource.RLIM_INFINITY  # may be -1
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != unlimited and allowed < OPEN_FILES:
        wanted = OPEN_FILES if most == unlimited else min(OPEN_FILES, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def main() -> None:
    """Daemonize and run the keeper."""
    path, *options = sys.argv[1:]
    allow_open_files()
    standby = OPTION in options
    if not standby and os.fork():
        os._exit(0)
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s", level=logging.INFO)
    # While a broker is away the client logs that all the time; we log it once.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    try:
        with keeper_lock(Path(path), within_s=math.inf if standby else LOOKED_AT_FOR_S):
            record = read_hold(Path(path))
            if record is None or (standby and record.status is not HoldStatus.HELD):
                return  # nothing to take over
            log.info("%s", "the standby goes on" if standby else "started")
            keeper = Keeper(Path(path), record, starter=0)
            signal.signal(signal.SIGTERM, lambda *_: _stop(keeper))
            keeper.run()
    except Blocked as exc:
        log.error("%s", exc)  # noqa: TRY400 - it is a plain fact, not a defect of the keeper
        sys.exit(exc.exit_code)


def _stop(keeper: Keeper) -> None:
    keeper.end_reason = "stopped by SIGTERM"
    keeper.waker.send(b"!")


if __name__ == "__main__":
    main()
