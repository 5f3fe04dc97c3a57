"""Finding groups among very many, without a browser."""

from typing import Any

import pandas as pd
import pytest

from toolkit.model import Group, GroupState, GroupType, select_groups
from toolkit.model.names import shown_name
from widgets.pickers import KEPT, MOST, GroupPicker, group_picker

HOSTILE = "<img src=x onerror=alert(1)>"
COUNT = 20_000
LARGE = "1,000 members  lag 123,456,789"


@pytest.fixture
def groups() -> pd.DataFrame:
    """Return very many groups, one of them hostile and one of them Dead."""
    names = [f"service-{number:05}-reader" for number in range(COUNT - 1)]
    return pd.DataFrame(
        {
            "group": [*names, HOSTILE],
            "type": ["classic", "consumer"] * (COUNT // 2),
            "state": ["Stable"] * (COUNT - 1) + ["Dead"],
            "members": pd.array([None, *range(COUNT - 1)], "Int64"),
        }
    )


def live(groups: pd.DataFrame, **options: Any) -> GroupPicker:
    """Return a picker as somebody in the browser has it."""
    picker = group_picker(groups, **options)
    assert picker.view
    return picker


@pytest.fixture
def picker(groups: pd.DataFrame) -> GroupPicker:
    return live(groups)


def test_only_one_is_chosen(groups: pd.DataFrame) -> None:
    """Where one is wanted the next choice replaces the last, and nothing is chosen unasked."""
    picker = live(groups, only_one=True)
    button = picker.run_below.button
    assert ((), None) == (picker.picked, picker.listing.index)
    picker.listing.set_state({"index": 3})
    assert ("service-00002-reader",) == picker.picked
    assert "Next: run the cells below, or press Continue." in picker.message.value
    assert ("Continue with 1 group", False) == (button.description, button.disabled)
    picker.search.value = "00017"
    assert (("service-00002-reader",), None) == (picker.picked, picker.listing.index)
    picker.listing.set_state({"index": 0})
    assert ("service-00017-reader",) == picker.picked
    picker.search.value = ""
    assert picker.shown.index("service-00017-reader") == picker.listing.index
    picker.clear_button.click()
    assert ((), None) == (picker.picked, picker.listing.index)
    # A click that waited in a queue goes on with nothing.
    button.click()
    assert () == picker.run_below.output.outputs


def test_the_first_are_listed_and_all_are_searched(picker: GroupPicker) -> None:
    """The list is short and says of how many; search, filters and order are over all groups."""
    assert MOST == len(picker.listing.options)
    assert f"20,000 of 20,000 groups match; showing the first {MOST}" in picker.message.value
    picker.order.value = "members"
    assert [HOSTILE, "service-19998-reader"] == picker.shown[:2]

    picker.search.set_state({"value": "READER 19998"})
    assert ["service-19998-reader"] == picker.shown
    assert "1 of 20,000" in picker.message.value
    picker.search.value = ""

    picker.state.value = "Dead"
    assert [HOSTILE] == picker.shown
    picker.state.value = ""
    picker.kind.value = "consumer"
    picker.search.value = "0000"
    matching = list(picker.matches()["group"])
    assert matching
    assert all(int(name.split("-")[1]) % 2 for name in matching)


def test_the_worst_groups_come_first(groups: pd.DataFrame) -> None:
    """Sorted by health, and each line says it in a word."""
    words = pd.Categorical(["ok"] * COUNT, ["ok", "behind", "stuck"], ordered=True)
    words[7], words[9] = "behind", "stuck"
    picker = live(groups.assign(health=words))
    picker.order.value = "health"

    assert ["service-00009-reader", "service-00007-reader"] == picker.shown[:2]
    assert ["stuck", "Stable"] == picker.listing.options[0][0].split()[1:3]


def test_every_column_of_a_line_is_in_sight() -> None:
    """A long name is shown with its begin and end, whole in a tooltip and where it is chosen."""
    names = [f"payments-reconciliation-{'x' * 60}-eu-{number}" for number in range(2)]
    rows = {
        "group": [*names, "reports"],
        "health": ["unsubscribed", "ok", None],
        "state": ["CompletingRebalance", "Stable", "Empty"],
        "type": ["consumer", "classic", "classic"],
        "members": pd.array([1000, 1, 0], "Int64"),
        "lag": pd.array([123_456_789, None, 0], "Int64"),
    }
    picker = live(pd.DataFrame(rows))
    first, second, third = (line for line, _ in picker.listing.options)

    assert "payments-reconciliat…xxxxxx-eu-0" == first.split()[0] != second.split()[0]
    assert first.split()[1:] == ["unsubscribed", *rows["state"][:1], "consumer", *LARGE.split()]
    assert ["reports", "–", "Empty", "classic", "0", "members", "lag", "0"] == third.split()
    assert {first.index(LARGE)} == {third.index("0 members"), second.index("1 member")}
    assert 120 >= len(first)
    assert f'<ol class="ow-names" hidden><li>{names[0]}</li>' in picker.message.value
    picker.listing.set_state({"index": [0]})
    assert f'<span class="ow-key">{names[0]}</span>' in picker.message.value


def test_a_selection_stays(picker: GroupPicker) -> None:
    """It outlives the next search, and a second one adds to it."""
    picker.search.value = "00017"
    picker.listing.set_state({"index": [0]})
    picker.search.value = "00018"
    picker.listing.set_state({"index": [0]})
    assert ("service-00017-reader", "service-00018-reader") == picker.picked
    picker.listing.set_state({"index": []})
    assert ("service-00017-reader",) == picker.picked
    picker.search.value = "00017"
    assert (0,) == tuple(picker.listing.index)
    picker.clear_button.click()
    assert ((), ()) == (picker.picked, tuple(picker.listing.index))


@pytest.mark.parametrize("only_one", [True, False])
def test_a_click_that_is_late_is_about_the_line_that_was_clicked(
    groups: pd.DataFrame, *, only_one: bool
) -> None:
    """The kernel was busy, and finds it after the search that has changed the list meanwhile."""
    picker = live(groups, only_one=only_one)
    clicked = picker.listing
    for search in ("0001", "00017"):
        picker.search.set_state({"value": search})

    clicked.set_state({"index": 3 if only_one else [3]})

    assert (("service-00002-reader",), None) == (picker.picked, picker.error)
    picker.search.value = ""
    assert (3 if only_one else (3,)) == picker.listing.index


def test_hidden_lists_are_closed(picker: GroupPicker) -> None:
    """A search makes one for each letter, and a browser keeps them."""
    first = picker.listing
    picker.search.value = "service"
    second = picker.listing
    picker.search.value = "service reader"
    assert first is not second is picker.listing  # one that shows the same keeps the focus
    for number in range(KEPT):
        picker.search.value = str(number)

    assert [None, None] == [first.comm, first.layout.comm]
    assert picker.listing.comm is not None


def test_names_are_handed_over_as_they_are(groups: pd.DataFrame) -> None:
    """The callable gets the exact names, once the button is pressed and not before."""
    handed_over: list[tuple[str, ...]] = []
    picker = live(groups, on_pick=handed_over.append)
    picker.use_button.click()
    picker.state.value = "Dead"
    picker.listing.set_state({"index": [0]})
    assert [] == handed_over
    picker.use_button.click()
    assert [(HOSTILE,)] == handed_over
    assert "<img" not in picker.message.value


@pytest.mark.parametrize("name", ["pay*", " a*", "", "[a]"])
def test_a_selection_is_exactly_that_group(name: str) -> None:
    """Also beside a group whose name is how a pattern would be written for it."""
    names = [name, "pay[*]", " a[*]", "[[]a]", "a", "payments"]
    listed = [Group(one, GroupType.CLASSIC, GroupState.EMPTY) for one in names]
    picker = group_picker(pd.DataFrame({"group": names}))

    picker.choose([shown_name(name)])

    chosen, missing = select_groups(listed, picker.patterns)
    assert ([name], []) == ([group.group_id for group in chosen], missing)


def test_an_error_of_the_callable_is_seen(groups: pd.DataFrame) -> None:
    """What `on_pick` raises is shown in place and kept, and not swallowed."""

    def fail(names: tuple[str, ...]) -> None:
        raise ValueError(f"no {names[0]}")

    picker = live(groups, on_pick=fail)
    picker.choose([HOSTILE])
    picker.use_button.click()
    assert f"no {HOSTILE}" == str(picker.error)
    assert "<img" not in picker.error_box.value


def test_a_report_has_the_first_groups_as_a_table(
    picker: GroupPicker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headless it is a table that says how many there are."""
    monkeypatch.setenv("OFFSETBOOK_HEADLESS", "1")
    html = picker._repr_mimebundle_()["text/html"]
    assert f"20,000 groups (first {MOST} shown)" in html
    assert "<img" not in html


def test_a_choice_survives_another_run_of_its_cell(
    groups: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The groups that are still there stay chosen, of this cluster, and in this cell alone."""
    monkeypatch.setattr("widgets.pickers.running_cell", lambda: ("cell-9", "first"))
    eu, us = groups.assign(cluster="eu"), groups.assign(cluster="us")
    picker = live(eu)
    picker.listing.set_state({"index": [4, 6]})  # the hostile name is the first
    chosen = ("service-00003-reader", "service-00005-reader")

    assert chosen == picker.picked == group_picker(eu).picked
    again = live(eu)
    assert ((4, 6), 2) == (again.listing.index, again.message.value.count("ow-key"))
    assert chosen[1:] == group_picker(eu.drop(index=3)).picked
    assert () == group_picker(us).picked
    monkeypatch.setattr("widgets.pickers.running_cell", lambda: ("cell-10", "first"))
    assert () == group_picker(eu).picked
    monkeypatch.setattr("widgets.pickers.running_cell", lambda: ("cell-9", "second"))
    picker.choose(())
    assert () == group_picker(eu).picked
