"""How Sphinx makes the site: the project's own Markdown, and reference pages from the code."""

from __future__ import annotations

import shutil
import sys
from importlib import metadata
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "offsetbook"
release = metadata.version("offsetbook")
copyright = "the offsetbook authors, Apache-2.0"  # noqa: A001 - Sphinx names it so

extensions = ["myst_parser", "page_parts"]
root_doc = "README"
include_patterns = [
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md"),
    *("docs/**.md", "runbooks/**.md", "benchmarks/README.md"),
]
exclude_patterns = [".*", "build", "dist", "lab", "node_modules", "runs", "tests", "toolkit"]
suppress_warnings = ["myst.header"]  # the changelog repeats its headings in each release
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"offsetbook {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
# Its excerpts are fetched, which browsers refuse for a folder that is opened with file://.
html_show_search_summary = False
pygments_style = "default"
pygments_dark_style = "monokai"


def setup(app: Sphinx) -> None:
    app.connect("source-read", _add_contents)
    app.connect("build-finished", _add_start_page)


def _add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """The README is the first page, and GitHub shows it too: the order of the others is a file."""
    if page == app.config.root_doc:
        source[0] += "\n" + (HERE / "contents.txt").read_text("utf-8")
    elif page == "runbooks/README":
        source[0] += "\n```{toctree}\n:glob:\n:hidden:\n\n*\n```\n"
    elif page.startswith("runbooks/") and source[0].startswith("---\n"):
        front_matter = source[0].split("---\n")[1]
        source[0] += f"\n## Settings of this runbook\n\n```yaml\n{front_matter}```\n"


def _add_start_page(app: Sphinx, error: Exception | None) -> None:
    """People and web servers look for index.html."""
    if error is None:
        shutil.copy(app.outdir / "README.html", app.outdir / "index.html")
