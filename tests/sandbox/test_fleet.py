"""The sandbox as a whole: up, up again, down, and what a crash leaves."""

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import yaml
from click.testing import CliRunner

from toolkit.cli.sandbox import command
from toolkit.errors import SandboxFailed, UsageError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter, WriteResult
from toolkit.model import Cluster
from toolkit.sandbox import fleet
from toolkit.sandbox.fleet import Sandbox
from toolkit.sandbox.process import end, running, spawn

pytestmark = pytest.mark.starts("brokers")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path_factory.mktemp("fleet"))
    try:
        yield sandbox
    finally:
        sandbox.down()


@pytest.fixture
def bare(shared: Sandbox) -> Sandbox:
    """Return a sandbox with one empty cluster that runs, whatever the test before did to it."""
    shared.up(["eu"], seed=False)
    return shared


def kill(pid: int | None) -> None:
    process = psutil.Process(pid)
    process.kill()
    process.wait()


def test_up_twice_is_harmless(bare: Sandbox) -> None:
    """The second up says that the cluster runs already, and the fleet file leads to all that is."""
    (before,) = bare.status()
    steps: list[str] = []

    clusters = bare.up(["eu"], seed=False, on_step=steps.append)

    (after,) = bare.status()
    assert (after.pids, after.state) == (before.pids, "running")
    assert clusters == [Cluster("eu", before.address)]
    assert steps == ["eu is already running"]
    assert yaml.safe_load(bare.fleet_file.read_text(encoding="utf-8")) == {
        "clusters": {"eu": {"bootstrap.servers": before.address}},
        "state": "state",
    }


def test_a_fresh_cluster_leaves_the_others(bare: Sandbox) -> None:
    """Those that are not named go on, with their data, and stay in the fleet file."""
    (before,) = bare.status()

    bare.up(["us"], seed=False, fresh=True)

    try:
        assert before == bare.status()[0]
        written = yaml.safe_load(bare.fleet_file.read_text(encoding="utf-8"))
        assert ["eu", "us"] == list(written["clusters"])
    finally:
        bare.down(["us"])
        shutil.rmtree(bare.state_dir / "us")
    assert [before] == bare.status()


@pytest.mark.slow("seeds a sandbox")
def test_up_replaces_a_killed_broker(bare: Sandbox) -> None:
    """A broker that was killed is seen as stopped, and up starts it at the same address."""
    (before,) = bare.status()
    kill(*before.pids)

    assert bare.status()[0].state == "stopped"
    bare.up(["eu"], seed=False)

    (after,) = bare.status()
    assert after.state == "running"
    assert after.address == before.address
    assert after.pids != before.pids


def test_down_after_a_killed_broker(bare: Sandbox) -> None:
    """Down has nothing to end when the broker was killed, and says so instead of failing."""
    (before,) = bare.status()
    kill(*before.pids)

    assert bare.down() == []


@pytest.mark.slow("seeds a sandbox")
def test_signs_of_the_dead_are_not_believed(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where applications were killed, up goes on until all signs have held for a while."""
    record = bare.state_dir / "eu" / "applications.process"
    record.write_text("{}", encoding="utf-8")
    looks = iter([{}, {"payments": "state is PreparingRebalance"}, {}])
    clock = itertools.accumulate(itertools.repeat(0.1))  # each look at it is a little later
    looked_at: list[float] = []

    def look(*_: object) -> object:
        looked_at.append(next(clock))
        return next(looks, {})

    monkeypatch.setattr(fleet, "missing_signs", look)
    timing = SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None)
    monkeypatch.setattr(fleet, "time", timing)

    bare.up(["eu"])
    bare.down()

    _, missing_at, *_, last_at = looked_at
    assert 0 <= last_at - missing_at - fleet.STEADY_S < 1


@pytest.mark.slow("seeds a sandbox")
def test_up_after_a_problem_was_solved(bare: Sandbox) -> None:
    """Solved problems do not keep a sandbox from starting again; a fresh one has them back."""
    steps: list[str] = []
    (before,) = bare.up(["eu"], seed=False)
    with Connection(before) as connection:
        first_id = connection.cluster_id

    (cluster,) = bare.up(["eu"], fresh=True)
    with Connection(cluster) as connection:
        assert first_id != connection.cluster_id
        assert {} == bare.status()[0].missing
        assert WriteResult() == GroupWriter(connection).delete_group("nightly-export")
    bare.up(["eu"], on_step=steps.append)

    assert ["nightly-export"] == list(bare.status()[0].missing)
    assert "eu: not as seeded any more: nightly-export; --fresh seeds the sandbox again" in steps
    bare.down()
    bare.up(["eu"])
    bare.down()


def test_a_stale_record_never_ends_another_process(tmp_path: Path) -> None:
    """A process with the recorded id but other arguments lives on."""
    directory = tmp_path / "eu"
    directory.mkdir()
    known = {"version": "4.3.1", "port": 1, "controller_port": 2}
    (directory / "broker.json").write_text(json.dumps(known), encoding="utf-8")
    stranger = psutil.Popen(["sleep", "60"])
    try:
        record = {"pid": stranger.pid, "arguments": ["61"]}
        (directory / "broker.process").write_text(json.dumps(record), encoding="utf-8")
        sandbox = Sandbox(tmp_path)

        assert sandbox.status()[0].state == "stopped"
        assert sandbox.down() == []
        assert stranger.is_running()
    finally:
        stranger.kill()
        stranger.wait()


def test_a_clock_that_was_set_loses_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a laptop woke up, what was started before is still known, and ended."""
    record = tmp_path / "sleep.process"
    child = spawn(["sleep", "60"], record=record, log=tmp_path / "log")
    before = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: before(process) + 1)

    assert running(record)
    assert end(record)
    assert child.poll() is not None


def test_ending_applications_are_reported(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Applications that do not start fail the command with their own last words, at once."""
    monkeypatch.setattr(fleet.sys, "executable", "/bin/false")

    with pytest.raises(SandboxFailed, match=r"the applications of eu ended.*applications\.log"):
        bare.up(["eu"])


@pytest.mark.parametrize("names", [[], ["eu", "eu"], ["../eu"], ["-x"], ["demo"]])
def test_names_that_cannot_be_directories_are_refused(tmp_path: Path, names: list[str]) -> None:
    """A cluster's name becomes a directory, so a bad one is refused before anything starts."""
    with pytest.raises(UsageError):
        Sandbox(tmp_path).up(names)


def test_commands_print_the_table_to_stdout(bare: Sandbox) -> None:
    """`sandbox status` prints the cluster on stdout; `down` says on stderr what it stopped."""
    at = ["--state-dir", str(bare.state_dir)]

    status = CliRunner().invoke(command, ["status", "--output", "json", *at])
    down = CliRunner().invoke(command, ["down", *at])

    assert json.loads(status.stdout)[0]["state"] == "running"
    assert "1 process stopped" in down.stderr
    assert down.stdout == ""


def test_status_of_nothing_is_not_an_error(tmp_path: Path) -> None:
    """Where no sandbox was ever started, status and down say so and succeed."""
    for name in ("status", "down"):
        said = CliRunner().invoke(command, [name, "--state-dir", str(tmp_path / "none")])

        assert said.exit_code == 0
        assert said.stderr
