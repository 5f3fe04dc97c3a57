"""`offsetbook delete-offsets --unsubscribed` waits until calls have seen it for so long."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from applications import Applications

from toolkit.errors import UsageError
from toolkit.model import Cluster, TopicPartition

Command = Callable[..., "CompletedProcess[str]"]


def test_a_second_call_deletes_what_the_first_has_seen(
    apps: Applications,
    bare_cluster: Cluster,
    offsetbook_here: Command,
    fleet_of: Callable[..., Path],
) -> None:
    """A look that is a dry run counts, and what is too young is told and left alone."""
    left, read = (apps.create_topic(apps.name(stem), records=5) for stem in ("left", "read"))
    group = apps.name("billing")
    apps.commit(group, {TopicPartition(topic, 0): 3 for topic in (left, read)})
    apps.join(group, [read])
    fleet = fleet_of(eu=bare_cluster.bootstrap_servers)

    def ask(*conditions: str) -> tuple[list[dict[str, Any]], str]:
        what = ("delete-offsets", "--group", group, "--unsubscribed", *conditions)
        done = offsetbook_here(*what, "--dry-run", "--output", "json", fleet=fleet)
        assert 0 == done.returncode, done.stderr
        return json.loads(done.stdout), done.stderr

    rows, words = ask("--seen-in-runs", "2")
    assert [] == rows
    assert "note: too-young: " in words
    assert "observed as unsubscribed in 1 run since" in words

    rows, words = ask("--seen-in-runs", "2")
    assert [(left, 0, 3)] == [(row["topic"], row["partition"], row["before"]) for row in rows]
    assert "too-young" not in words

    rows, words = ask("--unsubscribed-for", "14d")
    assert ([], True) == (rows, "required: unsubscribed for 14 d" in words)


@pytest.mark.parametrize("condition", [("--unsubscribed-for", "14d"), ("--seen-in-runs", "2")])
def test_a_condition_is_about_what_is_unsubscribed(
    condition: tuple[str, str], offsetbook_here: Command, fleet_of: Callable[..., Path]
) -> None:
    """Nothing else is looked for in a way that would tell its age."""
    fleet = fleet_of(eu="127.0.0.1:1")

    with pytest.raises(UsageError, match="a condition of unsubscribed"):
        offsetbook_here("delete-offsets", "--group", "g", *condition, fleet=fleet)
