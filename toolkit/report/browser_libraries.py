"""
Load JavaScript and CSS for tables and charts from installed packages.

They travel compressed inside the page, so there is nothing to fetch. Charts with axes need a third
of plotly.js, which its authors publish as a build of its own; it is in the folder `plotly_js`.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from toolkit.errors import PrerequisiteMissing
from toolkit.report.display import running_cell

_FOLDER = Path(__file__).parent / "template"
PLOTLY_CARTESIAN = Path(__file__).parent / "plotly_js" / "plotly-cartesian-4.1.1.min.js.gz"
# The chart types with two axes of that build.
_WITH_AXES = {"bar", "box", "contour", "heatmap", "histogram", "histogram2d", "scatter", "violin"}
# Cells have no class where the table names their column: that would be a third of a long table.
STYLED_COLUMNS = 24


@cache
def datatables() -> str:
    """DataTables as an ES module, from the copy inside itables, compressed and in base64."""
    spec = find_spec("itables")  # found and not imported: only this file of it is needed
    if spec is None or spec.origin is None:
        raise PrerequisiteMissing("itables is not installed", hint="pip install itables")
    bundle = Path(spec.origin).parent / "html" / "dt_bundle.js"
    return _packed(bundle.read_text(encoding="utf-8"))


@cache
def plotly(kinds: frozenset[str]) -> str:
    """As much of plotly.js as draws traces of these kinds, compressed and in base64."""
    if kinds <= _WITH_AXES:
        return b64encode(PLOTLY_CARTESIAN.read_bytes()).decode("ascii")
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - hardly any chart needs all of it

    return _packed(get_plotlyjs())


@cache
def script(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def style(*names: str) -> str:
    """Some of our own style sheets; NUMBERS and MOMENTS in them are the cells of such columns."""
    text = "".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)
    for column in ("number", "moment"):
        places = range(1, STYLED_COLUMNS + 1)
        cells = [f".{column}-{place} td:nth-child({place})" for place in places]
        text = text.replace(f"{column.upper()}S", ", ".join([f".{column}", *cells]))
    return text


# The cell of which the output has the library, and the run of it: one kernel, one page.
_carrier: list[tuple[str, str]] = []


def table_script() -> str:
    """What JupyterLab needs to make the tables of the page sortable; the library only once."""
    here = running_cell()
    was_replaced = bool(_carrier and here[0] == _carrier[0][0] and here != _carrier[0])
    library = ""
    if not _carrier or was_replaced:
        library, _carrier[:] = datatables(), [here]
    call = f'window.offsetbookSortTables("{library}");'
    return f'{table_style()}<script type="module">{script("tables.js.j2")}{call}</script>'


def table_style() -> str:
    """What JupyterLab needs for the looks of a table without rows."""
    return f"<style>{style('tables.css')}</style>"


def _packed(source: str) -> str:
    compressed = gzip.compress(source.encode("utf-8"), compresslevel=9, mtime=0)
    return b64encode(compressed).decode("ascii")
