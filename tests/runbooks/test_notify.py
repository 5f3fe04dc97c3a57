"""Who is told how a runbook ended, what, and that a notice that fails hides nothing."""

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from toolkit.runbooks.notify import notify
from toolkit.runbooks.parallel_runs import ClusterRunResult, exit_code
from toolkit.runbooks.runbook_page import NotifyRule, Runbook

PAGE = Runbook(Path("try.md"), "Try", "Now", "Not", Path("20.ipynb"), (), may_change=False)
HOSTILE = "<!channel> & <http://x|y>"


def ended(*, changed: int = 0, summary: str = "fine") -> ClusterRunResult:
    result: Mapping[str, Any] = {
        "status": "done",
        "exit_code": 0,
        "counts": {"changed": changed},
        "undo": "20261122T1" if changed else None,
        "summary": summary,
        "error": None,
    }
    return ClusterRunResult(("eu",), 0, result)


LOOKED = ended()
CHANGED = ended(changed=2)
FAILED = ClusterRunResult(("us",), 3, why="runbook try is being run")
NOT_BEGUN = ClusterRunResult(("us",), 2, why="no such cluster", begun=False)


class _Inbox:
    """A web server on loopback that keeps what is posted to it."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.answer = 200
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                inbox.got.append(json.loads(body))
                self.send_response(inbox.answer)
                self.end_headers()

            def log_message(self, *_said: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)


@pytest.fixture
def inbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Inbox]:
    """Return a server whose address is in the environment as $HOOK."""
    inbox = _Inbox()
    monkeypatch.setenv("HOOK", f"http://127.0.0.1:{inbox.server.server_port}/services/hunter2")
    thread = threading.Thread(target=inbox.server.serve_forever)
    thread.start()
    yield inbox
    inbox.server.shutdown()
    thread.join()
    inbox.server.server_close()


def told(*notices: NotifyRule, runs: tuple[ClusterRunResult, ...] = (LOOKED,)) -> list[str]:
    """Give notices of some runs, and return what went wrong."""
    return notify(replace(PAGE, notify=notices), runs)


@pytest.mark.parametrize(
    ("on", "due"),
    [
        ("always", [True] * 5),
        ("change", [False, True, False, True, False]),
        ("failure", [False, False, True, True, True]),
    ],
)
def test_when_a_notification_is_sent(inbox: _Inbox, on: str, due: list[bool]) -> None:
    """Always, on any change, or on any failure: once for all clusters."""
    hook = NotifyRule(on, "${env:HOOK}")

    for wanted, runs in zip(
        due,
        [(LOOKED,), (LOOKED, CHANGED), (LOOKED, FAILED), (CHANGED, FAILED), (NOT_BEGUN,)],
        strict=True,
    ):
        inbox.got.clear()
        assert [] == told(hook, runs=runs)
        assert wanted == (len(inbox.got) == 1)


@pytest.mark.parametrize(
    ("status", "counts", "dry_run", "due"),
    [
        ("kernel-died", {}, False, True),
        ("timed-out", {}, False, True),
        ("partly-applied", {}, False, True),
        ("kernel-died", {}, True, False),
        ("blocked", {}, False, False),
        ("failed", {"changed": 0}, False, False),
    ],
)
def test_a_possible_change_is_notified(
    inbox: _Inbox, status: str, counts: dict[str, int], *, dry_run: bool, due: bool
) -> None:
    """A run that ended without a conclusion may have changed something."""
    result = {**(LOOKED.result or {}), "status": status, "counts": counts, "exit_code": 1}
    run = ClusterRunResult(("eu",), 1, {**result, "parameters": {"dry_run": dry_run}})

    assert [] == told(NotifyRule("change", "${env:HOOK}"), runs=(run,))
    assert due == (len(inbox.got) == 1)


def test_the_notification_for_programs(inbox: _Inbox) -> None:
    """All of result.json of each run, and a text for people."""
    told(NotifyRule("always", "${env:HOOK}"), runs=(CHANGED, FAILED))

    (content,) = inbox.got
    assert ("try", "Try", 3) == (content["runbook"], content["title"], content["exit_code"])
    assert [CHANGED.result, None] == [run["result"] for run in content["runs"]]
    assert [["eu"], ["us"]] == [run["clusters"] for run in content["runs"]]
    assert content["text"].splitlines() == [
        "offsetbook try: exit 3",
        "eu: done: fine; undo 20261122T1",
        "us: blocked: runbook try is being run",
    ]


def test_the_notification_for_slack(inbox: _Inbox) -> None:
    """One text in which no group name can mention a channel or be a link."""
    told(NotifyRule("always", "${env:HOOK}", "slack"), runs=(ended(summary=HOSTILE),))

    (content,) = inbox.got
    assert {"text"} == content.keys()
    assert "&lt;!channel&gt; &amp; &lt;http://x|y&gt;" in content["text"]


def test_a_webhook_that_fails(inbox: _Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the reference: the address may be a secret."""
    hook = NotifyRule("always", "${env:HOOK}")
    inbox.answer = 403
    problems = told(hook)
    monkeypatch.setenv("HOOK", "http://127.0.0.1:1/hunter2")
    problems += told(hook)
    monkeypatch.setenv("HOOK", "ftp://hunter2")
    problems += told(hook)
    monkeypatch.delenv("HOOK")
    problems += told(hook)

    assert [
        "HTTP status 403 Forbidden" in problems[0],
        "Connection refused" in problems[1],
        "not a URL that begins with https://" in problems[2],
        "${env:HOOK}, which is not set" in problems[3],
    ] == [True] * 4
    assert all(
        problem.startswith("notification via webhook ${env:HOOK} failed:") for problem in problems
    )
    assert "hunter2" not in "".join(problems)


def test_a_command_of_their_own(tmp_path: Path) -> None:
    """It gets the same JSON on its stdin, and the exit code in its environment."""
    target = tmp_path / "got"
    script = f"cat > {target}; echo $OFFSETBOOK_RUNBOOK $OFFSETBOOK_EXIT_CODE >> {target}"

    assert [] == told(NotifyRule("always", command=("sh", "-c", script)), runs=(CHANGED, FAILED))

    content, last = target.read_text().rsplit("}", 1)
    assert "try" == json.loads(content + "}")["runbook"]
    assert "try 3" == last.strip()


def test_a_command_that_fails() -> None:
    """Its exit code and last words, or that it could not be started."""
    problems = told(
        NotifyRule("always", command=("sh", "-c", "echo no mail >&2; exit 7")),
        NotifyRule("always", command=("/no/such/program",)),
    )

    assert ["notification via command sh failed: exit 7: no mail"] == problems[:1]
    assert "No such file" in problems[1]


@pytest.mark.parametrize(
    ("codes", "worst"), [([], 0), ([0, 0], 0), ([0, 3], 3), ([3, 4], 4), ([4, 2], 2), ([2, 1], 1)]
)
def test_the_worst_of_all_is_the_exit_code(codes: list[int], worst: int) -> None:
    """What failed matters more than what was done in part, and that more than what was blocked."""
    assert worst == exit_code([ClusterRunResult((), code) for code in codes])
