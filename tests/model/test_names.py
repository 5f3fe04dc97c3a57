"""Names as people read and write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.groups import names_meant
from toolkit.model.names import MISSING, TOOL_MISSING, ExactName, named, shown_name, typed_name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("payments", "payments"),
        ("it's", "it's"),
        ('a"b', 'a"b'),
        ("", '""'),
        (" ", '" "'),
        ("a ", '"a "'),
        ("\N{NO-BREAK SPACE}", '"\N{NO-BREAK SPACE}"'),
        (MISSING, f'"{MISSING}"'),
        (TOOL_MISSING, f'"{TOOL_MISSING}"'),
        ('""', '"\\"\\""'),
        ("消费者", "消费者"),
    ],
)
def test_shown(name: str, shown: str) -> None:
    """In quotes is what looks like no name, or like a name in quotes."""
    assert shown == shown_name(name)
    assert name == named(shown)


@given(st.text(st.sampled_from('a "\\\n\N{EN DASH}-é')))
def test_what_is_shown_can_be_written(name: str) -> None:
    """There is always something to see, no two names look alike, and each can be typed."""
    assert name == named(shown_name(name))
    assert shown_name(name).strip() not in {"", MISSING, TOOL_MISSING}


@pytest.mark.parametrize("name", ["pay*", "[a]", "a?", "payments", "", " a*", MISSING])
def test_an_exact_name_is_no_pattern(name: str) -> None:
    """It means this group alone, or none, as an object of Python and as a text that is typed."""
    others = {"payments", "a", "ab", "pay[*]", "[[]a]", "a[?]", " a[*]", "None"} - {name}
    exact = ExactName(name)
    for written in (exact, typed_name(exact)):
        assert [name] == names_meant(written, {*others, name})
        assert [] == names_meant(written, others)
