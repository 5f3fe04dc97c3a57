"""Commands that change a cluster: what they show, ask, refuse, do and undo."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from applications import Applications
from idle_groups import idle_group
from main_program import Command
from timed_records import produce

from toolkit.errors import NotFound, UsageError
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, TopicPartition
from toolkit.storage.plan_files import _document_checksum

Held = dict[int, tuple[int, str]]  # partition: offset and metadata


@pytest.fixture
def bare_fleet(fleet_of: Callable[..., Path], bare_cluster: Cluster) -> Path:
    return fleet_of(eu=bare_cluster.bootstrap_servers)


@pytest.fixture
def held(bare_cluster: Cluster) -> Callable[[str], Held]:
    def read(group: str) -> Held:
        commits = read_snapshot(bare_cluster, groups=[group]).commits
        # The client that commits for us ends metadata with a zero byte.
        return {c.partition: (c.offset, c.metadata.rstrip("\0")) for c in commits}

    return read


@pytest.fixture
def idle(apps: Any) -> tuple[str, str]:
    """Return an idle group and the topic whose two partitions of 10 records it half read."""
    group, (place, _) = idle_group(apps, 5, 6, metadata="a note")
    return group, place.topic


@pytest.fixture
def here(offsetbook_here: Command, bare_fleet: Path) -> Command:
    return partial(offsetbook_here, fleet=bare_fleet)


BEFORE: Held = {0: (5, "a note"), 1: (6, "a note")}
RESET: Held = {0: (0, ""), 1: (0, "")}
OFFSETS = ("before", "after")


@pytest.fixture
def approved(approve_shown: Command, bare_fleet: Path) -> Command:
    """Return a function that applies on the quiet cluster what a command's dry run shows."""
    return partial(approve_shown, fleet=bare_fleet)


def run_of(done: CompletedProcess[str]) -> str:
    assert 0 == done.returncode, done.stderr
    return re.findall("^run ([^;]+);", done.stderr, re.MULTILINE)[0]


def test_a_dry_run_changes_nothing(idle: Any, here: Command, held: Any) -> None:
    """It shows every change with its reason, and the command that approves it."""
    done = here("reset", "--group", idle[0], "--to-earliest", "--dry-run", "--output", "json")

    assert 0 == done.returncode
    rows = json.loads(done.stdout)
    assert [(5, 0, -5), (6, 0, -6)] == [(r["before"], r["after"], r["distance"]) for r in rows]
    # The records were written one after the other, within some milliseconds of now.
    times = [[datetime.fromisoformat(r[f"{which}_time"]) for r in rows] for which in OFFSETS]
    assert all(after <= before <= datetime.now(UTC) for before, after in zip(*times, strict=True))
    assert "dry run: nothing was changed. Fingerprint: " in done.stderr
    assert BEFORE == held(idle[0])


def test_without_a_terminal_there_is_no_question(
    idle: Any, offsetbook: Command, bare_fleet: Path, held: Any
) -> None:
    """Without an approval nothing is changed, and the error says how to approve."""
    done = offsetbook("reset", "--group", idle[0], "--to-earliest", fleet=bare_fleet)

    assert 3 == done.returncode
    assert "not approved: nothing was changed" in done.stderr
    assert "--approve" in done.stderr
    assert BEFORE == held(idle[0])


def test_a_new_topic_is_not_overridden_but_asked_for(
    idle: Any, apps: Any, here: Command, tmp_path: Path
) -> None:
    """Where an override could only leave out what was asked, the hint names what does it."""
    group, unused = idle[0], apps.create_topic(apps.name("audit"), records=3)
    words = ("reset", "--group", group, "--topic", unused, "--to-earliest", "--dry-run")
    blocked = here(*words)
    with pytest.raises(UsageError) as overridden:
        here(*words, "--override", "topic-never-used")
    rows = tmp_path / "rows.csv"
    rows.write_text("nobody,t,0,1\n")
    no_row = here("reset", "--group", group, "--from-file", str(rows), "--dry-run")

    assert 3 == blocked.returncode == no_row.returncode
    how = "--new-topics, or new_topics=True in a notebook"
    way = f"Try: allow new topics, in a reset or a move: {how}"
    assert way in blocked.stderr
    assert f"rule 'topic-never-used' cannot be overridden. {way}" == str(overridden.value)
    assert "--override" not in blocked.stderr
    assert "Try: name only groups and partitions that the file has" in no_row.stderr
    assert 0 == here(*words, "--new-topics").returncode


def test_approve_apply_undo(idle: Any, approved: Command, here: Command, held: Any) -> None:
    """What was approved is done and read back; its run undoes it, and undoes the undo."""
    done = approved("reset", "--group", idle[0], "--to-earliest", "--output", "json")
    rows = json.loads(done.stdout)
    assert [("done", 0), ("done", 0)] == [(row["status"], row["read_back"]) for row in rows]
    assert RESET == held(idle[0])

    undo = run_of(approved("undo", run_of(done)))
    assert BEFORE == held(idle[0])

    run_of(approved("undo", undo))
    assert RESET == held(idle[0])
    listed = here("audit", "list", "--output", "json")
    assert ["2 done"] * 3 == [row["result"] for row in json.loads(listed.stdout)]
    assert 0 == here("audit", "verify").returncode


def test_a_plan_file_is_applied_later(idle: Any, here: Command, held: Any, tmp_path: Path) -> None:
    """A plan file is applied by its fingerprint."""
    path = tmp_path / "plan.json"
    scope = ("--group", idle[0], "--topic", f"{idle[1]}:1", "--to-offset", "2")
    planned = here("plan", "reset", *scope, "--out", str(path))
    assert 0 == planned.returncode
    fingerprint = json.loads(path.read_text())["fingerprint"]
    approval = ("--approve", fingerprint, "--reason", "a test", "--override", "keeps-committing")
    # Whatever cluster the file names, it is applied and recorded on the one of its id.
    document = json.loads(path.read_text()) | {"cluster": "staging"}
    path.write_text(json.dumps(document | {"checksum": _document_checksum(document)}))
    done = here("apply", str(path), "--cluster", "eu", *approval)
    assert {0: (5, "a note"), 1: (2, "")} == held(idle[0])
    listed = here("audit", "list", "--group", idle[0], "--output", "json")
    assert [(run_of(done), "eu")] == [
        (run["run"], run["cluster"]) for run in json.loads(listed.stdout)
    ]


def test_an_output_file_that_exists_stays(idle: Any, here: Command, tmp_path: Path) -> None:
    """Without --force nothing is replaced, and - is stdout."""
    path = tmp_path / "out.json"
    plan = ("plan", "reset", "--group", idle[0], "--to-earliest")
    for command, out in [(plan, ("--out",)), (("export", "--group", idle[0]), ())]:
        path.write_text("mine")
        with pytest.raises(UsageError, match=r"out\.json exists"):
            here(*command, *out, str(path))
        assert "mine" == path.read_text()

        written = here(*command, *out, "-")
        assert (0, "mine") == (written.returncode, path.read_text())
        assert "apply - " not in written.stderr
        assert 0 == here(*command, *out, str(path), "--force").returncode
        assert json.loads(written.stdout).keys() == json.loads(path.read_text()).keys()


def test_export_and_restore(
    idle: Any, approved: Command, here: Command, held: Any, tmp_path: Path
) -> None:
    """What was exported is restored exactly; a CSV has the offsets, and none of the metadata."""
    group, saved, table = idle[0], str(tmp_path / "saved.json"), str(tmp_path / "saved.csv")
    for options in ((saved,), (table,)):
        exported = here("export", "--group", group, *options)
        assert 0 == exported.returncode, exported.stderr
    run_of(approved("delete-offsets", "--group", group, "--topic", f"{idle[1]}:0"))

    run_of(approved("restore", saved))
    assert BEFORE == held(group)

    run_of(approved("delete-groups", "--group", group))
    assert {} == held(group)
    done = approved("restore", table, "--into", group)
    run_of(done)
    assert {0: (5, ""), 1: (6, "")} == held(group)
    assert "cluster-unknown: a CSV file does not say which cluster" in done.stderr


def test_copy_and_reset_from_a_file_and_from_a_group(
    idle: Any, approved: Command, held: Any, tmp_path: Path
) -> None:
    """A copy leaves its source; a reset takes offsets from Kafka's CSV, and from another group."""
    path = tmp_path / "offsets.csv"
    path.write_text(f"{idle[1]},0,3\n{idle[1]},1,4\n")
    copy = f"{idle[0]}-copy"
    run_of(approved("copy", "--group", idle[0], "--to", copy))
    assert BEFORE == held(idle[0]) == held(copy)

    run_of(approved("reset", "--group", idle[0], "--from-file", str(path)))
    assert {0: (3, ""), 1: (4, "")} == held(idle[0])

    arguments = ("--from-group", copy, "--override", "skips-unread-records")
    run_of(approved("reset", "--group", idle[0], *arguments))
    assert BEFORE == held(idle[0])


def test_nothing_to_do_is_done(idle: Any, here: Command) -> None:
    """A group that needs no healing is left alone with exit 0."""
    done = here("reset", "--group", idle[0], "--to-current")

    assert (0, "nothing to do") == (done.returncode, done.stderr.splitlines()[-1])


def test_an_audit_log_that_is_not_intact(
    idle: Any, approved: Command, here: Command, bare_fleet: Path, tmp_path: Path
) -> None:
    """A changed line is named; a mistyped state directory has no log, which proves nothing."""
    run_of(approved("reset", "--group", idle[0], "--to-earliest"))
    log = bare_fleet.parent / "state" / "audit.jsonl"
    log.write_text(log.read_text().replace("a test", "a lie!", 1))

    done = here("audit", "verify")

    assert (1, True) == (done.returncode, "line 1 was changed" in done.stdout)
    mistyped = str(tmp_path / "nope")
    with pytest.raises(NotFound, match=r"no audit log in .*nope"):
        here("audit", "verify", "--state", mistyped)
    listed = here("audit", "list", "--state", mistyped)
    assert (0, True) == (listed.returncode, "No audit log in" in listed.stderr)


OF_A_TOPIC = ("--reset-offsets", "--topic", "t")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reset", "--group", "g"], "no target given"),
        (["reset", "--to-earliest"], "no group is named"),
        (["reset", "--group", "g", "--to-earliest", "--to-latest"], "exclude each other"),
        (["reset", "--group", "g", "--to-datetime", "soon"], "is not a time"),
        *(
            (["reset", "--group", "g", option, "9" * 20], "at most 19 digits")
            for option in ("--to-offset", "--shift-by")
        ),
        (["reset", "--group", "g", "--to-latest", "--topic", "t:"], "partition number is missing"),
        (["reset", "--group", "g", "--to-latest", "--override", "all"], "does not exist"),
        *(
            (
                [*words, "--group", "g", "--to-earliest", "--past-end", "fail"],
                "past_end fail is for",
            )
            for words in (["reset"], ["move"], ["consumer-groups", "--cluster", "eu", *OF_A_TOPIC])
        ),
        (["delete-offsets", "--topic", "t"], "no group is named"),
        *(
            (["delete-offsets", "--group", "g", *condition], "a condition of unsubscribed")
            for condition in (["--unsubscribed-for", "14d"], ["--seen-in-runs", "2"])
        ),
        (["apply"], "exactly one plan is needed"),
        (["apply", "no-such-file.json"], "no-such-file.json"),
        (["copy", "--group", "g", "--to", "g"], "source and target are both"),
        (["restore", "no-such-file.json"], "no-such-file.json"),
    ],
)
def test_wrong_usage_is_named(
    arguments: list[str], words: str, offsetbook_main: Command, bare_fleet: Path
) -> None:
    """Whatever cannot be understood is refused with exit 2, in words that name it."""
    done = offsetbook_main(*arguments, fleet=bare_fleet)

    assert (2, "") == (done.returncode, done.stdout)
    assert words in done.stderr


def test_a_second_call_deletes_what_the_first_has_seen(apps: Applications, here: Command) -> None:
    """A dry run counts as a sighting; offsets that are too young are named and left alone."""
    left, read = (apps.create_topic(apps.name(stem), records=5) for stem in ("left", "read"))
    group = apps.name("billing")
    apps.commit(group, {TopicPartition(topic, 0): 3 for topic in (left, read)})
    apps.join(group, [read])

    def ask(*conditions: str) -> tuple[list[dict[str, Any]], str]:
        what = ("delete-offsets", "--group", group, "--unsubscribed", *conditions)
        done = here(*what, "--dry-run", "--output", "json")
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


TIMES = [datetime(2025, 10, 9, 9, tzinfo=UTC) + timedelta(seconds=n) for n in range(17)]
EARLIER = 7  # records that only the mirror has, before all others


@pytest.fixture
def mirror(applications: Callable[[Cluster], Applications], kafka_39: Cluster) -> Applications:
    return applications(kafka_39)


def test_a_mirror_goes_on_where_the_source_is(
    apps: Applications,
    mirror: Applications,
    approve_shown: Command,
    fleet_of: Callable[..., Path],
) -> None:
    """By offset the group has the same offset on the mirror, by time the same next record."""
    topic, group = apps.create_topic(apps.name("orders")), apps.name("pay")
    mirror.create_topic(topic)
    produce(apps.address, TopicPartition(topic, 0), TIMES[EARLIER:])
    produce(mirror.address, TopicPartition(topic, 0), TIMES)
    apps.commit(group, {TopicPartition(topic, 0): 4})
    fleet = fleet_of(eu=apps.address, mirror=mirror.address)
    copy = ("copy", "--cluster", "eu", "--group", group, "--to-cluster", "mirror")
    for by, expected in (("offset", 4), ("time", 4 + EARLIER)):
        name = f"{group}-by-{by}"
        done = approve_shown(*copy, "--to", name, "--by", by, fleet=fleet)

        assert 0 == done.returncode, done.stderr
        commits = read_snapshot(mirror.cluster, groups=[name]).commits
        assert [(topic, 0, expected)] == [(c.topic, c.partition, c.offset) for c in commits]


def test_a_record_that_a_mirror_lacks_dates_nothing(
    apps: Applications,
    mirror: Applications,
    approve_shown: Command,
    fleet_of: Callable[..., Path],
) -> None:
    """An aborted record with a later time than the next one made the group skip that."""
    topic, group = apps.create_topic(apps.name("orders")), apps.name("pay")
    place = TopicPartition(mirror.create_topic(topic), 0)
    produce(apps.address, place, TIMES[:4])
    aborted = apps.transaction(apps.name("writer"))
    aborted.produce(topic, b"aborted", partition=0, timestamp=int(TIMES[16].timestamp() * 1000))
    aborted.flush()
    aborted.abort_transaction()
    produce(apps.address, place, TIMES[5:8])
    produce(mirror.address, place, [*TIMES[:4], *TIMES[5:8]])
    apps.commit(group, {place: 4})
    fleet = fleet_of(eu=apps.address, mirror=mirror.address)

    ends = ("--cluster", "eu", "--group", group, "--to-cluster", "mirror", "--to", group)
    done = approve_shown("copy", *ends, "--by", "time", fleet=fleet)

    assert 0 == done.returncode, done.stderr
    (commit,) = read_snapshot(mirror.cluster, groups=[group]).commits
    assert 4 == commit.offset
