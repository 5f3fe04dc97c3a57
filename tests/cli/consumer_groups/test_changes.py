"""Changes through the real tool's flags: approved, recorded, told, and taken back."""

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from main_program import rows_of
from terminal import CTRL_C, talk

from toolkit.model import Commit, TopicPartition
from toolkit.plan.saved_offsets import SavedOffsets
from toolkit.storage.offsets_files import json_text

QUICK = ("--override", "keeps-committing")
TO_EARLIEST = ("--reset-offsets", "--all-topics", "--to-earliest", "--group")


def test_execute_is_recorded_and_can_be_undone(shell: Any) -> None:
    """--execute shows what was read back in the tool's table; undo needs no fleet file."""
    topic = shell.topic()
    group = shell.group({(topic, 2): 5, (topic, 0): 3})
    before = shell.held(group)
    done = shell.execute(*TO_EARLIEST, group)
    after = shell.held(group)
    (_, outcome) = shell.operator.log
    assert 1 == shell.runs
    approve = ("--approve", "0" * 16, "--reason", "a test")
    refused = shell.offsetbook("undo", outcome.run.run_id, *approve)
    fingerprint = refused.stderr.split("this plan is ")[1].partition(":")[0]
    approve = ("--approve", fingerprint, "--reason", "a slip", *QUICK)
    undone = shell.offsetbook("undo", outcome.run.run_id, *approve)

    assert (0, {0}) == (done.returncode, set(after.values()))
    assert [
        [],
        ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"],
        [group, topic, "0", "0"],
        [group, topic, "2", "0"],
    ] == [line.split() for line in done.stdout.splitlines()]
    assert ("a test", shell.apps.address) == (outcome.run.reason, outcome.cluster)
    assert (0, before) == (undone.returncode, shell.held(group)), undone.stderr


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
    """--execute without a reason and without a terminal exits with 3, and names the flag."""
    group, topic = shell.idle(5, 5)
    more = ("--topic", f"{topic}:0") if action == "--delete-offsets" else ()
    done = shell(*action.split(), "--group", group, *more, "--execute", *QUICK)

    assert (3, True) == (done.returncode, "Try: add --reason TEXT" in done.stderr)
    assert (2, 0) == (len(shell.held(group)), shell.runs)


def test_a_reason_of_the_environment(shell: Any) -> None:
    """A script that was written for the real tool gives none, and sets it for all its commands."""
    group, topic = shell.idle(5)
    flags = ("--reset-offsets", "--group", group, "--topic", topic, "--execute", *QUICK)
    nightly = {"OFFSETBOOK_REASON": "the nightly job"}

    done = shell(*flags, "--to-offset", "3", **nightly)
    assert 0 == done.returncode, done.stderr
    done = shell(*flags, "--to-offset", "2", "--reason", "this one", **nightly)
    assert 0 == done.returncode, done.stderr
    intents = [entry for entry in shell.operator.log if entry.event == "intent"]
    assert ["the nightly job", "this one"] == [entry.run.reason for entry in intents]
    assert 0 == shell("--list", **nightly).returncode


def test_a_reason_can_be_optional(shell: Any, tmp_path: Path) -> None:
    """Where the fleet file says so for the cluster, a script of the real tool works as it is."""
    group, topic = shell.idle(5)
    fleet = tmp_path / "fleet.yaml"
    cluster = f"{{bootstrap.servers: '{shell.apps.address}', reason: optional}}"
    fleet.write_text(f"clusters:\n  eu: {cluster}\n", "utf-8")
    done = shell(*TO_EARLIEST, group, "--execute", *QUICK, OFFSETBOOK_FLEET=str(fleet))

    assert (0, {TopicPartition(topic, 0): 0}) == (done.returncode, shell.held(group)), done.stderr
    assert [""] == [entry.run.reason for entry in shell.operator.log if entry.event == "intent"]


def test_neither_flag_is_a_dry_run(shell: Any) -> None:
    """As under the tool, a reset without --execute shows what it would do, and says so."""
    group, topic = shell.idle(5)
    done = shell(*TO_EARLIEST, group)

    assert [group, topic, "0", "0"] == done.stdout.splitlines()[-1].split()
    assert 0 == done.returncode
    assert "nothing was changed: add --execute to apply" in done.stderr
    assert {TopicPartition(topic, 0): 5} == shell.held(group)


def test_a_fingerprint_approves_one_plan(shell: Any) -> None:
    """--approve in the place of --execute makes exactly the change that was looked at."""
    group, topic = shell.idle(5)
    fingerprint = shell(*TO_EARLIEST, group, "--dry-run").stderr.split("Fingerprint: ")[1].strip()
    wrong, done = (
        shell(*TO_EARLIEST, group, "--approve", approved, "--reason", "a test", *QUICK)
        for approved in ("f" * 16, fingerprint)
    )

    assert (3, 0) == (wrong.returncode, done.returncode)
    assert {TopicPartition(topic, 0): 0} == shell.held(group)


def test_delete(shell: Any) -> None:
    """With --execute groups are deleted, with the tool's words; without, they are only named."""
    topic = shell.topic()
    one, two = shell.group({(topic, 0): 5}), shell.group({(topic, 0): 5})
    flags = ("--delete", "--group", one, "--group", two)
    shown = shell(*flags)
    assert [{TopicPartition(topic, 0): 5}] * 2 == [shell.held(one), shell.held(two)]
    done = shell.execute(*flags)

    assert (3, 0) == (shown.returncode, done.returncode), done.stderr
    assert "not approved: nothing was changed. Try: add --execute --reason TEXT" in shown.stderr
    assert [
        f"These consumer groups would be deleted: '{one}', '{two}'\n",
        f"Deletion of requested consumer groups ('{one}', '{two}') was successful.\n",
    ] == [shown.stdout, done.stdout]
    assert [None, None] == [shell.held(one), shell.held(two)]


def test_delete_offsets(shell: Any) -> None:
    """With --execute offsets are deleted per partition, in the tool's table."""
    group, topic = shell.idle(5, 5, 5)
    flags = ("--delete-offsets", "--group", group, "--topic", f"{topic}:0,1")
    shown = shell(*flags)
    assert (3, 3) == (shown.returncode, len(shell.held(group)))
    done = shell.execute(*flags)

    assert (0, {TopicPartition(topic, 2): 5}) == (done.returncode, shell.held(group))
    assert [
        [],
        ["TOPIC", "PARTITION", "STATUS"],
        [topic, "0", "Successful"],
        [topic, "1", "Successful"],
    ] == [line.split() for line in done.stdout.splitlines()]


def test_offsets_of_another_cluster_block(shell: Any, tmp_path: Path) -> None:
    """A file that says which cluster its offsets are of is not believed about another one."""
    group, topic = shell.idle(5)
    file, taken_at = tmp_path / "saved.json", datetime(2026, 3, 1, 12, tzinfo=UTC)
    file.write_text(
        json_text(SavedOffsets((Commit(group, topic, 0, 2),), "there", "another", taken_at))
    )
    done = shell.execute("--reset-offsets", "--group", group, "--from-file", str(file))

    assert (3, {TopicPartition(topic, 0): 5}) == (done.returncode, shell.held(group)), done.stderr
    assert "block: other-cluster" in done.stderr


@pytest.mark.parametrize("output", ["json", "csv"])
def test_programs_get_one_frame(shell: Any, output: str) -> None:
    """With --output stdout has the plan where nothing is done, and the outcome where it is."""
    group, _ = shell.idle(5)
    flags = (*TO_EARLIEST, group, "--output", output)
    plan, outcome = rows_of(shell(*flags, "--dry-run")), rows_of(shell.execute(*flags))

    assert [(group, "5", "0")] == [(r["group"], str(r["before"]), str(r["after"])) for r in plan]
    assert [("done", "0")] == [(row["status"], str(row["read_back"])) for row in outcome]


def test_export_leaves_errors_on_stderr(shell: Any) -> None:
    """R37f: with a live group beside an idle one, stdout has CSV and nothing else."""
    topic = shell.topic()
    idle, live = shell.group({(topic, 0): 5}), shell.apps.name("live")
    shell.apps.join(live, [topic])
    given = ("--group", idle, "--group", live, "--all-topics", "--to-current", "--export")
    done = shell("--reset-offsets", *given, "--dry-run")

    assert (3, f"{idle},{topic},0,5\n") == (done.returncode, done.stdout)
    assert f"block: group-live: {live}" in done.stderr


Typed = Callable[..., tuple[int, str]]
NAME, REASON = "to apply this: ", "audit log): "


@pytest.fixture
def typed(shell: Any, fleet_of: Any, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Return a function that runs the command at a terminal, where somebody answers."""
    monkeypatch.setenv("OFFSETBOOK_STATE", str(shell.operator.state))
    where = ("consumer-groups", "--bootstrap-server", shell.apps.address)
    fleet = fleet_of(still=shell.apps.address)
    return lambda *flags, says: talk((*where, *flags, *QUICK), fleet, says=says)


@pytest.mark.parametrize("words", [("consumer-groups", "--delete"), ("delete-groups",)])
@pytest.mark.parametrize("output", ["json", "csv", "table"])
def test_a_name_is_asked_for_below_the_plan_only(
    shell: Any, fleet_of: Any, words: tuple[str, ...], output: str
) -> None:
    """The plan must be on the screen: not as data, nor piped into `less`."""
    group, _ = shell.idle(5)
    command = (*words, "--cluster", "still", "--group", group, "--output", output, *QUICK)
    stdout = subprocess.DEVNULL if output == "table" else None
    says = [(NAME, group), (REASON, "qqq")]
    code, seen = talk(command, fleet_of(still=shell.apps.address), says=says, stdout=stdout)

    assert (3, 1) == (code, len(shell.held(group))), seen
    assert "not approved: nothing was changed" in seen
    assert output == "table" or "time_distance" in seen


def test_a_deletion_is_typed(shell: Any, typed: Typed) -> None:
    """Without --execute the group's name is typed, and why; a slip deletes nothing."""
    group, _ = shell.idle(5)
    code, seen = typed("--delete", "--group", group, says=[(NAME, "another")])
    assert (3, 1) == (code, len(shell.held(group)))
    assert f"you typed 'another', expected '{group}'" in seen
    for answers in ([(NAME, CTRL_C)], [(NAME, group), (REASON, CTRL_C)]):
        code, seen = typed("--delete", "--group", group, says=answers)
        assert (3, 1) == (code, len(shell.held(group)))
        assert "not approved: nothing was changed" in seen

    answers = [(NAME, group), (REASON, "no longer used")]
    code, seen = typed("--delete", "--group", group, says=answers)
    assert (0, None) == (code, shell.held(group)), seen
    assert "no longer used" == shell.operator.log[-1].run.reason


def test_a_reason_is_asked_for(shell: Any, typed: Typed) -> None:
    """--execute without --reason asks why, and nothing else."""
    group, _ = shell.idle(5)
    code, seen = typed(*TO_EARLIEST, group, "--execute", says=[(REASON, "a replay")])

    assert (0, {0}) == (code, set(shell.held(group).values())), seen
    assert "a replay" == shell.operator.log[-1].run.reason
