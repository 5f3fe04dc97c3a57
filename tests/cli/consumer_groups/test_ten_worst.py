"""The ten worst things that kafka-consumer-groups 4.3.1 was measured to do, each done right."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from toolkit.model import TopicPartition

DOWN = "127.0.0.1:1"


def blocked_by(done: Any) -> set[str]:
    """Return the rules that object."""
    return set(re.findall(r"^block: ([\w-]+)", done.stderr, re.MULTILINE))


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (("--dry-run",), 0, "dry run: nothing was changed"),
        ((), 3, "not approved: nothing was changed. Try: add --execute --reason TEXT"),
    ],
    ids=["dry run", "nobody to ask"],
)
@pytest.mark.parametrize("flags", [("--delete",), ("--delete-offsets", "--topic", "{topic}:0")])
def test_1_without_execute_nothing_is_deleted(
    shell: Any, flags: tuple[str, ...], more: tuple[str, ...], code: int, says: str
) -> None:
    """The tool deletes without being asked twice, and also with --dry-run."""
    group, topic = shell.idle(5, 5)
    given = [flag.replace("{topic}", topic) for flag in flags]
    done = shell(*given, "--group", group, *more)

    assert (code, 2) == (done.returncode, len(shell.held(group)))
    assert says in done.stderr
    assert 0 == shell.runs


FAILURES: dict[str, tuple[int, str]] = {
    "describe a missing group": (1, "--describe --group nobody"),
    "reset a live group": (3, "--reset-offsets --group {live} --all-topics --to-earliest"),
    "delete a live group": (3, "--delete --group {live}"),
    "delete a missing group": (3, "--delete --group nobody"),
    "delete offsets of a missing group": (3, "--delete-offsets --group nobody --topic {topic}"),
    "delete offsets of a missing topic": (3, "--delete-offsets --group {idle} --topic nowhere"),
    "reset a missing topic": (3, "--reset-offsets --group {idle} --topic nowhere --to-earliest"),
    "a live and an idle group": (3, "--delete --group {idle} --group {live}"),
    "a time that is none": (2, "--reset-offsets --group {idle} --all-topics --to-datetime soon"),
    "a file that is none": (2, "--reset-offsets --group {idle} --from-file {file}"),
    "a pattern that is none": (1, "--validate-regex (?=a)"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_2_a_failure_is_not_exit_0(shell: Any, case: str, tmp_path: Path) -> None:
    """The tool says 0 for a missing or live group, a missing topic, a malformed date or file."""
    code, flags = FAILURES[case]
    topic = shell.topic()
    idle, live = shell.group({(topic, 0): 5}), shell.apps.name("live")
    shell.apps.join(live, [topic])
    (tmp_path / "offsets.csv").write_text("not,a,number\n")
    filled = flags.format(live=live, idle=idle, topic=topic, file=tmp_path / "offsets.csv")
    changes = not filled.startswith(("--describe", "--validate"))
    done = (shell.execute if changes else shell)(*filled.split())

    assert code == done.returncode, done.stderr
    assert {TopicPartition(topic, 0): 5} == shell.held(idle)
    assert 0 == shell.runs
    # What went wrong is on stderr, and stdout has none of it.
    assert "rror" not in done.stdout


@pytest.mark.parametrize("flags", ["--list", "--describe --group g", "--delete --group g"])
def test_2_an_unreachable_cluster_is_exit_1(offsetbook: Any, flags: str) -> None:
    """Nobody answers: exit 1, in words, on stderr; the tool prints them to stdout and says 0."""
    given = ("consumer-groups", "--bootstrap-server", DOWN, "--timeout", "300")
    done = offsetbook(*given, *flags.split())

    assert (1, "") == (done.returncode, done.stdout)
    assert f"connecting to cluster {DOWN}" in done.stderr


def test_3_to_current_leaves_partitions_without_a_commit_alone(shell: Any) -> None:
    """The tool writes the log end there, so that all unread records are skipped."""
    group, topic = shell.idle(5)
    done = shell.execute("--reset-offsets", "--group", group, "--topic", topic, "--to-current")

    assert (0, {TopicPartition(topic, 0): 5}) == (done.returncode, shell.held(group))


def test_4_a_line_without_its_offset_is_refused(shell: Any, tmp_path: Path) -> None:
    """The tool resets the partition to 0."""
    group, topic = shell.idle(5, 5)
    file = tmp_path / "offsets.csv"
    file.write_text(f"{topic},0,7\n{topic},1\n")
    done = shell.execute("--reset-offsets", "--group", group, "--from-file", str(file))

    assert (2, {5}) == (done.returncode, set(shell.held(group).values()))
    assert "line 2 has 2 columns, expected topic,partition,offset" in done.stderr


def test_5_no_topic_is_added_to_a_group_that_never_used_it(shell: Any) -> None:
    """The tool writes a commit on the topic into the group, also into every one of --all-groups."""
    used, other = shell.topic(), shell.topic()
    group = shell.group({(used, 0): 5})
    flags = ("--topic", f"{other}:0", "--to-offset", "3")
    done = shell.execute("--reset-offsets", "--group", group, *flags)

    assert (3, {"topic-never-used"}) == (done.returncode, blocked_by(done))
    assert {TopicPartition(used, 0): 5} == shell.held(group)


def test_6_a_deleted_topic_does_not_hide_the_other_groups(shell: Any) -> None:
    """Under the tool, one live group that subscribed to it makes --all-groups print nothing."""
    kept, gone = shell.topic(), shell.topic(partitions=1)
    group, live = shell.group({(kept, 0): 5}), shell.apps.name("live")
    member = shell.apps.join(live, [gone])
    member.commit(offsets=[shell.apps.position(TopicPartition(gone, 0), 1)], asynchronous=False)
    shell.apps.delete_topic(gone)
    done = shell("--describe", "--all-groups")
    rows = [line.split()[:6] for line in done.stdout.splitlines()]

    assert [group, kept, "0", "5", "20", "15"] in rows


def test_7_a_partition_that_does_not_exist_is_named_at_once(shell: Any, tmp_path: Path) -> None:
    """The tool asks for metadata 409,000 times in 30 seconds, and then says 0."""
    group, topic = shell.idle(5)
    file = tmp_path / "offsets.csv"
    file.write_text(f"{topic},0,3\n{topic},99,3\n")
    done = shell.execute("--reset-offsets", "--group", group, "--from-file", str(file))

    assert (3, {"no-such-partition"}) == (done.returncode, blocked_by(done))
    assert f"partition 99: the partition does not exist: {topic} has 0-2" in done.stderr
    assert {TopicPartition(topic, 0): 5} == shell.held(group)


def test_8_a_misspelt_group_is_not_created(shell: Any) -> None:
    """The tool creates it, with commits at the end."""
    topic, name = shell.topic(), shell.apps.name("misspelt")
    flags = ("--topic", topic, "--to-latest", "--new-topics")
    done = shell.execute("--reset-offsets", "--group", name, *flags)

    assert (3, {"no-such-group"}) == (done.returncode, blocked_by(done))
    assert shell.held(name) is None


@contextmanager
def committing(shell: Any, group: str, topic: str) -> Iterator[None]:
    """Commit for a group again and again, as a consumer with assign() does."""
    ended = threading.Event()
    consumer = shell.apps.consumer(group)

    def commit() -> None:
        offset = 5
        while not ended.is_set():
            offset += 1
            position = shell.apps.position(TopicPartition(topic, 0), min(offset, 20))
            consumer.commit(offsets=[position], asynchronous=False)
            ended.wait(0.05)

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize(
    "flags", ["--reset-offsets --topic {topic} --to-earliest", "--delete"], ids=["reset", "delete"]
)
def test_9_a_group_that_keeps_committing_is_not_empty(
    shell: Any, flags: str, eventually: Callable[..., Any]
) -> None:
    """The tool reports success; the assign() consumer undoes the reset with its next commit."""
    group, topic = shell.idle(5)
    with committing(shell, group, topic):
        eventually(lambda: shell.held(group) != {TopicPartition(topic, 0): 5})
        given = flags.format(topic=topic).split()
        done = shell(*given, "--group", group, "--execute", "--reason", "a test")

    assert 3 == done.returncode, done.stderr
    assert "keeps-committing" in done.stderr
    assert shell.held(group)
    assert 0 == shell.runs


def test_10_a_topic_is_not_ignored(shell: Any) -> None:
    """With --all-topics the tool ignores --topic, and resets all partitions."""
    group, topic = shell.idle(5, 5)
    scope = ("--topic", f"{topic}:0", "--all-topics")
    done = shell.execute("--reset-offsets", "--group", group, *scope, "--to-earliest")

    assert (2, {5}) == (done.returncode, set(shell.held(group).values()))
    assert "--all-topics, --topic exclude each other" in done.stderr
