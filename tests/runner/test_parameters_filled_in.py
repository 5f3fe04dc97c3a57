import ast
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import StateFileError
from toolkit.runner.parameters import ValueType, read_parameters, read_type
from toolkit.templates import NOTEBOOKS
from toolkit.templates.working_copies import name_of_copy, write_filled_copy

NAMES = st.text(st.characters(exclude_characters=",", exclude_categories=["Cs"]), min_size=1)
VALUES = {
    "str": st.text(),
    "int": st.integers(),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "list[str]": st.lists(NAMES.map(str.strip).filter(bool), min_size=1),
}
TYPED_VALUES = st.sampled_from(sorted(VALUES)).flatmap(
    lambda kind: st.tuples(st.just(kind), VALUES[kind])
)


def type_named(annotation: str) -> ValueType | None:
    return read_type(ast.parse(annotation, mode="eval").body)


@given(TYPED_VALUES)
def test_round_trip(typed: tuple[str, object]) -> None:
    """A value written as text comes back as itself, and is accepted."""
    kind, value = typed
    declared = type_named(kind)
    texts = [",".join(value)] if kind == "list[str]" else [str(value)]

    found = declared.from_texts(texts)

    assert found == value
    assert declared.accepts(found)


@given(st.sampled_from(sorted(VALUES)), st.text())
def test_any_text(kind: str, text: str) -> None:
    """Any text is refused, or becomes a finite value that the declared type accepts."""
    declared = type_named(kind)
    try:
        value = declared.from_texts([text])
    except (ValueError, KeyError):
        return

    assert declared.accepts(value)
    assert not isinstance(value, float) or math.isfinite(value)


@pytest.mark.parametrize("annotation", ["bytes", "list[int]", "int | str", "Literal[True]", "dict"])
def test_unknown_types(annotation: str) -> None:
    """A type that cannot be checked is not guessed."""
    assert type_named(annotation) is None


def test_choice_is_not_its_equal() -> None:
    """True equals 1 in Python, and is still not the choice 1."""
    declared = type_named("Literal[1, 2]")

    assert declared.accepts(1)
    assert not declared.accepts(True)
    assert declared.from_texts(["2"]) == 2


PAUSE = "40_pause_partitions"
GROUP = "it's <img src=x>/../é"
FILLED = {"groups": (GROUP,), "topics": ("a:0-2", 'b"\\:1'), "cluster": "us"}


def test_parameters_are_read_as_they_were_filled_in(tmp_path: Path) -> None:
    """Whatever their text; types, help and all other cells stay."""
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
def test_the_name_of_a_copy(notebook: str, values: dict[str, object], name: str) -> None:
    """The number of the notebook, the cluster and the selection come first."""
    assert name_of_copy(notebook, values).startswith(name)


def test_no_file_is_replaced(tmp_path: Path) -> None:
    """An equal copy is written once; beside an edited one there is another."""
    first = write_filled_copy(PAUSE, FILLED, tmp_path)
    assert first == write_filled_copy(PAUSE, FILLED, tmp_path)
    first.write_text("edited", "utf-8")

    second = write_filled_copy(PAUSE, FILLED, tmp_path)

    assert "edited" == first.read_text()
    assert first.name.replace("40-us", "40-2-us") == second.name
    with pytest.raises(StateFileError, match="cannot be written"):
        write_filled_copy(PAUSE, FILLED, tmp_path / "missing")


def test_no_two_copies_look_alike(tmp_path: Path) -> None:
    """Their first 14 letters, which JupyterLab's file list shows, always differ."""
    names = [f"payments-authorized-{name}" for name in ("eu", "us", "asia")]
    asked = [FILLED | {"cluster": "production", "groups": (name,)} for name in names]

    first = [write_filled_copy(PAUSE, one, tmp_path) for one in asked]

    assert ["40-production-", "40-2-productio", "40-3-productio"] == [p.name[:14] for p in first]
    assert first == [write_filled_copy(PAUSE, one, tmp_path) for one in asked]
    assert 3 == len([*tmp_path.iterdir()])
