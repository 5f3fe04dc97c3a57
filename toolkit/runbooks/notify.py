"""
Send a notification when a runbook ends: call a webhook, or run a configured command.

A notification that fails never hides the result: the reason is reported, and the exit code stays.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from toolkit.model.secrets import resolved
from toolkit.operate.deferred_signals import defer_signals
from toolkit.runbooks.parallel_runs import ClusterRunResult, exit_code
from toolkit.runbooks.runbook_page import NotifyRule, Runbook

WEBHOOK_TIMEOUT_S = 15
COMMAND_TIMEOUT_S = 60


def notify(page: Runbook, ended: Sequence[ClusterRunResult]) -> list[str]:
    """Give every notice that is due, and return why those failed that did."""
    problems = []
    with defer_signals():
        for notice in page.notify:
            if _is_due(notice, ended):
                why = _call(notice, page, ended) if notice.webhook else _run(notice, page, ended)
                problems += [f"notification via {_by(notice)} failed: {why}"] if why else []
    return problems


def text_of(page: Runbook, ended: Sequence[ClusterRunResult]) -> str:
    """Return the text of the notification: a line for the runbook, and one for each run."""
    lines = [f"offsetbook {page.name}: exit {exit_code(ended)}"]
    for one in ended:
        where = ", ".join(one.clusters) or "run"
        undo = f"; undo {one.undo}" if one.undo else ""
        lines.append(f"{where}: {one.status}: {one.message}{undo}")
    return "\n".join(lines)


def content_of(page: Runbook, ended: Sequence[ClusterRunResult]) -> dict[str, object]:
    """
    Return the notification as JSON: runbook, title, exit_code, text, and the runs.

    Each run has clusters, status, exit_code, said, and result: the content of its `result.json`.
    """
    return {
        "runbook": page.name,
        "title": page.title,
        "exit_code": exit_code(ended),
        "text": text_of(page, ended),
        "runs": [
            {
                "clusters": list(one.clusters),
                "status": one.status,
                "exit_code": one.exit_code,
                "said": one.message,
                "result": one.result,
            }
            for one in ended
        ],
    }


def _is_due(notice: NotifyRule, ended: Sequence[ClusterRunResult]) -> bool:
    failed = exit_code(ended) != 0
    changed = any(one.may_have_changed for one in ended)
    return {"always": True, "failure": failed, "change": changed}[notice.on]


def _by(notice: NotifyRule) -> str:
    # The reference, not its value: anyone with the URL can post to it.
    return f"webhook {notice.webhook}" if notice.webhook else f"command {notice.command[0]}"


def _call(notice: NotifyRule, page: Runbook, ended: Sequence[ClusterRunResult]) -> str:
    """Post to a webhook and return why that failed; "" where it did not."""
    try:
        address = resolved(notice.webhook)
    except LookupError as exc:
        return f"it refers to {exc}"
    if not address.startswith(("https://", "http://")):
        return "it is not a URL that begins with https://"
    body = content_of(page, ended)
    if notice.format == "slack":
        body = {"text": _for_slack(text_of(page, ended))}
    data = json.dumps(body).encode()
    request = Request(address, data, {"Content-Type": "application/json"}, method="POST")  # noqa: S310 - see above
    try:
        with urlopen(request, timeout=WEBHOOK_TIMEOUT_S):  # noqa: S310 - see above
            return ""
    except HTTPError as exc:
        exc.close()
        return f"HTTP status {exc.code} {exc.reason}"
    except URLError as exc:
        return str(exc.reason)
    except (OSError, HTTPException, ValueError) as exc:  # no answer in time, or none of HTTP
        return f"{type(exc).__name__}"


def _for_slack(text: str) -> str:
    """Escape what Slack reads as links and mentions: a group may be called <!channel>."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _run(notice: NotifyRule, page: Runbook, ended: Sequence[ClusterRunResult]) -> str:
    """Run a command with the JSON on its stdin; return why that failed, "" where it did not."""
    variables = {"OFFSETBOOK_RUNBOOK": page.name, "OFFSETBOOK_EXIT_CODE": str(exit_code(ended))}
    try:
        done = subprocess.run(
            notice.command,
            input=json.dumps(content_of(page, ended)),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT_S,
            env={**os.environ, **variables},
            check=False,
        )
    except OSError as exc:
        return exc.strerror or str(exc)
    except ValueError as exc:  # a NUL character in it
        return str(exc)
    except subprocess.TimeoutExpired:
        return f"it took longer than {COMMAND_TIMEOUT_S} s"
    message = " ".join(done.stderr.split())[-200:]
    return f"exit {done.returncode}: {message}".rstrip(": ") if done.returncode else ""
