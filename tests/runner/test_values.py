import ast
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.runner.values import ValueType, read_type

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
    """Return the declared type that an annotation spells."""
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


@given(st.text())
def test_text_is_never_bent(text: str) -> None:
    """A str parameter takes every text exactly as it is."""
    assert type_named("str").from_texts([text]) == text


@pytest.mark.parametrize("annotation", ["bytes", "list[int]", "int | str", "Literal[True]", "dict"])
def test_types_that_are_not_ours(annotation: str) -> None:
    """A type that could not be checked is not read as one."""
    assert type_named(annotation) is None


def test_choice_is_not_its_equal() -> None:
    """True equals 1 in Python, and is still not the choice 1."""
    declared = type_named("Literal[1, 2]")

    assert declared.accepts(1)
    assert not declared.accepts(True)
    assert declared.from_texts(["2"]) == 2
