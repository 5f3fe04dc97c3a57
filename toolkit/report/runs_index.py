"""The page that lists the runs of a folder, complete in one file like the reports it leads to."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import jinja2

from toolkit.model.times import format_duration
from toolkit.report.browser_libraries import datatables, script, style
from toolkit.report.safe_names import visible

TONES = {
    **dict.fromkeys(("done", "dry run"), "good"),
    **dict.fromkeys(("blocked", "partly-applied", "incomplete"), "warn"),
    **dict.fromkeys(("failed", "interrupted", "timed-out", "kernel-died", "no result"), "bad"),
}
MOST = 2_000
_FOLDER = Path(__file__).parent / "template"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run, or one folder that should hold one: then `status` is "no result" and says why."""

    folder: str  # its name within the folder of runs
    status: str
    summary: str  # or why it failed, or why there is no result
    notebook: str = ""
    clusters: tuple[str, ...] = ()
    changed: str = ""
    problems: int | None = None
    began: datetime | None = None
    took_s: float | None = None
    who: str = ""
    report: str = ""  # file name within `folder`; "" where there is none


def write_index(rows: Sequence[RunRow], html: Path, *, of: str) -> None:
    """
    Write the list of some runs, in the order given; `of` says of what they are.

    At most 2,000 are listed, and the page says so where there are more. The file is replaced in one
    piece, also by two writers at once.
    """
    nonce = secrets.token_urlsafe(16)
    loader = jinja2.FileSystemLoader(_FOLDER)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    text = environment.get_template("runs.html.j2").render(
        nonce=nonce,
        of=visible(of),
        rows=[_shown(row) for row in rows[:MOST]],
        counts=[
            {"name": status, "value": f"{number:,}", "tone": TONES.get(status, "")}
            for status, number in Counter(row.status for row in rows).most_common()
        ],
        cut=f"Showing the newest {MOST:,} of {len(rows):,} runs." if rows[MOST:] else "",
        written=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        styles=style("report.css", "tables.css", "runs.css"),
        datatables=datatables() if rows else "",
        script=script("tables.js.j2") + script("runs.js.j2"),
    )
    partial = html.with_name(f".{html.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
        partial.replace(html)
    finally:
        partial.unlink(missing_ok=True)


def _shown(row: RunRow) -> dict[str, object]:
    began = row.began.astimezone(UTC) if row.began else None
    # A link that a hostile folder or file name cannot turn into another address.
    link = f"./{quote(row.folder)}/{quote(row.report)}" if row.report else ""
    return {
        "began": f"{began:%Y-%m-%d %H:%M:%S}" if began else "",
        "notebook": visible(row.notebook or row.folder),
        "folder": visible(row.folder),
        "link": link,
        "status": visible(row.status),
        "tone": TONES.get(row.status, ""),
        "clusters": visible(", ".join(row.clusters)),
        "changed": visible(row.changed),
        "problems": "" if row.problems is None else f"{row.problems:,}",
        "took": "" if row.took_s is None else format_duration(row.took_s),
        "took_s": "" if row.took_s is None else f"{row.took_s:.1f}",
        "who": visible(row.who),
        "summary": visible(row.summary),
    }
