"""Show a prominent notice with a decision and the next command."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from toolkit.errors import ToolkitError
from toolkit.report.browser_libraries import style
from toolkit.report.command_block import command_block, copy_script
from toolkit.report.display import OutputRole, display_output, is_headless
from toolkit.report.safe_names import in_html, sentence, visible


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
    if not is_headless():
        looks = f"<style>{style('notices.css')}</style>{copy_script() if command else ''}"
        display_output({"text/html": looks, "text/plain": ""}, role=OutputRole.LIVE_ONLY)


def show_error(error: Exception) -> None:
    """Show an error: its problem and hint, or its class and text."""
    if isinstance(error, ToolkitError):
        hint = f"Try: {error.hint}" if error.hint else ""
        show_notice(sentence(error.problem), [hint], tone=NoticeTone.BAD)
    else:
        show_notice(f"{type(error).__name__}: {error}", tone=NoticeTone.BAD)
