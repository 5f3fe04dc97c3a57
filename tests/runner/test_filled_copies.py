"""Copies of the package's notebooks with parameters filled in."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from toolkit.errors import StateFileError
from toolkit.runner.parameters import read_parameters
from toolkit.templates import NOTEBOOKS
from toolkit.templates.filled_copies import name_of_copy, write_filled_copy

PAUSE = "40_pause_partitions"
GROUP = "it's <img src=x>/../é"
FILLED = {"groups": (GROUP,), "topics": ("a:0-2", 'b"\\:1'), "cluster": "us"}


def test_what_is_filled_in_is_what_is_read(tmp_path: Path) -> None:
    """The parameters are filled in, whatever their text; types, help and all other cells stay."""
    copy = write_filled_copy(PAUSE, FILLED, tmp_path)

    named = "40-us-it-s-img-src-x-2-topics-pause_partitions.ipynb"
    assert (tmp_path, named) == (copy.parent, copy.name)
    before = read_parameters(NOTEBOOKS / f"{PAUSE}.ipynb")
    filled = FILLED | {name: [*FILLED[name]] for name in ("groups", "topics")}
    assert [(p.name, p.type, filled.get(p.name, p.default), p.help) for p in before] == [
        (p.name, p.type, p.default, p.help) for p in read_parameters(copy)
    ]
    cells, own = (
        json.loads(path.read_text("utf-8"))["cells"]
        for path in (NOTEBOOKS / f"{PAUSE}.ipynb", copy)
    )
    assert 1 == sum(one != other for one, other in zip(cells, own, strict=True))
    (changed,) = (cell for cell in own if cell["metadata"].get("tags"))
    ast.parse("".join(changed["source"]))


@pytest.mark.parametrize(
    ("notebook", "values", "name"),
    [
        ("61_delete_groups", {"cluster": "eu", "groups": ["payments"]}, "61-eu-payments"),
        (PAUSE, {"cluster": "eu", "group": "payments"}, "40-eu-payments-pause_partitions"),
        (
            PAUSE,
            {"group": "payments", "action": "resume", "topics": ["orders:2"]},
            "40-payments-orders-2-resume",
        ),
        ("50_reset_offsets", {"groups": ["a", "b"], "mode": "to-offset"}, "50-2-groups-to-offset"),
        (
            "60_delete_offsets",
            {"groups": ["a", "b"], "unsubscribed": True, "cluster": "us"},
            "60-us-2-groups-unsubscribed-delete_offsets",
        ),
        ("90_troubleshoot_group", {}, "90-troubleshoot_group"),
        ("61_delete_groups", {"groups": ["x" * 200], "cluster": "é"}, f"61-{'x' * 24}-delete"),
    ],
)
def test_a_copy_is_told_apart_by_the_first_letters_of_its_name(
    notebook: str, values: dict[str, object], name: str
) -> None:
    """The number of the notebook, the cluster and what is chosen come first."""
    assert name_of_copy(notebook, values).startswith(name)


def test_no_file_is_replaced(tmp_path: Path) -> None:
    """The same copy is written once; beside one that somebody edited there is another."""
    first = write_filled_copy(PAUSE, FILLED, tmp_path)
    assert first == write_filled_copy(PAUSE, FILLED, tmp_path)
    first.write_text("edited", "utf-8")

    second = write_filled_copy(PAUSE, FILLED, tmp_path)

    assert "edited" == first.read_text()
    assert first.name.replace("40-us", "40-2-us") == second.name
    with pytest.raises(StateFileError, match="cannot be written"):
        write_filled_copy(PAUSE, FILLED, tmp_path / "missing")


def test_no_two_copies_look_alike(tmp_path: Path) -> None:
    """Their first 14 letters, which JupyterLab's list of files shows, are never the same."""
    names = [f"payments-authorized-{name}" for name in ("eu", "us", "asia")]
    asked = [FILLED | {"cluster": "production", "groups": (name,)} for name in names]

    first = [write_filled_copy(PAUSE, one, tmp_path) for one in asked]

    assert ["40-production-", "40-2-productio", "40-3-productio"] == [p.name[:14] for p in first]
    assert first == [write_filled_copy(PAUSE, one, tmp_path) for one in asked]
    assert 3 == len([*tmp_path.iterdir()])
