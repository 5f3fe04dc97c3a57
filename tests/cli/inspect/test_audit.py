"""`offsetbook audit`: names that nothing in the log has, and a log that was removed."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from main_program import Command, call_main
from plans_for_review import DETAILED_PLAN, NOON

from toolkit.storage import audit
from toolkit.storage.audit import RunInfo

FLEET = "clusters:\n  eu: {bootstrap.servers: 'b:9092'}\n  us: {bootstrap.servers: 'c:9092'}\n"


@pytest.fixture
def listed(tmp_path: Path) -> Command:
    """Return a function that lists a log with one run on `eu`, which changed `payments`."""
    audit.append(tmp_path, audit.intent_entry(DETAILED_PLAN, RunInfo("run-1", "a", "b", "c"), NOON))
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET)

    def run(*arguments: str) -> CompletedProcess[str]:
        words = ("audit", "list", "--state", str(tmp_path), "--output", "json", *arguments)
        return call_main(words, folder=tmp_path, OFFSETBOOK_FLEET=str(fleet))

    return run


@pytest.mark.parametrize(
    ("arguments", "code", "found", "says"),
    [
        (("-c", "eu", "-g", "payments"), 0, 1, ""),
        (("-g", "pay*"), 0, 1, ""),
        (("-c", "B:9092"), 0, 1, ""),
        (("-c", "us"), 0, 0, ""),  # of the fleet, and nothing was changed there
        (("-g", "payment"), 1, None, "group payment: no run changed it; did you mean payments?"),
        (("-g", "ship*"), 1, None, "group ship*: no run changed it"),
        (("-g", "pay*", "-g", "nope"), 4, 1, "group nope: no run changed it"),
        (
            ("-c", "uee"),
            1,
            None,
            "no run of cluster 'uee' is in the audit log. Try: use one of: eu",
        ),
        (("-c", "d:9092"), 1, None, "no run of cluster 'd:9092'"),
    ],
)
def test_a_name_that_is_not_in_the_log_is_reported(
    listed: Command, arguments: tuple[str, ...], code: int, found: int | None, says: str
) -> None:
    """A typo does not look like a group or cluster without changes."""
    done = listed(*arguments)

    assert (code, found) == (done.returncode, len(json.loads(done.stdout)) if done.stdout else None)
    assert says in done.stderr
    assert bool(says) is bool(done.stderr)


@pytest.mark.parametrize("content", [None, ""])
def test_a_log_that_was_removed(listed: Command, tmp_path: Path, content: str | None) -> None:
    """Its head file is left, so the command does not report that nothing was changed."""
    log = tmp_path / "audit.jsonl"
    log.unlink()
    if content is not None:
        log.write_text(content)

    done = listed()

    assert (1, "") == (done.returncode, done.stdout)
    assert "Try: 'offsetbook audit verify' tells how many entries are missing" in done.stderr
