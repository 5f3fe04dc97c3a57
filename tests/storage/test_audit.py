import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import plans_for_review
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from plans_for_review import DETAILED_PLAN, NOON, ORDERS_0, ORDERS_1

from toolkit.errors import StateFileError
from toolkit.model import GroupState, GroupType
from toolkit.plan import Action, ChangeStatus, Outcome, Position, Result, Step, StepOutcome
from toolkit.storage import audit
from toolkit.storage.audit import AuditChange, AuditEntry, AuditStep, Event, RunInfo
from toolkit.storage.formats import file_lock
from toolkit.storage.formats.file_lock import exclusively, undisturbed
from toolkit.storage.state_folder import Operator

BILLS = Step("bills", Action.DELETE_GROUP, (), GroupType.CLASSIC, GroupState.EMPTY)
PLAN = replace(DETAILED_PLAN, steps=(*DETAILED_PLAN.steps, BILLS))
RUN = RunInfo("20260301T120000Z-1a2b", "ada", "ops-1", "INC-7: poison record", ("too-many-groups",))
INTENT = audit.intent_entry(PLAN, RUN, NOON)
OUTCOME = audit.outcome_entry(
    INTENT,
    Outcome(
        RUN.run_id,
        PLAN.fingerprint,
        NOON,
        NOON + timedelta(seconds=1),
        (
            StepOutcome(
                "payments",
                Action.COMMIT,
                ChangeStatus.FAILED,
                "",
                (
                    Result(ORDERS_0, ChangeStatus.DONE, "", Position(40, 3)),
                    Result(ORDERS_1, ChangeStatus.FAILED, "it is 7", Position(7)),
                ),
            ),
        ),
        interrupted="SIGTERM",
    ),
)
# Appends to the log in its first argument, as run `NAME-0`, `NAME-1`, ...; says each number.
WRITER = f"""
import sys
from pathlib import Path
sys.path[:0] = {[str(Path(file).parent) for file in (__file__, plans_for_review.__file__)]!r}
import test_audit
from toolkit.storage import audit
state, name, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(times):
    audit.append(state, test_audit.of_run(test_audit.INTENT, f"{{name}}-{{number}}"))
    print(number, flush=True)
"""


def of_run(entry: AuditEntry, name: str, **changes: Any) -> AuditEntry:
    return replace(entry, run=replace(RUN, run_id=name), **changes)


def written(state: Path, *names: str) -> list[bytes]:
    """Append an intent for each run name and return the lines of the log."""
    for name in names:
        audit.append(state, of_run(INTENT, name))
    return (state / "audit.jsonl").read_bytes().splitlines(keepends=True)


def writer(state: Path, name: str, times: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(state), name, str(times)],
        stdout=subprocess.PIPE,
        text=True,
    )


def run_ids(state: Path) -> list[str]:
    return [entry.run.run_id for entry in audit.read(state)]


def test_entries_come_back_as_they_were(tmp_path: Path) -> None:
    """What is read is what was appended, in order and numbered."""
    state = tmp_path / "not there yet"
    found = replace(OUTCOME, event=Event.FOUND)
    for entry in (INTENT, OUTCOME, found):
        audit.append(state, entry)

    expected = [replace(INTENT, seq=1), replace(OUTCOME, seq=2), replace(found, seq=3)]
    assert expected == list(audit.read(state))
    assert [] == audit.verify(state)


def test_an_outcome_has_the_result_of_every_change() -> None:
    """It keeps who, why, before and after of the intent; a step not reached was not tried."""
    at_40 = Position(40, 3)
    assert (
        AuditStep(
            "payments",
            Action.COMMIT,
            (
                AuditChange(ORDERS_0, Position(50, 3, "m"), at_40, "", ChangeStatus.DONE, at_40),
                AuditChange(
                    ORDERS_1, None, Position(0), "it is 7", ChangeStatus.FAILED, Position(7)
                ),
            ),
            ChangeStatus.FAILED,
        ),
        AuditStep("bills", Action.DELETE_GROUP, (), ChangeStatus.NOT_TRIED),
    ) == OUTCOME.steps
    assert (Event.OUTCOME, NOON + timedelta(seconds=1)) == (OUTCOME.event, OUTCOME.at)
    assert (RUN, "SIGTERM") == (OUTCOME.run, OUTCOME.interrupted)


def test_a_step_refused_whole_goes_for_its_changes() -> None:
    """Where a step has no results per partition, its status is that of each of its changes."""
    refused = StepOutcome("payments", Action.COMMIT, ChangeStatus.REFUSED, "the group is live")
    outcome = Outcome(RUN.run_id, PLAN.fingerprint, NOON, NOON, (refused,))

    entry = audit.found_entry(INTENT, outcome, who="bob", host="ops-2")

    step = entry.steps[0]
    assert "the group is live" == step.why
    assert [ChangeStatus.REFUSED, ChangeStatus.REFUSED] == [
        change.status for change in step.changes
    ]
    assert (Event.FOUND, "bob", "ops-2") == (entry.event, entry.run.who, entry.run.host)


def test_a_line_is_one_json_object_in_ascii(tmp_path: Path) -> None:
    """Any tool can read the log, and no name breaks a line or steers a terminal."""
    hostile = replace(INTENT, run=replace(RUN, reason='line\nbreak \x1b[2J \u202e "} \ud800'))
    audit.append(tmp_path, hostile)

    (line,) = (tmp_path / "audit.jsonl").read_bytes().splitlines()
    fields = json.loads(line)
    assert line.isascii()
    assert hostile.run.reason == fields["reason"]
    assert ["seq", "at", "run", "event", "who"] == list(fields)[:5]
    assert [replace(hostile, seq=1)] == list(audit.read(tmp_path))


def test_unfinished_runs(tmp_path: Path) -> None:
    """A run is unfinished until its outcome, or what was found of it, is recorded."""
    written(tmp_path, "a", "b", "c")
    audit.append(tmp_path, of_run(OUTCOME, "b"))
    audit.append(tmp_path, of_run(OUTCOME, "a", event=Event.FOUND))

    assert ["c"] == [entry.run.run_id for entry in audit.unfinished(tmp_path)]


@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("left", [1, 2, 60, 80, 300])
def test_a_torn_outcome_is_none(tmp_path: Path, left: int, *, followed: bool) -> None:
    """A run that was killed while its outcome was written has none, whatever follows."""
    audit.append(tmp_path, INTENT)
    log = tmp_path / "audit.jsonl"
    before = log.read_bytes()
    audit.append(tmp_path, OUTCOME)
    line = log.read_bytes()[len(before) :].removesuffix(b"\n")
    log.write_bytes(before + line[:-left])
    if followed:
        audit.append(tmp_path, of_run(INTENT, "later"))

    expected = [RUN.run_id, *(["later"] if followed else [])]
    assert expected == [entry.run.run_id for entry in audit.unfinished(tmp_path)]
    fingerprint = PLAN.fingerprint
    assert [] == audit.last_runs(tmp_path, PLAN.cluster_id, ["payments"], fingerprint=fingerprint)


def test_the_newest_run_of_an_operator(tmp_path: Path) -> None:
    """On that cluster, with its outcome, whoever found that out."""
    ada = Operator(RUN.who, RUN.host)
    assert [] == audit.newest_run(tmp_path, INTENT.cluster_id, ada)
    outcome = Outcome("two", INTENT.fingerprint, NOON, NOON, ())
    mine = of_run(INTENT, "two")
    eve = replace(INTENT, run=replace(RUN, run_id="three", who="eve"))
    for entry in (
        of_run(INTENT, "one"),
        mine,
        audit.found_entry(mine, outcome, who="eve", host="there"),
        eve,
        of_run(INTENT, "four", cluster_id="another"),
    ):
        audit.append(tmp_path, entry)

    found = audit.newest_run(tmp_path, INTENT.cluster_id, ada)

    both = [(one.entry.run.run_id, one.entry.event) for one in found]
    assert [("two", Event.INTENT), ("two", Event.FOUND)] == both
    (one,) = audit.newest_run(tmp_path, INTENT.cluster_id, Operator("eve", RUN.host))
    assert "three" == one.entry.run.run_id
    assert found == list(audit.read_summaries(tmp_path, {"two"}))
    assert ["two", "two", "three"] == run_names(audit.read(tmp_path, {"three", "two", "tw"}))


def test_no_log_yet(tmp_path: Path) -> None:
    """Where nothing was ever changed, there is nothing to read and nothing wrong."""
    assert [] == list(audit.read(tmp_path / "none"))
    assert [] == audit.unfinished(tmp_path / "none")
    assert [] == audit.verify(tmp_path / "none")


@pytest.mark.parametrize("system", ["linux", "macos"])
def test_room_for_the_outcome_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    """Between intent and outcome there is a reserve on the disk larger than either line."""
    if system == "macos":
        monkeypatch.delattr(os, "posix_fallocate")
    audit.append(tmp_path, INTENT)
    (reserve,) = (tmp_path / "audit.reserves").iterdir()
    allocated = reserve.stat().st_blocks * 512

    audit.append(tmp_path, OUTCOME)

    assert allocated > (tmp_path / "audit.jsonl").stat().st_size
    assert [] == list(tmp_path.glob("audit.reserves/*"))


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log of five lines."""
    state = tmp_path_factory.mktemp("intact")
    written(state, "a", "b", "c", "d", "e")
    return state


@given(data=st.data())
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=200)
def test_any_changed_byte_is_found(intact: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Whichever byte of the log or its head is another, `verify` says so."""
    files = {name: (intact / name).read_bytes() for name in ("audit.jsonl", "audit.head")}
    content = bytearray(files[name := data.draw(st.sampled_from(sorted(files)))])
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    for file, original in files.items():
        (tmp_path / file).write_bytes(content if file == name else original)

    assert audit.verify(tmp_path)


@given(order=st.lists(st.integers(0, 4), max_size=6))
@example([0, 1, 2, 3, 4])
@settings(suppress_health_check=list(HealthCheck), deadline=None)
def test_any_other_selection_of_lines_is_found(
    intact: Path, tmp_path: Path, order: list[int]
) -> None:
    """Removed, swapped, repeated: only the lines as they were written are intact."""
    lines = (intact / "audit.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "audit.head").write_bytes((intact / "audit.head").read_bytes())
    (tmp_path / "audit.jsonl").write_bytes(b"".join(lines[number] for number in order))

    assert (order == [0, 1, 2, 3, 4]) == (audit.verify(tmp_path) == [])


REPLACED = "hash does not match the previous line; one of the two was replaced"
HEAD = "audit.head does not match the last line; one of the two was replaced"
HEAD_CHANGED = "audit.head is missing or was changed: lines may be missing at the end"
# The log has the lines a, b, c and d. B and D are the second and the last line of another log, and
# b! is b with another reason.
TAMPERED = {
    "b c d": ["entry 1 is missing before line 1"],
    "a c d": ["entry 2 is missing before line 2"],
    "a b c": ["entry 4 is missing at the end"],
    "a c b d": [
        "entry 2 is missing before line 2",
        "line 3: entry 2 is duplicated or out of order",
    ],
    "a b b c d": ["line 3: entry 2 is duplicated or out of order"],
    "a b! c d": ["line 2 was changed"],
    "a B c d": [f"line 3: {REPLACED}"],
    "a b c D": [f"line 4: {REPLACED}", HEAD],
}


@pytest.mark.parametrize("order", TAMPERED)
def test_tampered_lines_are_named(tmp_path: Path, order: str) -> None:
    """The message says which line is missing, changed, replaced or not where it belongs."""
    lines = dict(zip("abcd", written(tmp_path, *"abcd"), strict=True))
    _, other, _, last = written(tmp_path / "other", *"axcd")
    lines |= {"B": other, "D": last, "b!": lines["b"].replace(b"INC-7", b"INC-8")}
    (tmp_path / "audit.jsonl").write_bytes(b"".join(lines[name] for name in order.split()))

    assert TAMPERED[order] == audit.verify(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "flaw"),
    [
        (b"\n", b"\r", HEAD_CHANGED),  # a carriage return is not the line feed that was written
        (b"\n", b"\n ", HEAD_CHANGED),
        (b"%d", b"%d", HEAD),
    ],
    ids=["line end", "blank", "size"],
)
def test_a_changed_head_is_found(tmp_path: Path, old: bytes, new: bytes, flaw: str) -> None:
    """Every byte of the head counts."""
    written(tmp_path, "a")
    size = (tmp_path / "audit.jsonl").stat().st_size
    head = tmp_path / "audit.head"
    old, new = old.replace(b"%d", b"%d" % size), new.replace(b"%d", b"%d" % (size - 1))
    assert 1 == head.read_bytes().count(old)
    head.write_bytes(head.read_bytes().replace(old, new))

    assert [flaw] == audit.verify(tmp_path)


def test_removed_lines_stay_missed_after_the_next_entry(tmp_path: Path) -> None:
    """Appending does not cover up that lines were removed at the end."""
    lines = written(tmp_path, "a", "b", "c")
    (tmp_path / "audit.jsonl").write_bytes(b"".join(lines[:1]))

    written(tmp_path, "d")

    assert ["2 of the entries 2 to 3 are missing before line 2"] == audit.verify(tmp_path)
    assert ["a", "d"] == run_ids(tmp_path)


@pytest.mark.parametrize("cut", [1, 2, 70, 300])
def test_a_torn_line_is_no_tampering(tmp_path: Path, cut: int) -> None:
    """After a writer that was killed, the next entry follows the last whole line."""
    head = (tmp_path / "audit.head").read_bytes() if written(tmp_path, "a", "b") else b""
    lines = written(tmp_path, "lost")
    whole = b"".join(lines[:2])
    (tmp_path / "audit.jsonl").write_bytes(whole + lines[2][:-cut])
    (tmp_path / "audit.head").write_bytes(head)
    torn = ["line 3 is incomplete: its writer was killed; no entry is lost"] if cut > 1 else []

    assert torn == audit.verify(tmp_path)
    written(tmp_path, "c", "d")

    assert torn == audit.verify(tmp_path)
    assert ["a", "b", *([] if torn else ["lost"]), "c", "d"] == run_ids(tmp_path)


def test_a_lost_head_is_reported(tmp_path: Path) -> None:
    """Without its head a log may lack its end; the next entry writes a new one."""
    written(tmp_path, "a", "b")
    (tmp_path / "audit.head").unlink()

    assert [HEAD_CHANGED] == audit.verify(tmp_path)
    written(tmp_path, "c")
    assert [] == audit.verify(tmp_path)


def test_a_full_disk_stops_an_entry(tmp_path: Path) -> None:
    """Where the log takes no byte more, the change it announces does not start."""
    (tmp_path / "audit.jsonl").symlink_to("/dev/full")

    with pytest.raises(
        StateFileError, match=r"audit\.jsonl cannot be written: No space left"
    ) as caught:
        audit.append(tmp_path, INTENT)

    assert "free disk space" in caught.value.hint
    assert [] == list(tmp_path.glob("audit.reserves/*"))


def test_an_error_of_another_kind_leaves_no_intent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An intent of a run that never began would be reported as one that was interrupted."""
    written(tmp_path, "a")
    monkeypatch.setattr(os, "fsync", None)

    with pytest.raises(TypeError):
        audit.append(tmp_path, INTENT)

    monkeypatch.undo()
    assert ["a"] == run_ids(tmp_path)
    assert [] == audit.verify(tmp_path)
    assert ["a"] == [path.name for path in tmp_path.glob("audit.reserves/*")]


@pytest.mark.parametrize("room", [100, 1000, 3000, 66_000])
def test_nothing_half_written_stays(tmp_path: Path, room: int) -> None:
    """Wherever the room ends, in the line or in the reserve, the log is as it was before."""
    lines = written(tmp_path, "a", "b")
    limit = sum(map(len, lines)) + room
    script = (
        f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n" + WRITER
    )

    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), "late", "1000"],
        check=False,
        capture_output=True,
        text=True,
    )

    appended = len(done.stdout.split())
    assert "StateFileError" in done.stderr
    assert "File too large" in done.stderr
    assert ["a", "b", *(f"late-{number}" for number in range(appended))] == run_ids(tmp_path)
    assert [] == audit.verify(tmp_path)
    assert 0 == len(done.stdout) or room == 66_000


@pytest.mark.parametrize("name", ["audit.lock", "audit.jsonl", "audit.reserves"])
def test_a_file_in_the_way_is_named(tmp_path: Path, name: str) -> None:
    """Where a folder stands for a file or a file for a folder, the message names it."""
    (Path.touch if name == "audit.reserves" else Path.mkdir)(tmp_path / name)

    with pytest.raises(StateFileError, match=name):
        audit.append(tmp_path, INTENT)


def test_a_killed_writer_loses_no_reported_entry(tmp_path: Path) -> None:
    """After kill -9 in a loop of appends, every reported entry is there and the chain is intact."""
    for attempt in range(3):
        with writer(tmp_path, f"w{attempt}", 10_000) as process:
            told = [next(process.stdout) for _ in range(20)]
            os.kill(process.pid, signal.SIGKILL)

        assert {f"w{attempt}-{int(number)}" for number in told} <= set(run_ids(tmp_path))
        assert all(
            "is incomplete: its writer was killed" in flaw for flaw in audit.verify(tmp_path)
        )


def test_two_writers_at_once(tmp_path: Path) -> None:
    """Entries of two processes stand one after another in one chain."""
    with writer(tmp_path, "left", 50) as left, writer(tmp_path, "right", 50) as right:
        assert (50, 50) == (len(left.stdout.readlines()), len(right.stdout.readlines()))

    assert {f"{name}-{n}" for name in ("left", "right") for n in range(50)} == set(
        run_ids(tmp_path)
    )
    assert [] == audit.verify(tmp_path)


def test_a_lock_that_is_not_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither writing nor reading waits without limit; the file is named."""
    monkeypatch.setattr(file_lock, "PATIENCE_S", 0.1)
    path = tmp_path / "audit.lock"
    with path.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for wait in (exclusively(path, within_s=0.1), undisturbed(path)):
            with pytest.raises(StateFileError, match=f"has held {path} for more than 0.1 s"), wait:
                pass


DECEMBER, JANUARY, FEBRUARY = (NOON + timedelta(days=days) for days in (280, 310, 340))


def written_at(state: Path, *entries: tuple[str, datetime]) -> list[str]:
    """Append an intent for each run name at a time, and return the names of the log's files."""
    for name, at in entries:
        audit.append(state, of_run(INTENT, name, at=at))
    return sorted(path.name for path in state.glob("audit*.jsonl"))


def run_names(entries: Iterable[AuditEntry]) -> list[str]:
    return [entry.run.run_id for entry in entries]


def test_each_month_has_a_file(tmp_path: Path) -> None:
    """The chain, the index and what is read go on over the files, whichever the last line is in."""
    written_at(tmp_path, ("a", DECEMBER), ("b", DECEMBER))
    assert ["a", "b"] == run_names(audit.unfinished(tmp_path))  # the index is of the first file
    files = written_at(tmp_path, ("c", JANUARY))
    assert ["audit-2026-12.jsonl", "audit.jsonl"] == files

    files = written_at(tmp_path, ("d", FEBRUARY))

    assert ["audit-2026-12.jsonl", "audit-2027-01.jsonl", "audit.jsonl"] == files
    assert [] == audit.verify(tmp_path)
    assert [*"abcd"] == run_names(audit.read(tmp_path)) == run_names(audit.unfinished(tmp_path))
    (tmp_path / "audit.index").unlink()
    assert [*"abcd"] == run_names(audit.unfinished(tmp_path))
    audit.append(tmp_path, replace(of_run(OUTCOME, "a"), at=FEBRUARY))
    assert [*"bcd"] == run_names(audit.unfinished(tmp_path))


def test_a_clock_that_goes_back_begins_no_file(tmp_path: Path) -> None:
    """The files are in the order of the chain, so an earlier month goes on in the newest one."""
    files = written_at(tmp_path, ("a", JANUARY), ("b", FEBRUARY), ("c", DECEMBER), ("d", JANUARY))
    assert ["audit-2027-01.jsonl", "audit.jsonl"] == files
    (tmp_path / "audit.jsonl").rename(tmp_path / "audit-2027-02.jsonl")  # a killed writer did that
    written_at(tmp_path, ("e", DECEMBER), ("f", FEBRUARY))

    assert [*"abcdef"] == run_names(audit.read(tmp_path))
    assert [] == audit.verify(tmp_path)


@pytest.mark.parametrize(
    ("gone", "flaws"),
    [
        ("audit-2026-12.jsonl", ["2 of the entries 1 to 2 are missing before {}"]),
        ("audit-2027-01.jsonl", ["entry 3 is missing before line 1"]),
        ("audit.jsonl", ["entry 4 is missing at the end"]),
    ],
)
def test_a_month_that_was_removed_is_named(tmp_path: Path, gone: str, flaws: list[str]) -> None:
    """The entries of a file that is not there are missing, and the others are read."""
    written_at(tmp_path, ("a", DECEMBER), ("b", DECEMBER), ("c", JANUARY), ("d", FEBRUARY))
    left = [name for name in "abcd" if name not in {"12": "ab", "01": "c"}.get(gone[11:13], "d")]

    (tmp_path / gone).unlink()

    assert [flaw.format("audit-2027-01.jsonl, line 1") for flaw in flaws] == audit.verify(tmp_path)
    assert left == run_names(audit.read(tmp_path)) == run_names(audit.unfinished(tmp_path))


def test_a_torn_line_stays_in_its_month(tmp_path: Path) -> None:
    """What a killed writer left at the end of a month does not spoil the next one's first entry."""
    written_at(tmp_path, ("a", DECEMBER))
    with (tmp_path / "audit.jsonl").open("ab") as log:
        log.write(b'{"seq":2,"at":')

    written_at(tmp_path, ("b", JANUARY))

    assert ["a", "b"] == run_names(audit.read(tmp_path))
    (flaw,) = audit.verify(tmp_path)
    assert isinstance(flaw, audit.TornLine)
    assert flaw.startswith("audit-2026-12.jsonl, line 2 is incomplete: its writer was killed")


def test_a_reader_at_the_end_of_a_month_misses_nothing(tmp_path: Path) -> None:
    """If the file is rotated just before or after it is opened, it is read once."""
    written_at(tmp_path, ("a", DECEMBER), ("b", JANUARY))
    entries = audit.read(tmp_path)
    assert "a" == next(entries).run.run_id

    (tmp_path / "audit.jsonl").rename(tmp_path / "audit-2027-01.jsonl")

    assert ["b"] == run_names(entries)
    assert ["a", "b"] == run_names(audit.read(tmp_path))
