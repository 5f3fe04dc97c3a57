"""Prominent notices: a decision and the next command, what a cell needs, and what was not read."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from toolkit.errors import ToolkitError, UsageError
from toolkit.model import Snapshot
from toolkit.planning.frames.snapshot_frames import problems_frame
from toolkit.report.browser_libraries import style
from toolkit.report.display import display_output, page_script, running_cell, show_looks
from toolkit.report.run_command import command_block, copy_script
from toolkit.report.safe_names import in_html, sentence, visible
from toolkit.report.tables import show_problems

# Run All leaves the page at the last cell, far below the list.
SHOW_LIST = """
    const above = [...(here?.closest(".jp-Notebook")?.querySelectorAll(".ow-card") ?? [])]
      .filter((card) => card.querySelector(".ow-list") && card.compareDocumentPosition(here) & 4);
    if (above.length) return above.pop().scrollIntoView({ block: "center" });"""


class NoticeTone(StrEnum):
    """How a notice looks."""

    NOTE = "note"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


def show_notice(
    title: str, lines: Sequence[str] = (), *, command: str = "", tone: NoticeTone = NoticeTone.NOTE
) -> None:
    """Show a title, some sentences and a command to copy; every one of them as text."""
    paragraphs = "".join(f"<p>{in_html(line)}</p>" for line in lines if line)
    code = command_block(command) if command else ""
    head = f'<p class="ob-notice-title">{in_html(title)}</p>'
    html = f'<div class="ob-notice ob-{tone}" role="status">{head}{paragraphs}{code}</div>'
    text = "\n".join(visible(part) for part in (title, *lines, command) if part)
    display_output({"text/html": html, "text/plain": text})
    show_looks(f"<style>{style('notices.css')}</style>{copy_script() if command else ''}")


def show_error(error: Exception) -> None:
    """Show an error: its problem and hint, or its class and text."""
    if isinstance(error, ToolkitError):
        hint = f"Try: {error.hint}" if error.hint else ""
        show_notice(sentence(error.problem), [hint], tone=NoticeTone.BAD)
    else:
        show_notice(f"{type(error).__name__}: {error}", tone=NoticeTone.BAD)


def nothing_selected(problem: str, *, hint: str) -> UsageError:
    """Return the error to raise; in JupyterLab the list above comes into sight."""
    cell, run = running_cell()
    if cell:
        show_looks(f'<span id="ob-{run}"></span>{page_script(f"ob-{run}", SHOW_LIST)}')
    return UsageError(problem, hint=hint)


def show_read_errors(facts: Snapshot) -> None:
    show_problems(problems_frame(facts.problems, cluster=facts.cluster))
