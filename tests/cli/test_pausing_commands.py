"""Pausing, resuming and moving from the command line: what is shown, done, refused and told."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from threading import Event
from typing import Any

import pytest
from applications import eventually
from holding import kill_keepers
from live_groups import LiveGroup, start_live_group
from main_program import Command
from terminal import CTRL_C, talk

from toolkit.errors import HoldLost, UsageError
from toolkit.journeys.change.container_command import OF_A_CONTAINER
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.live.consumer_hold import ConsumerHold
from toolkit.model import Cluster, Group, HoldNote
from toolkit.storage.state_folder import Operator

pytestmark = pytest.mark.live("consumers and keepers run")


@dataclass(frozen=True)
class CommandOperator:
    """A live group, and the command on its cluster."""

    live: LiveGroup
    call: Command
    fleet: Path

    def __call__(self, name: str, *options: str) -> CompletedProcess[str]:
        return self.call(name, "--group", self.live.group, *options)

    def change(self, name: str, *options: str) -> CompletedProcess[str]:
        """Run a changing command with the approval that its dry run asks for."""
        shown = self(name, *options, "--dry-run")
        assert not shown.returncode, shown.stderr
        fingerprint = shown.stderr.rpartition("Fingerprint: ")[2].split()
        approval = ["--approve", fingerprint[0], "--reason", "a test"] if fingerprint else []
        return self(name, *options, *approval)

    def rows(self, *options: str) -> list[dict[str, Any]]:
        done = self.call("paused-partitions", *options, "--output", "json")
        # Of the groups of other tests, one may have gone while it was being read.
        assert done.returncode in {0, 4}, done.stderr
        assert self.live.group not in done.stderr
        return [row for row in json.loads(done.stdout) if row["group"] == self.live.group]

    @property
    def group(self) -> Group:
        (group,) = read_snapshot(self.live.cluster, groups=[self.live.group]).groups
        return group

    @property
    def paused(self) -> list[int]:
        return sorted(partition.partition for partition in self.group.paused)

    def committed(self, number: int) -> int:
        commits = read_snapshot(self.live.cluster, groups=[self.live.group]).commits
        return next(c.offset for c in commits if c.partition == number)


@pytest.fixture(scope="module")
def live(
    bare_cluster: Cluster, unique_name: Callable[[str], str], tmp_path_factory: Any
) -> Iterator[LiveGroup]:
    with ExitStack() as ending:
        name, log = unique_name("live"), tmp_path_factory.mktemp("live")
        yield start_live_group(bare_cluster, "librdkafka-consumer", name, log, ending)


@pytest.fixture
def operator(
    live: LiveGroup, fleet_of: Callable[..., Path], offsetbook_here: Command
) -> Iterator[CommandOperator]:
    fleet = fleet_of(eu=live.cluster.bootstrap_servers)
    made = CommandOperator(live, partial(offsetbook_here, fleet=fleet), fleet)
    live.until_at_rest()
    yield made
    made.change("resume", "--force")


def test_a_pause_and_a_resume(operator: CommandOperator, tmp_path: Path) -> None:
    """The dry run tells the costs and does nothing; the approved one holds until it is resumed."""
    scope = operator.live.scope(1, 4)

    dry = operator("pause", "--topic", scope, "--for", "30m", "--dry-run")
    assert (0, []) == (dry.returncode, operator.paused)
    for words in ("stops:", "repeats:", "disturbs:", "survives:", "alternatives:"):
        assert words in dry.stderr
    assert "owned by " in dry.stdout
    assert "before" not in dry.stdout

    done = operator.change("pause", "--topic", scope, "--for", "30m", "--detach")
    assert (0, [1, 4]) == (done.returncode, operator.paused), done.stderr
    assert "paused in the background for 30 min; to resume: 'offsetbook resume" in done.stderr
    assert "undoes it" not in done.stderr
    operator.live.applications.until_delivered(operator.live.places_of(0, 2, 3, 5))

    # Its --force is about the plan file, which is there already.
    plan_file = tmp_path / "resume.json"
    plan_file.touch()
    options = ("--group", operator.live.group, "--out", str(plan_file), "--force")
    planned = operator.call("plan", "resume", *options)
    assert (0, [1, 4]) == (planned.returncode, operator.paused), planned.stderr
    assert operator.live.group in plan_file.read_text("utf-8")

    done = operator.change("resume", "--topic", operator.live.scope(1))
    assert (0, [4]) == (done.returncode, operator.paused), done.stderr
    done = operator.change("resume")
    assert (0, []) == (done.returncode, operator.paused), done.stderr
    operator.live.applications.until_delivered(operator.live.places)


@contextmanager
def held_by_bob(operator: CommandOperator, *numbers: int) -> Iterator[None]:
    """Hold partitions as somebody else does, somewhere else, until they are resumed."""
    note = HoldNote("bob", "elsewhere", reason="an incident")
    hold, ended = ConsumerHold(note=note), Event()

    def keep() -> None:
        with suppress(HoldLost):  # somebody resumed it
            while not ended.wait(1):
                hold.keep(channel)

    with (
        GroupChannel(operator.live.cluster, operator.live.group) as channel,
        ThreadPoolExecutor() as pool,
    ):
        hold.capture(channel, operator.live.places_of(*numbers))
        keeping_it = pool.submit(keep)
        try:
            operator.live.applications.until(lambda _: operator.paused == sorted(numbers))
            yield
        finally:
            ended.set()
        keeping_it.result()


def test_a_foreign_hold_is_shown_and_resumed_by_force(operator: CommandOperator) -> None:
    """Without --force it is left alone; with it, it ends, and the override is recorded."""
    with held_by_bob(operator, 3):
        (row,) = operator.rows("--group", operator.live.group)
        names = ("hold_status", "paused_by", "host", "partition", "reason")
        told = [row[name] for name in names]
        assert ["foreign", "bob", "elsewhere", 3, "an incident"] == told

        refused = operator("resume", "--approve", "0" * 16, "--reason", "a test")
        assert (3, [3]) == (refused.returncode, operator.paused)
        assert "block: foreign-hold: " in refused.stderr

        done = operator.change("resume", "--force")
        assert (0, []) == (done.returncode, operator.paused), done.stderr
    log = json.loads(operator.call("audit", "list", "--output", "json").stdout)
    assert "foreign-hold" in str(log[-1])


def test_later_pauses_of_another_operator_stay(
    operator: CommandOperator, offsetbook_main: Command, tmp_path: Path
) -> None:
    """The undo of an earlier pause, and a resume planned before, leave them alone."""
    operator.change("pause", "--topic", operator.live.scope(3), "--detach")
    log = json.loads(operator.call("audit", "list", "--output", "json").stdout)
    (run,) = (row["run"] for row in log if row["intent"] == "pause")
    path = tmp_path / "resume.json"
    operator.call("plan", "resume", "--group", operator.live.group, "--out", str(path))
    planned = json.loads(path.read_text("utf-8"))["fingerprint"]
    operator.change("resume")

    with held_by_bob(operator, 3):
        approval = ("--reason", "a test", "--approve")
        undone = operator.call("undo", run, *approval, "0" * 16)
        applied = offsetbook_main("apply", str(path), *approval, planned, fleet=operator.fleet)
        left = operator.paused
        operator.change("resume", "--force")

    assert (3, 3, [3]) == (undone.returncode, applied.returncode, left)
    assert "block: foreign-hold: " in undone.stderr
    assert f"foreign-hold ({operator.live.group}): " in applied.stderr


def test_paused_partitions_are_listed(operator: CommandOperator) -> None:
    """Who, where, since when, until when and why; and the state of a hold without a keeper."""
    operator.change("pause", "--topic", operator.live.scope(2), "--for", "1h", "--detach")

    (row,) = operator.rows("--all-groups")
    assert ("held", "a test", 2) == (row["hold_status"], row["reason"], row["partition"])
    assert Operator.here() == (row["paused_by"], row["host"])
    assert row["paused_until"] > row["paused_since"]
    assert 45 == row["survives_keeper_s"]
    table = operator.call("paused-partitions").stdout
    assert operator.live.group in table
    health = operator("health", "--sample-interval", "1s", "--stuck-after", "1h", "-o", "csv")
    assert f"{operator.live.group},held," in health.stdout, health.stdout
    assert f"1 of 6 partitions: paused by {' @ '.join(Operator.here())}" in health.stdout

    state = operator.fleet.parent / "state"
    (path,) = state.glob("holds/*/*.json")
    kill_keepers(path)
    assert ["orphaned"] == [row["hold_status"] for row in operator.rows()]
    done = operator.change("resume")
    assert (0, [], []) == (done.returncode, operator.paused, operator.rows()), done.stderr


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--topic", "nope"), 3, "no-such-partition"),
        (("--topic", "TOPIC:x"), 2, "not a partition number"),
        ((), 2, "no topic given"),
        (("--topic", "TOPIC:1", "--for", "soon"), 2, "is not a duration"),
        (("--topic", "TOPIC:1", "--group", "other"), 2, "exactly one group"),
    ],
)
def test_bad_input(
    operator: CommandOperator,
    options: tuple[str, ...],
    code: int,
    says: str,
    offsetbook_main: Command,
) -> None:
    """Each ends with its exit code and names what is wrong, and nothing is paused."""
    words = [word.replace("TOPIC", operator.live.topics[0]) for word in options]
    done = offsetbook_main("pause", "--group", operator.live.group, *words, fleet=operator.fleet)

    assert (code, []) == (done.returncode, operator.paused)
    assert says in done.stderr


def test_a_move_of_a_live_group(operator: CommandOperator) -> None:
    """No consumer is stopped, and what is moved is delivered from where it went."""
    begin = time.time()

    done = operator.change("move", "--topic", operator.live.scope(3), "--to-offset", "0")

    assert (0, []) == (done.returncode, operator.paused), done.stderr
    assert "undoes it" in done.stderr
    (place,) = operator.live.places_of(3)
    until = operator.live.applications.until
    until(lambda all_: any(o.place == place and o.at > begin and not o.offset for o in all_))


def test_a_plan_file_of_a_pause(operator: CommandOperator, tmp_path: Path) -> None:
    """What was reviewed as a file is applied as it is, and held in the background."""
    path = tmp_path / "plan.json"
    made = operator("plan", "pause")  # the group's option belongs to the command behind it
    assert 2 == made.returncode
    where = ("--group", operator.live.group, "--topic", operator.live.scope(5))
    made = operator.call("plan", "pause", *where, "--out", str(path))
    assert (0, []) == (made.returncode, operator.paused), made.stderr
    fingerprint = made.stderr.rpartition("--approve ")[2].split()[0]

    done = operator.call("apply", str(path), "--approve", fingerprint, "--reason", "a test")
    assert (0, [5]) == (done.returncode, operator.paused), done.stderr


def test_a_plan_file_of_a_move(operator: CommandOperator, tmp_path: Path) -> None:
    """It says where to; the offsets of now are computed when it is applied."""
    path = tmp_path / "plan.json"
    where = ("--group", operator.live.group, "--topic", operator.live.scope(2))
    made = operator.call("plan", "move", *where, "--to-offset", "0", "--out", str(path))
    assert 0 == made.returncode, made.stderr
    fingerprint, begin = made.stderr.rpartition("--approve ")[2].split()[0], time.time()

    done = operator.call("apply", str(path), "--approve", fingerprint, "--reason", "a test")

    assert (0, []) == (done.returncode, operator.paused), done.stderr
    (place,) = operator.live.places_of(2)
    until = operator.live.applications.until
    until(lambda all_: any(o.place == place and o.at > begin and not o.offset for o in all_))


@pytest.mark.parametrize(("answer", "held"), [("resume", []), ("keep", [1])])
def test_ctrl_c_in_the_foreground(operator: CommandOperator, answer: str, held: list[int]) -> None:
    """It asks whether to go on holding in the background or to resume, and does so."""
    words = ("pause", "--group", operator.live.group, "--topic", operator.live.scope(1))
    says = [
        ("to apply this: ", operator.live.group),
        ("audit log): ", "a test"),
        ("press Ctrl-C", CTRL_C),
        ("resume now", answer),
    ]
    code, seen = talk(words, operator.fleet, says=says)

    assert (0, held) == (code, operator.paused), seen


def test_a_container_that_is_stopped_resumes(
    operator: CommandOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM to a pause that is a container's command resumes: the keeper ends with it."""
    monkeypatch.setenv(OF_A_CONTAINER, "1")

    def stop() -> None:
        # Not while the pause is being applied, which a signal stops in its own way.
        is_held = partial(signal.getsignal, signal.SIGTERM)
        eventually(lambda: operator.paused and is_held() is signal.default_int_handler)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as a process begins
    try:
        with ThreadPoolExecutor(1) as docker:
            stopped = docker.submit(stop)
            done = operator.change("pause", "--topic", operator.live.scope(1))
    finally:
        signal.signal(signal.SIGTERM, before)

    assert stopped.result() is None
    assert (0, []) == (done.returncode, operator.paused), done.stderr
    log = operator.call("audit", "list", "--output", "json").stdout
    assert "Ctrl-C or SIGTERM while it was held in the foreground" in log


def test_a_foreground_hold_ends_in_time(operator: CommandOperator) -> None:
    """After --for it is resumed by itself, the command ends with 0, and that is recorded."""
    done = operator.change("pause", "--topic", operator.live.scope(1), "--for", "10s")

    assert (0, []) == (done.returncode, operator.paused), done.stderr
    assert "the pause has ended: the pause duration has ended" in done.stderr
    assert "end of the hold" in operator.call("audit", "list", "--output", "json").stdout


def test_the_flags_of_kip_1249(operator: CommandOperator) -> None:
    """Pause, list, reset what is paused and resume, with Kafka's own tool's flags."""

    def tool(*flags: str) -> CompletedProcess[str]:
        where = ("--bootstrap-server", operator.live.cluster.bootstrap_servers)
        return operator.call("consumer-groups", *where, "--group", operator.live.group, *flags)

    execute, scope = ("--execute", "--reason", "a test"), ("--topic", operator.live.scope(0, 1, 2))

    dry = tool(*scope, "--pause", "--dry-run")
    assert (0, []) == (dry.returncode, operator.paused), dry.stderr
    assert 3 == dry.stdout.count("Would be paused")
    done = tool(*scope, "--pause", *execute)
    assert (0, [0, 1, 2]) == (done.returncode, operator.paused), done.stderr
    assert ["TOPIC", "PARTITION", "STATUS"] == done.stdout.split()[:3]

    listed = tool("--paused-partitions")
    assert (0, 3) == (listed.returncode, listed.stdout.count(" held\n")), listed.stderr
    assert 3 == len(json.loads(tool("--paused-partitions", "--output", "json").stdout))
    live = tool("--topic", operator.live.scope(3), "--reset-offsets", "--shift-by", "-3", *execute)
    assert (3, True) == (live.returncode, "or use 'offsetbook move'" in live.stderr)
    before = operator.committed(1)
    done = tool("--topic", operator.live.scope(1), "--reset-offsets", "--shift-by", "-3", *execute)
    assert (0, before - 3) == (done.returncode, operator.committed(1)), done.stderr

    done = tool("--topic", operator.live.scope(1), "--resume", *execute)
    assert (0, [0, 2]) == (done.returncode, operator.paused), done.stderr
    assert "Resumed" in done.stdout
    with pytest.raises(UsageError, match="--pause needs one of --topic"):
        tool("--pause")
