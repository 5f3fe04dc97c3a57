"""How something is put on the page, and how the report recognises it there."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Any

HEADLESS_VARIABLE = "OFFSETBOOK_HEADLESS"  # set by the runner: nobody is looking, do not animate
ROLE_KEY = "offsetbook_role"  # in an output's metadata


class Role(StrEnum):
    """What an output is for, where the report treats it in its own way."""

    PROBLEMS = "problems"  # shown at the top of the report
    LIVE_ONLY = "live-only"  # scripts that only JupyterLab needs; left out of the report


def is_headless() -> bool:
    """Whether the runner executes this notebook, so that only the report will be looked at."""
    return bool(os.environ.get(HEADLESS_VARIABLE))


def put(data: dict[str, Any], *, role: Role | None = None) -> None:
    """Display one object, given in the formats that a frontend may choose from."""
    # Slow to import, and only notebooks come here.
    from IPython.display import display  # noqa: PLC0415

    metadata = {ROLE_KEY: str(role)} if role else {}
    display(data, raw=True, metadata=metadata)  # type: ignore[no-untyped-call]  # IPython leaves it untyped
