"""A command to copy: broken at spaces only, with a button that copies it byte for byte."""

from __future__ import annotations

from toolkit.report.browser_libraries import script
from toolkit.report.safe_names import in_html

# No <button> with a text: JupyterLab shows that, and runs no script, in a notebook it does not
# trust. This has no text, and none is seen until `copy.js.j2` has run.
_BUTTON = (
    '<span class="ob-copy" role="button" tabindex="0" aria-label="Copy" '
    'data-lm-suppress-shortcuts="true"></span>'
)


def command_block(command: str) -> str:
    """
    Return a command as HTML; there is no button where `copy.js.j2` does not run.

    The text of the element `code` is the command itself: see `run_command.shell_word`.
    """
    words = " ".join(f"<span>{in_html(word)}</span>" for word in command.split(" "))
    return f'<div class="ob-command"><pre><code>{words}</code></pre>{_BUTTON}</div>'


def copy_script() -> str:
    """Return what JupyterLab needs for the buttons of the page; a report has the script itself."""
    return f'<script type="module">{script("copy.js.j2")}</script>'
