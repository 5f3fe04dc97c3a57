"""
The worst things that kafka-consumer-groups 4.3.1 was measured to do, each done right.

Those that a reset alone shows are in `tests/differential/test_resets.py`, beside the tool itself;
deletions that nobody approved in `test_changes.py`.
"""

from typing import Any

import pytest
from repeating import repeating

from toolkit.model import TopicPartition

DOWN = "127.0.0.1:1"


FAILURES: dict[str, tuple[int, str]] = {
    "describe a missing group": (1, "--describe --group nobody"),
    "reset a live group": (3, "--reset-offsets --group {live} --all-topics --to-earliest"),
    "delete a live group": (3, "--delete --group {live}"),
    "delete a missing group": (3, "--delete --group nobody"),
    "delete offsets of a missing group": (3, "--delete-offsets --group nobody --topic {topic}"),
    "a live and an idle group": (3, "--delete --group {idle} --group {live}"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_2_a_failure_is_not_exit_0(shell: Any, case: str) -> None:
    """The tool says 0 for a missing or live group."""
    code, flags = FAILURES[case]
    topic = shell.topic()
    idle, live = shell.group({(topic, 0): 5}), shell.apps.name("live")
    shell.apps.join(live, [topic])
    run = shell if flags.startswith("--describe") else shell.execute
    done = run(*flags.format(live=live, idle=idle, topic=topic).split())

    assert code == done.returncode, done.stderr
    assert {TopicPartition(topic, 0): 5} == shell.held(idle)
    assert 0 == shell.runs
    # What went wrong is on stderr, and stdout has none of it.
    assert "rror" not in done.stdout


@pytest.mark.parametrize("flags", ["--list", "--describe --group g", "--delete --group g"])
def test_2_an_unreachable_cluster_is_exit_1(offsetbook: Any, flags: str) -> None:
    """Exit code 1 with a message on stderr; Kafka's tool prints it to stdout and exits with 0."""
    given = ("consumer-groups", "--bootstrap-server", DOWN, "--timeout", "300")
    done = offsetbook(*given, *flags.split())

    assert (1, "") == (done.returncode, done.stdout)
    assert f"connecting to cluster {DOWN}" in done.stderr


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


@pytest.mark.parametrize(
    "flags", ["--reset-offsets --topic {topic} --to-earliest", "--delete"], ids=["reset", "delete"]
)
def test_9_a_group_that_keeps_committing_is_not_empty(shell: Any, flags: str) -> None:
    """The tool reports success; the assign() consumer undoes the reset with its next commit."""
    group, topic = shell.idle(5)
    at_6 = {TopicPartition(topic, 0): 6}
    with repeating(lambda: shell.apps.commit(group, at_6)):
        shell.apps.eventually(lambda: shell.held(group) == at_6)
        given = flags.format(topic=topic).split()
        done = shell(*given, "--group", group, "--execute", "--reason", "a test")

    assert (3, 0, at_6) == (done.returncode, shell.runs, shell.held(group)), done.stderr
    assert "keeps-committing" in done.stderr
