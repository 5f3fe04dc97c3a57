"""Changes through the real tool's flags: approved, recorded, told, and taken back."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from toolkit.model import TopicPartition


def test_execute_is_recorded_and_can_be_undone(shell: Any) -> None:
    """What --execute did on a bare address is undone without a fleet file."""
    group, _ = shell.idle(5, 6)
    before = shell.held(group)
    done = shell.execute("--reset-offsets", "--group", group, "--all-topics", "--to-earliest")
    after = shell.held(group)
    (_, outcome) = shell.operator.log
    assert 1 == shell.runs
    approve = ("--approve", "0" * 16, "--reason", "a test")
    refused = shell.offsetbook("undo", outcome.run.run_id, *approve)
    fingerprint = refused.stderr.split("this plan is ")[1].partition(":")[0]
    flags = ("--approve", fingerprint, "--reason", "a slip", "--override", "keeps-committing")
    undone = shell.offsetbook("undo", outcome.run.run_id, *flags)

    assert (0, {0}) == (done.returncode, set(after.values()))
    assert ("a test", shell.apps.address) == (outcome.run.reason, outcome.cluster)
    assert (0, before) == (undone.returncode, shell.held(group)), undone.stderr


def test_what_was_read_back_is_shown(shell: Any) -> None:
    """The table of --execute has the tool's columns, a row for each partition meant, in order."""
    topic = shell.topic()
    group = shell.group({(topic, 2): 5, (topic, 0): 3})
    done = shell.execute("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "3")

    assert "" == done.stdout.splitlines()[0]
    assert [
        ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"],
        [group, topic, "0", "3"],
        [group, topic, "2", "3"],
    ] == [line.split() for line in done.stdout.splitlines()[1:]]


def test_nothing_is_shown_as_done_that_was_blocked(shell: Any) -> None:
    """The rule is named with the flag that goes on; with it the change is made."""
    group, topic = shell.idle(5)
    flags = ("--reset-offsets", "--group", group, "--all-topics", "--to-latest")
    blocked = shell.execute(*flags)
    override = "--override skips-unread-records"
    done = shell.execute(*flags, *override.split())

    assert (3, "", True) == (blocked.returncode, blocked.stdout, override in blocked.stderr)
    assert (0, {TopicPartition(topic, 0): 20}) == (done.returncode, shell.held(group))


@pytest.mark.parametrize(
    "action", ["--reset-offsets --all-topics --to-earliest", "--delete", "--delete-offsets"]
)
def test_a_reason_is_required(shell: Any, action: str) -> None:
    """--execute without a reason is exit 3 where nobody can be asked, and names the flag."""
    group, topic = shell.idle(5, 5)
    more = ("--topic", f"{topic}:0") if action == "--delete-offsets" else ()
    done = shell(
        *action.split(), "--group", group, *more, "--execute", "--override", "keeps-committing"
    )

    assert (3, True) == (done.returncode, "Try: add --reason TEXT" in done.stderr)
    assert (2, 0) == (len(shell.held(group)), shell.runs)


def test_a_reason_of_the_environment(shell: Any) -> None:
    """A script that was written for the real tool gives none, and sets it for all its commands."""
    group, topic = shell.idle(5)
    flags = ("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "3")
    override = ("--override", "keeps-committing")

    done = shell(*flags, "--execute", *override, OFFSETBOOK_REASON="the nightly job")
    assert 0 == done.returncode, done.stderr
    again = [flag if flag != "3" else "2" for flag in flags]
    told = ("--execute", "--reason", "this one", *override)
    assert 0 == shell(*again, *told, OFFSETBOOK_REASON="the nightly job").returncode
    intents = [entry for entry in shell.operator.log if entry.event == "intent"]
    assert ["the nightly job", "this one"] == [entry.run.reason for entry in intents]
    assert 0 == shell("--list", OFFSETBOOK_REASON="the nightly job").returncode


def test_a_reason_can_be_optional(shell: Any, tmp_path: Path) -> None:
    """Where the fleet file says so for the cluster, a script of the real tool works as it is."""
    group, topic = shell.idle(5)
    fleet = tmp_path / "fleet.yaml"
    cluster = f"{{bootstrap.servers: '{shell.apps.address}', reason: optional}}"
    fleet.write_text(f"clusters:\n  eu: {cluster}\n", "utf-8")
    flags = ("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "3")
    done = shell(
        *(*flags, "--execute", "--override", "keeps-committing"), OFFSETBOOK_FLEET=str(fleet)
    )

    assert 0 == done.returncode, done.stderr
    assert {TopicPartition(topic, 0): 3} == shell.held(group)
    assert [""] == [entry.run.reason for entry in shell.operator.log if entry.event == "intent"]


def test_neither_flag_is_a_dry_run(shell: Any) -> None:
    """As under the tool, a reset without --execute shows what it would do, and says so."""
    group, topic = shell.idle(5)
    done = shell("--reset-offsets", "--group", group, "--all-topics", "--to-earliest")

    assert [group, topic, "0", "0"] == done.stdout.splitlines()[-1].split()
    assert 0 == done.returncode
    assert "nothing was changed: add --execute to apply" in done.stderr
    assert {TopicPartition(topic, 0): 5} == shell.held(group)


def test_a_fingerprint_approves_one_plan(shell: Any) -> None:
    """--approve in the place of --execute makes exactly the change that was looked at."""
    group, topic = shell.idle(5)
    flags = ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest")
    fingerprint = shell(*flags, "--dry-run").stderr.split("Fingerprint: ")[1].strip()
    reason = ("--reason", "a test", "--override", "keeps-committing")
    wrong = shell(*flags, "--approve", "f" * 16, *reason)
    done = shell(*flags, "--approve", fingerprint, *reason)

    assert (3, 0) == (wrong.returncode, done.returncode)
    assert {TopicPartition(topic, 0): 0} == shell.held(group)


def test_delete(shell: Any) -> None:
    """Groups are deleted with the tool's words, and are gone."""
    topic = shell.topic()
    one, two = shell.group({(topic, 0): 5}), shell.group({(topic, 0): 5})
    done = shell.execute("--delete", "--group", one, "--group", two)

    assert 0 == done.returncode, done.stderr
    assert f"Deletion of requested consumer groups ('{one}', '{two}') was successful.\n" == (
        done.stdout
    )
    assert [None, None] == [shell.held(one), shell.held(two)]


def test_delete_offsets(shell: Any) -> None:
    """Offsets are deleted per partition, in the tool's table."""
    group, topic = shell.idle(5, 5, 5)
    done = shell.execute("--delete-offsets", "--group", group, "--topic", f"{topic}:0,1")

    assert (0, {TopicPartition(topic, 2): 5}) == (done.returncode, shell.held(group))
    assert [
        [],
        ["TOPIC", "PARTITION", "STATUS"],
        [topic, "0", "Successful"],
        [topic, "1", "Successful"],
    ] == [line.split() for line in done.stdout.splitlines()]


def test_delete_offsets_of_a_live_group(shell: Any) -> None:
    """O01, O02: of a live group, offsets of a topic that nobody subscribes to are deleted."""
    read, left = shell.topic(), shell.topic()
    group = shell.apps.name("live")
    member = shell.apps.join(group, [read])
    places = [shell.apps.position(TopicPartition(topic, 0), 5) for topic in (read, left)]
    member.commit(offsets=places, asynchronous=False)
    refused = shell.execute("--delete-offsets", "--group", group, "--topic", read)
    done = shell.execute("--delete-offsets", "--group", group, "--topic", left)

    assert (3, True) == (refused.returncode, f"{group}-client @ /127.0.0.1" in refused.stderr)
    assert (0, {TopicPartition(read, 0): 5}) == (done.returncode, shell.held(group)), done.stderr


def test_delete_offsets_of_a_topic_that_is_not_there(shell: Any) -> None:
    """O06, O08: a missing topic or partition blocks the others, which the tool deletes."""
    group, topic = shell.idle(5, 5)
    flags = ("--delete-offsets", "--group", group, "--topic", f"{topic}:0,9", "--topic", "nowhere")
    done = shell.execute(*flags)

    assert (3, "", 2) == (done.returncode, done.stdout, len(shell.held(group)))
    assert f"{topic}: the partition does not exist: 9" in done.stderr
    assert "nowhere: the topic does not exist" in done.stderr


def test_offsets_of_another_cluster_block(shell: Any, tmp_path: Path) -> None:
    """A file that says which cluster its offsets are of is not believed about another one."""
    group, topic = shell.idle(5)
    offset = {"topic": topic, "partition": 0, "offset": 2, "leader_epoch": None}
    offset |= {"metadata": "", "committed_at": None}
    saved = {
        "format": "offsetbook offsets 1",
        "cluster": "there",
        "cluster_id": "of another cluster",
        "taken_at": "2026-03-01T12:00:00Z",
        "topic_ids": [],
        "groups": [{"group": group, "type": "simple", "offsets": [offset]}],
    }
    file = tmp_path / "saved.json"
    file.write_text(json.dumps(saved))
    done = shell.execute("--reset-offsets", "--group", group, "--from-file", str(file))

    assert 3 == done.returncode, done.stderr
    assert {TopicPartition(topic, 0): 5} == shell.held(group)
    assert "block: other-cluster" in done.stderr


@pytest.mark.parametrize("output", ["json", "csv"])
def test_programs_get_one_frame(shell: Any, output: str) -> None:
    """With --output stdout has the plan where nothing is done, and the outcome where it is."""
    group, _ = shell.idle(5)
    flags = ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest")
    form = ("--output", output)
    plan, outcome = (
        _rows(done.stdout, output)
        for done in (shell(*flags, "--dry-run", *form), shell.execute(*flags, *form))
    )

    assert [(group, "5", "0")] == [(r["group"], str(r["before"]), str(r["after"])) for r in plan]
    assert [("done", "0")] == [(row["status"], str(row["read_back"])) for row in outcome]


def _rows(text: str, output: str) -> list[dict[str, Any]]:
    if output == "json":
        return list(json.loads(text))
    return list(csv.DictReader(io.StringIO(text)))


def test_export_leaves_errors_on_stderr(shell: Any) -> None:
    """R37f: with a live group beside an idle one, stdout has CSV and nothing else."""
    topic = shell.topic()
    idle, live = shell.group({(topic, 0): 5}), shell.apps.name("live")
    shell.apps.join(live, [topic])
    given = ("--group", idle, "--group", live, "--all-topics", "--to-current", "--export")
    done = shell("--reset-offsets", *given, "--dry-run")

    assert (3, f"{idle},{topic},0,5\n") == (done.returncode, done.stdout)
    assert f"block: group-live: {live}" in done.stderr


Typed = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def typed(shell: Any) -> Typed:
    """Return a function that runs the command at a terminal, and types answers."""
    program = shutil.which("offsetbook", path=str(Path(sys.executable).parent))

    def run(*arguments: str, answers: tuple[str, ...]) -> CompletedProcess[str]:
        command = [program, "consumer-groups", "--bootstrap-server", shell.apps.address, *arguments]
        ours, theirs = pty.openpty()
        try:
            os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
            done = subprocess.run(
                command,
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=theirs,
                env={**os.environ, "OFFSETBOOK_STATE": str(shell.operator.state)},
                check=False,
            )
            os.close(theirs)
            return CompletedProcess(command, done.returncode, done.stdout.decode(), _said(ours))
        finally:
            os.close(ours)

    return run


def _said(terminal: int) -> str:
    said = b""
    with suppress(OSError):  # the end of what a terminal has to say
        while more := os.read(terminal, 4096):
            said += more
    return said.decode()


def test_a_deletion_is_typed(shell: Any, typed: Typed) -> None:
    """Without --execute the group's name is typed, and why; a slip deletes nothing."""
    group, _ = shell.idle(5)
    flags = ("--delete", "--group", group, "--override", "keeps-committing")
    slip = typed(*flags, answers=("another",))
    kept = shell.held(group)
    done = typed(*flags, answers=(group, "no longer used"))
    (_, outcome) = shell.operator.log

    assert (3, True) == (slip.returncode, f"you typed 'another', expected '{group}'" in slip.stderr)
    assert f"These consumer groups would be deleted: '{group}'\n" == slip.stdout
    assert 1 == len(kept)
    assert (0, None) == (done.returncode, shell.held(group)), done.stderr
    assert "no longer used" == outcome.run.reason


def test_a_reason_is_asked_for(shell: Any, typed: Typed) -> None:
    """--execute without --reason asks why, and nothing else."""
    group, _ = shell.idle(5)
    flags = ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute")
    done = typed(*flags, "--override", "keeps-committing", answers=("a replay",))
    (_, outcome) = shell.operator.log

    assert (0, {0}) == (done.returncode, set(shell.held(group).values())), done.stderr
    assert "a replay" == outcome.run.reason
