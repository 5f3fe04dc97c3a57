"""
Replace the parts of a page that come from elsewhere, before Sphinx parses it.

    ```{reference} NAME     Markdown that a function of `reference` makes from the code
    ```{report} NOTEBOOK    the report of a notebook, as this build ran it
    ```mermaid              a sequence diagram, as SVG; other diagrams as their source
"""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import reference
from sequence_diagram import svg
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "build" / "docs-reports"
LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:)([^)#]+)\)")
PART = re.compile(r"(?ms)^```(\{reference\}|\{report\}|mermaid) *(\S*)\n(.*?)^```$")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _fill)
    app.connect("build-finished", _copy_reports)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _fill(_app: Sphinx, page: str, source: list[str]) -> None:
    def part(found: re.Match[str]) -> str:
        kind, name, body = found.groups()
        if kind == "mermaid":
            drawn = body.startswith("sequenceDiagram")
            return _raw(svg(body)) if drawn else f"```text\n{body}```"
        return _report(page, name) if kind == "{report}" else _reference(name)

    def link(found: re.Match[str]) -> str:
        # GitHub shows a folder; a site has no page for it, unless the folder has one.
        folder = (ROOT / page).parent / found[2]
        if not folder.is_dir():
            return found[0]
        has_page = (folder / "README.md").is_file()
        return f"[{found[1]}]({found[2].rstrip('/')}/README.md)" if has_page else found[1]

    source[0] = LINK.sub(link, PART.sub(part, source[0]))


def _reference(name: str) -> str:
    make: Callable[[], str] | None = reference.PAGES.get(name)
    if make is None:
        raise ExtensionError(f"no reference {name!r}; there are {', '.join(reference.PAGES)}")
    return make()


def _report(page: str, name: str) -> str:
    if not (REPORTS / f"{name}.html").is_file():
        raise ExtensionError(f"{page}: no report of notebook {name!r} in {REPORTS}")
    address = "../" * page.count("/") + f"reports/{name}.html"
    title = html.escape(name)
    return _raw(
        f'<p><a href="{address}">Open the report on a page of its own</a></p>'
        f'<iframe class="report" src="{address}" title="Report of {title}" loading="lazy"></iframe>'
    )


def _raw(markup: str) -> str:
    return f"```{{raw}} html\n{markup}\n```"


def _copy_reports(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        shutil.copytree(REPORTS, app.outdir / "reports", dirs_exist_ok=True)
