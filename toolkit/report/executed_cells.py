"""The state of the cells of an executed notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_step(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell is code to be run."""
    return cell["cell_type"] == "code" and bool("".join(cell["source"]).strip())


def has_run(cell: Mapping[str, Any]) -> bool:
    return bool(cell.get("execution_count") or cell.get("outputs"))


def has_error(cell: Mapping[str, Any]) -> bool:
    return any(output["output_type"] == "error" for output in cell.get("outputs", ()))
