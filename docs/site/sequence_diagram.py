"""
Draw a sequence diagram as SVG: the part of Mermaid's notation that our pages use.

    participant NAME as LABEL
    A->>B: request        a solid arrow
    A-->>B: response      a dashed arrow
    Note over A,B: text

Mermaid itself is 3 MB of JavaScript that a page would fetch; GitHub draws the same source.
"""

from __future__ import annotations

import html
import re
import textwrap

COLUMN, ROW, LINE, MARGIN = 230, 46, 16, 12
PARTICIPANT = re.compile(r"participant (\w+) as (.+)")
ARROW = re.compile(r"(\w+)(--?)>>(\w+): (.+)")
NOTE = re.compile(r"Note over (\w+)(?:,(\w+))?: (.+)")


def svg(source: str) -> str:
    """Return the diagram; raises ValueError that names a line it does not understand."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    if lines[:1] != ["sequenceDiagram"]:
        raise ValueError(f"not a sequence diagram: {lines[:1]}")
    named = [found for line in lines if (found := PARTICIPANT.fullmatch(line))]
    middle = {one[1]: MARGIN + COLUMN // 2 + COLUMN * at for at, one in enumerate(named)}
    width = 2 * MARGIN + COLUMN * len(named)
    parts: list[str] = []
    y = 62
    for line in lines[1 + len(named) :]:
        if found := ARROW.fullmatch(line):
            drawn, height = _arrow(middle[found[1]], middle[found[3]], y, found)
        elif found := NOTE.fullmatch(line):
            drawn, height = _note(middle[found[1]], middle[found[2] or found[1]], y, found[3])
        else:
            raise ValueError(f"a sequence diagram has no line like {line!r}")
        parts += drawn
        y += height
    heads = [_head(middle[one[1]], one[2], y) for one in named]
    label = html.escape("; ".join(lines[1 + len(named) :]), quote=True)
    return (
        f'<svg class="sequence" role="img" aria-label="{label}" viewBox="0 0 {width} {y + 8}" '
        f'width="{width}" font-size="13" font-family="sans-serif" fill="none" '
        f'stroke="currentColor">{"".join([*heads, *parts])}</svg>'
    )


def _head(x: int, label: str, bottom: int) -> str:
    wide = COLUMN - 24
    return (
        f'<rect x="{x - wide // 2}" y="8" width="{wide}" height="30" rx="4"/>'
        f"{_text(x, 28, [label])}"
        f'<line x1="{x}" y1="38" x2="{x}" y2="{bottom}" stroke-dasharray="2 4"/>'
    )


def _arrow(start: int, end: int, y: int, found: re.Match[str]) -> tuple[list[str], int]:
    wide = max(abs(end - start), COLUMN)
    words = textwrap.wrap(found[4], (wide - 24) // 7)
    line_y = y + LINE * (len(words) - 1) + 8
    dash = ' stroke-dasharray="6 4"' if found[2] == "--" else ""
    back = -7 if end > start else 7
    return [
        _text((start + end) // 2, y, words),
        f'<line x1="{start}" y1="{line_y}" x2="{end}" y2="{line_y}"{dash}/>',
        f'<path d="M{end + back} {line_y - 4} L{end} {line_y} L{end + back} {line_y + 4}"/>',
    ], line_y - y + ROW - 8


def _note(start: int, end: int, y: int, text: str) -> tuple[list[str], int]:
    left, right = start - COLUMN // 2 + 8, end + COLUMN // 2 - 8
    words = textwrap.wrap(text, (right - left - 16) // 7)
    height = LINE * len(words) + 10
    box = (
        f'<rect x="{left}" y="{y - 14}" width="{right - left}" height="{height}" rx="2" '
        'fill="var(--color-background-secondary)" stroke-opacity="0.4"/>'
    )
    return [box, _text((left + right) // 2, y + 3, words)], height + 24


def _text(x: int, y: int, lines: list[str]) -> str:
    rows = "".join(
        f'<tspan x="{x}" y="{y + at * LINE}">{html.escape(line)}</tspan>'
        for at, line in enumerate(lines)
    )
    return f'<text text-anchor="middle" fill="currentColor" stroke="none">{rows}</text>'
