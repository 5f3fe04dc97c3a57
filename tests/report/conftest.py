"""What the code under test puts on the page, without a notebook around it."""

from typing import Any

import pytest


class Shown(list[dict[str, Any]]):
    """What was shown, each as its formats and its metadata."""

    @property
    def figure(self) -> dict[str, Any]:
        (output,) = self
        figure: dict[str, Any] = output["data"]["application/vnd.plotly.v1+json"]
        return figure

    @property
    def html(self) -> str:
        """The HTML of the last thing shown."""
        return str(self[-1]["data"]["text/html"])

    @property
    def text(self) -> str:
        """The text of the last thing shown."""
        return str(self[-1]["data"]["text/plain"])


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    collected = Shown()

    def display(data: dict[str, Any], *, raw: bool, metadata: dict[str, Any]) -> None:
        assert raw
        collected.append({"data": data, "metadata": metadata})

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setenv("OFFSETBOOK_HEADLESS", "1")
    return collected
