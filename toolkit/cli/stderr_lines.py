"""Messages on a terminal are broken at spaces; it would itself break them inside words."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import TextIO

import click

# What is quoted in a message is one word: of a command that is copied a shell would run a part.
_WORD = re.compile(r"(?:(?<!\w)'[^']*'|\S)+")
_COMMAND = "offsetbook "  # a line that begins with it is a command alone


def break_long_lines() -> None:
    """Have stderr break messages at spaces where it is a terminal that tells its width."""
    own = sys.__stderr__
    if own is None or sys.stderr is not own or not own.isatty():
        return
    # By the same descriptor: what stands for it meanwhile, such as a file, gets the messages.
    raw = io.BufferedWriter(io.FileIO(own.fileno(), "w", closefd=False))
    sys.stderr = _MessageLines(
        raw, own.encoding, own.errors, line_buffering=True, write_through=True
    )


class _MessageLines(io.TextIOWrapper):
    """The terminal's stderr."""

    def write(self, text: str, /) -> int:
        """Write whole lines broken at spaces, and everything else as it is."""
        if text.endswith("\n"):
            lines = text[:-1].split("\n")
            text = "\n".join(broken_at_spaces(line, width_of(self)) for line in lines) + "\n"
        return super().write(text)


def width_of(terminal: TextIO) -> int:
    """Return how many characters a line of a terminal has; 0 if unknown."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns
    except OSError:
        return 0


def broken_at_spaces(line: str, width: int) -> str:
    """Return a line as several that fit, as far as no word is longer; 0 is no limit."""
    if not width or 2 * len(line) <= width or line.startswith(_COMMAND):
        return line
    from rich.cells import cell_len

    if cell_len(click.unstyle(line)) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    words = _WORD.findall(line)
    lines = [indent + words[0]] if words else [line]
    for word in words[1:]:
        joined = f"{lines[-1]} {word}"
        if cell_len(click.unstyle(joined)) <= width:
            lines[-1] = joined
        else:
            lines.append(indent + word)
    return "\n".join(lines)
