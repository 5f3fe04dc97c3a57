"""`offsetbook health` on real groups: which word they have, on which evidence."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from applications import Applications
from terminal import read_terminal

from toolkit import connect
from toolkit.model import Cluster, TopicPartition
from toolkit.report.display import capture_outputs

Command = Callable[..., "CompletedProcess[str]"]
Rows = dict[str, dict[str, Any]]
AT_ONCE = ("--sample-interval", "1s")
PATIENT = ("--stuck-after", "1h")  # however busy the machine is, records are younger


@pytest.fixture
def health(offsetbook_here: Command, fleet_of: Callable[..., Path], apps: Applications) -> Command:
    """Return a function that returns the rows of groups of the quiet cluster, by name."""
    fleet = fleet_of(eu=apps.address)

    def asked(*words: str) -> Rows:
        done = offsetbook_here("health", *AT_ONCE, "-o", "json", *words, fleet=fleet)
        return {row["group"]: row for row in json.loads(done.stdout)}

    return asked


def test_seeded_problems_have_their_word(offsetbook_here: Command, fleet: Path) -> None:
    """Each kind of seeded problem is found, without a change of the exit code."""
    words = (*AT_ONCE, "--stuck-after", "1s", "--output", "json")
    done = offsetbook_here("health", *words, fleet=fleet)
    rows = {row["group"]: row for row in json.loads(done.stdout)}

    assert 0 == done.returncode, done.stderr
    expected = {"nightly-export": "stopped", "share-pickers": "unknown", "archiver": "stopped"}
    assert expected == {group: rows[group]["health"] for group in expected}
    assert "unread records deleted" in rows["archiver"]["why"]
    # Whether the samples were further apart than 1 s decides; the transaction is seen in any case.
    assert rows["fraud-check"]["health"] in {"behind", "stuck"}
    assert "blocked by an open transaction" in rows["settlement"]["why"]
    assert done.stderr.splitlines()[-1].startswith("cluster eu: ")
    # It is behind meanwhile, wherever a record of the other topic waits for longer than the limit.
    words = (*AT_ONCE, *PATIENT, "--output", "json", "-g", "billing")
    (billing,) = json.loads(offsetbook_here("health", *words, fleet=fleet).stdout)
    assert "unsubscribed" == billing["health"]


def test_a_poison_record_is_stuck_when_the_samples_show_it(
    offsetbook_here: Command, fleet: Path
) -> None:
    """A group that does not get past a record is not stuck after 1 s, but after the limit."""
    group = ("-g", "fraud-check", "--output", "csv")

    def asked(*words: str) -> dict[str, str]:
        done = offsetbook_here("health", *words, *group, "--quiet", fleet=fleet)
        assert (0, "") == (done.returncode, done.stderr)
        (row,) = csv.DictReader(io.StringIO(done.stdout))
        return row

    soon = asked(*AT_ONCE, *PATIENT)
    later = asked("--sample-interval", "3s", "--stuck-after", "2s")

    assert "stuck" != soon["health"]
    assert ("stuck", "stuck") == (later["health"], later["verdict"])
    assert "no new committed offset in" in later["why"]


def test_a_member_that_commits_nothing_for_a_moment_is_not_stuck(
    apps: Applications, health: Command
) -> None:
    """Fresh records are no reason to call a live group anything but ok; old ones make it behind."""
    topic, group = apps.create_topic(apps.name("orders"), records=5), apps.name("payments")
    consumer = apps.join(group, [topic], **{"auto.offset.reset": "earliest"})
    consumer.commit(offsets=[apps.position(TopicPartition(topic, 0), 2)], asynchronous=False)
    (fresh,) = health("-g", group, *PATIENT).values()
    # The limit is shorter than the time between the samples, so what is unread is old.
    (old,) = health("-g", group, "--stuck-after", "1s").values()
    consumer.commit(offsets=[apps.position(TopicPartition(topic, 0), 5)], asynchronous=False)
    (read,) = health("-g", group).values()

    assert ("ok", 3) == (fresh["health"], fresh["lag"])
    assert fresh["why"].startswith("no new committed offset in ")
    assert fresh["why"].endswith("; unread for less than 1 h")
    assert old["health"] in {"behind", "stuck"}
    assert ("ok", "caught up", 0) == (read["health"], read["why"], read["lag"])


def test_a_group_without_members_is_stopped_where_records_wait(
    apps: Applications, health: Command
) -> None:
    """Where members have left, unread records make it stopped; one that never had any is not."""
    topic = apps.create_topic(apps.name("orders"), records=5)
    left, assigned = apps.name("left"), apps.name("assigned")
    place = TopicPartition(topic, 0)
    consumer = apps.join(left, [topic])
    consumer.commit(offsets=[apps.position(place, 2)], asynchronous=False)
    consumer.close()
    apps.commit(assigned, {place: 2})
    apps.eventually(lambda: health("-g", left)[left]["state"] == "Empty")
    rows = health("-g", left, "-g", assigned, *PATIENT)

    assert ("stopped", "no members") == (rows[left]["health"], rows[left]["why"])
    assert "ok" == rows[assigned]["health"]
    assert [left, assigned] == list(rows)


def test_a_session_says_the_same(apps: Applications, health: Command) -> None:
    """Python callers get the rows of the command, as text and as a table."""
    topic, group = apps.create_topic(apps.name("orders"), records=5), apps.name("payments")
    apps.commit(group, {TopicPartition(topic, 0): 5})
    session = connect(apps.address)
    report = session.health([group], sample_interval="1s")
    with capture_outputs() as shown:
        report._ipython_display_()

    row = {**report.frame.iloc[0].to_dict(), "cluster": "eu"}
    assert health("-g", group) == {group: row}
    assert f"cluster {apps.address}: 1 ok" == report.summary
    assert group in repr(report)
    assert group in str(shown)


def test_a_cluster_that_is_down_does_not_hide_the_other(
    offsetbook_here: Command, half_down: Path, down: Path
) -> None:
    """What was read is written, what failed is reported once, and the exit code is 4, or 1."""
    done = offsetbook_here("health", *AT_ONCE, "-o", "csv", fleet=half_down)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))

    assert (4, {"eu"}) == (done.returncode, {row["cluster"] for row in rows})
    assert 1 == done.stderr.count("error: connecting to cluster us")
    none = offsetbook_here("health", *AT_ONCE, fleet=down)
    assert (1, "") == (none.returncode, none.stdout)


def test_clusters_are_one_table(
    offsetbook_here: Command, fleet_of: Callable[..., Path], cluster: Cluster
) -> None:
    """The worst groups of all clusters come first, and each cluster has its counts."""
    both = fleet_of(eu=cluster.bootstrap_servers, us=cluster.bootstrap_servers)
    words = (*AT_ONCE, "-g", "nightly-export", "-g", "billing", "-o", "csv")
    done = offsetbook_here("health", *words, fleet=both)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))

    assert ["stopped", "stopped", "unsubscribed", "unsubscribed"] == [r["health"] for r in rows]
    assert {"eu", "us"} == {row["cluster"] for row in rows[:2]}
    counts = "1 stopped, 1 unsubscribed"
    assert [f"cluster {name}: {counts}" for name in ("eu", "us")] == done.stderr.splitlines()


def test_a_name_that_no_group_has(offsetbook_main: Command, fleet: Path) -> None:
    """A missing group fails; beside one that exists it is reported once, with exit code 4."""
    missing = offsetbook_main("health", "-g", "nope", fleet=fleet)
    words = ("health", *AT_ONCE, "-g", "nope", "-g", "payments", "-o", "csv")
    beside = offsetbook_main(*words, fleet=fleet)

    assert (1, 1) == (missing.returncode, missing.stderr.count("group nope"))
    assert (4, 1) == (beside.returncode, beside.stderr.count("group nope"))
    assert 2 == len(beside.stdout.splitlines())


@pytest.mark.parametrize(("no_color", "colour"), [("", "\x1b[31mstopped\x1b[0m"), ("1", "stopped")])
def test_a_terminal_shows_the_word_in_its_colour(fleet: Path, no_color: str, colour: str) -> None:
    """The word stays where there is no colour; a real terminal has both."""
    words = ["health", *AT_ONCE, "--fleet", str(fleet), "-g", "nightly-export"]
    code, seen = read_terminal(words, NO_COLOR=no_color)

    assert 0 == code, seen
    assert f" {colour} " in seen


@pytest.mark.parametrize("option", ["--sample-interval", "--stuck-after"])
def test_a_bad_duration_is_refused_by_name(offsetbook_main: Command, option: str) -> None:
    """The message has the option and what was written."""
    done = offsetbook_main("health", option, "soon", "-c", "127.0.0.1:1")

    assert 2 == done.returncode
    assert f"Invalid value for '{option}': 'soon' is not a duration" in done.stderr
