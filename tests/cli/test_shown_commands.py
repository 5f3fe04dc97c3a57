"""A command that is shown for copying is in words that a shell reads, with the fleet file."""

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from applications import Applications
from idle_groups import idle_group
from main_program import Command

from toolkit.cli.change_flow import print_notices
from toolkit.cli.changes.pause import _print_background_pause
from toolkit.cli.consumer_groups.describe import _has_no_offsets
from toolkit.journeys.change.run_notices import RunNotice
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.model import Cluster, GroupState, GroupType, TopicPartition
from toolkit.plan import Action, Intent, Plan, Step
from toolkit.planning.selection.peek_places import PeekPlaces
from toolkit.report.peek_report import PeekReport

FLEET = Path("f g.yaml")
PLAIN = "payments"
# By whether there is something to quote: the group, the fleet file, and what is shown of that.
BOTH = pytest.mark.parametrize(
    ("group", "fleet", "where"), [(PLAIN, None, []), ("a b'$x", FLEET, ["--fleet", "f g.yaml"])]
)


def lines_with(command: str, text: str) -> list[list[str]]:
    """Return the words of each line of a text that is only such a command."""
    return [shlex.split(line) for line in text.splitlines() if line.startswith(command)]


@BOTH
def test_the_command_that_resumes(
    group: str, fleet: Path | None, where: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A plain one is in quotes, within its sentence; any other has a line of its own."""
    step = Step(group, Action.HOLD, (), GroupType.CLASSIC, GroupState.STABLE)
    plan = Plan(Intent.PAUSE, "pause", "eu", "id", datetime.now(UTC), (step,))
    access = ClusterAccess(Cluster("eu", "localhost:1"), Path("state"), fleet_file=fleet)
    planned: Any = SimpleNamespace(plan=plan, access=access)

    _print_background_pause(planned)

    words = ["offsetbook", "resume", *where, "--cluster", "eu", "--group", group]
    told, begin = capsys.readouterr().err, "paused in the background until resumed; to resume:"
    if not where:
        assert f"{begin} '{' '.join(words)}'\n" == told
    else:
        assert [begin, words] == [told.splitlines()[0], *lines_with("offsetbook", told)]


@BOTH
def test_the_commands_for_an_interrupted_run(
    group: str, fleet: Path | None, where: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is undone and finished under the same fleet file, which names the state directory."""
    print_notices([RunNotice(f"run r-1 of {group}", "r-1", "1234-5678")], fleet)

    undo = ["offsetbook", "undo", *where, "r-1"]
    approval = ["--approve", "1234-5678", "--reason", "TEXT"]
    finish = ["offsetbook", "apply", *where, "--run", "r-1", *approval]
    told = capsys.readouterr().err
    if not where:
        undone, finished = " ".join(undo), " ".join(finish)
        expected = f"run r-1 of {group}.\nTo undo it: '{undone}'; finish it with '{finished}'\n"
        assert expected == told
    else:
        assert [undo, finish] == lines_with("offsetbook", told)


@BOTH
def test_the_command_that_describes_a_share_group(
    group: str, fleet: Path | None, where: Sequence[str]
) -> None:
    """The hint of an error is one line, as every error is."""
    hint = _has_no_offsets(group, fleet).hint
    (command,) = re.findall("^'(.*)', or --members or --state$", hint)

    assert ["offsetbook", "groups", "describe", *where, group] == shlex.split(command)


@BOTH
def test_the_command_that_saves_records(
    group: str, fleet: Path | None, where: Sequence[str]
) -> None:
    """It reads the records of the same cluster."""
    places = PeekPlaces({TopicPartition("orders", 3): 5}, 0)
    request: Any = SimpleNamespace(before=1, after=2)
    read: Any = None
    report = PeekReport("eu", group, places, read, request, read, fleet)
    words = ["--cluster", "eu", "--group", group, "--topic", "orders:3", "--before", "1"]

    assert [
        *("offsetbook", "peek", *where, *words, "--after", "2", "--save", report.file_name)
    ] == shlex.split(report.save_command)


def test_the_shown_commands_work(
    apps: Applications, tmp_path: Path, offsetbook_here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan file is applied, and its run undone, with the commands as shown."""
    monkeypatch.chdir(tmp_path)
    FLEET.write_text(f"clusters: {{eu: {{bootstrap.servers: '{apps.address}'}}}}\nstate: state\n")
    group, _ = idle_group(apps, 5)
    where = ("--fleet", str(FLEET), "--group", group)
    nowhere = tmp_path / "none.yaml"

    planned = offsetbook_here(
        *("plan", "reset", *where, "--to-earliest", "--out", "a plan.json"), fleet=nowhere
    )
    ((_, *apply),) = lines_with("offsetbook apply", planned.stderr)
    assert ["apply", "--fleet", "f g.yaml", "a plan.json"] == apply[:4]
    applied = offsetbook_here(*apply, fleet=nowhere)
    ((_, *undo),) = lines_with("offsetbook undo", applied.stderr)
    undone = offsetbook_here(*undo, "--dry-run", fleet=nowhere)

    assert (0, 0) == (applied.returncode, undone.returncode)
    assert "undo run" in undone.stderr
