"""Commands that are shown for copying: in words that a shell reads, and with a copy button."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolkit.model.names import typed_name
from toolkit.report.browser_libraries import script
from toolkit.report.safe_names import in_html, visible

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


@dataclass(frozen=True, slots=True)
class NotebookCall:
    """
    A notebook of the package, and the parameters that ask it for the same again.

    `takes_plan_file` is whether it can apply a saved plan. Without a name there is no notebook.
    """

    notebook: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    takes_plan_file: bool = False


def run_command(call: NotebookCall, where: Mapping[str, object]) -> str:
    """
    Return the command that runs a notebook with its parameters, in words that a shell reads.

    Each is a `shell_word`. `where` has cluster, fleet_file and state, and what replaces a
    parameter. An empty text or list is the default and is left out; None is written as an
    empty text. Without a notebook the command is "".
    """
    if not call.notebook:
        return ""
    parameters = {
        name: value for name, value in call.parameters.items() if value not in ("", (), [])
    }
    if "clusters" in parameters:  # a notebook of several clusters
        where = {name: value for name, value in where.items() if name != "cluster"}
    first = {"cluster": where.get("cluster", "")}
    words = ["offsetbook", "run", call.notebook]
    for name, value in (first | parameters | {**where, **parameters}).items():
        words += [f"-p {shell_word(f'{name}={text}')}" for text in _texts(value)]
    return " ".join(words)


def offsetbook_command(command: str, *words: str, fleet_file: Path | str | None = None) -> str:
    """Return a command, such as `groups describe`, of its words and the fleet file that is used."""
    fleet = ("--fleet", str(fleet_file)) if fleet_file else ()
    return " ".join(["offsetbook", command, *map(shell_word, (*fleet, *words))])


def shell_word(text: str) -> str:
    """
    Return a text as one word of a shell, all of whose characters are visible.

    A name with others, which a terminal would obey as soon as they are pasted, is written as
    $'...': bash, zsh and POSIX of 2024 read it.
    """
    if visible(text) == text:
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if visible(character) == character:
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogatepass"))


def typed_names(value: list[str] | tuple[str, ...]) -> list[str]:
    """Return a parameter's texts, each name so that it chooses exactly its group."""
    return list(map(typed_name, value))


def _texts(value: object) -> list[str]:
    """Return the texts that `offsetbook run` reads as a value; none for a default."""
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, list | tuple):
        # One text would be split at commas, and a name may hold some.
        items = typed_names(value)
        return [*items, ""] if len(items) == 1 and "," in items[0] else items
    return [""] if value is None else [str(value)] if value != "" else []
