"""What the code under test puts on the page, without a notebook around it."""

from typing import Any

import pytest


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Collect every displayed object, as its formats and its metadata."""
    collected: list[dict[str, Any]] = []

    def display(data: dict[str, Any], *, raw: bool, metadata: dict[str, Any]) -> None:
        assert raw
        collected.append({"data": data, "metadata": metadata})

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setenv("OFFSETBOOK_HEADLESS", "1")
    return collected
