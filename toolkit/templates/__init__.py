"""
The notebooks and runbooks that come with offsetbook, and the files a new directory begins with.

In a clone the two folders are links to those at the top of it. They are not edited where they are
installed: `toolkit.templates.working_copies` copies them out.
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent
NOTEBOOKS = (_HERE / "notebooks").resolve()
RUNBOOKS = (_HERE / "runbooks").resolve()
STARTERS = {"fleet.yaml": _HERE / "fleet.yaml", ".gitignore": _HERE / "gitignore"}
