"""
What JupyterLab writes into a notebook as soon as its kernel has started.

A notebook without it is marked as changed right after it was opened. It names the version of
Python, so a notebook gets it where it is copied, and two notebooks that differ in it are the same.
"""

from __future__ import annotations

import json
import platform
import sys
from typing import Any

KERNEL = "python3"


def kernel_metadata() -> dict[str, Any]:
    """Return the metadata for ipykernel on the running Python."""
    major = sys.version_info.major
    return {
        "kernelspec": {
            "display_name": f"Python {major} (ipykernel)",
            "language": "python",
            "name": KERNEL,
        },
        "language_info": {
            "codemirror_mode": {"name": "ipython", "version": major},
            "file_extension": ".py",
            "mimetype": "text/x-python",
            "name": "python",
            "nbconvert_exporter": "python",
            "pygments_lexer": f"ipython{major}",
            "version": platform.python_version(),
        },
    }


def with_kernel(notebook: str) -> str:
    """Return a notebook that stays as it is when JupyterLab opens it."""
    content = json.loads(notebook)
    return notebook_text(content | {"metadata": content["metadata"] | kernel_metadata()})


def as_shipped(notebook: str, shipped: str) -> str:
    """Return a copy with the metadata of the notebook it was made from; of another kernel as is."""
    try:
        content = json.loads(notebook)
        if content["metadata"]["kernelspec"]["name"] != KERNEL:
            return notebook
        return notebook_text(content | {"metadata": json.loads(shipped)["metadata"]})
    except (ValueError, KeyError, TypeError):
        return notebook


def notebook_text(content: dict[str, Any]) -> str:
    """Return a notebook as JupyterLab saves it."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
