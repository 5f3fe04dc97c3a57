"""Groups that are picked where `groups` is empty, in every notebook that needs some."""

import json
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from shells import open_in
from workspaces import Workspace

from toolkit.errors import UsageError
from toolkit.model import TopicPartition
from toolkit.runner.notebooks import find_notebook

OF_ONE = ("40", "52", "90")
PLANNED: dict[str, dict[str, Any]] = {
    "40": {},
    "50": {"mode": "to-earliest"},
    "52": {"to_group": "a-copy-of-it"},
    "60": {"all_topics": True},
    "61": {},
}


@pytest.mark.parametrize("number", PLANNED)
def test_a_group_is_picked_and_planned(
    shell: InteractiveShell, workspace: Workspace, number: str
) -> None:
    """Run All stops at one sentence; after a pick the cells plan that group, also by Run All."""
    group = workspace.group("picked")
    notebook = open_in(shell, workspace, number, **PLANNED[number])
    assert isinstance(notebook.run_all(), UsageError)
    picker = notebook["picker"]
    assert picker.view
    by = "offsets expire about" if number == "61" else "health"
    assert {"lag", by} <= {*picker.groups}
    picker.search.value = group
    picker.listing.index = 0 if number in OF_ONE else (0,)
    assert (group,) == picker.picked

    cells = [*notebook.cells]
    for cell in cells[cells.index("group" if number in OF_ONE else "groups") + 1 :]:
        assert notebook.run(cell) is None
    change = notebook["change"]
    assert group in change.plan.request
    given = notebook["decision"].change.call.parameters["groups"]
    assert ([group], []) == ([*given], notebook["groups"])

    # Whoever picks another group has no plan for it yet.
    picker.choose(["another"])
    assert "other groups were selected" == change.inputs.outdated


def test_a_picked_group_is_no_pattern(shell: InteractiveShell, workspace: Workspace) -> None:
    """A name with pattern characters stands for this group, even if others would match."""
    group = workspace.group("picked")
    odd = f"{group[:-1]}?"
    workspace.operator.commit(odd, {TopicPartition(workspace.apps.create_topic(odd[:-1]), 0): 0})
    notebook = open_in(shell, workspace, "61")
    assert isinstance(notebook.run_all(), UsageError)
    picker = notebook["picker"]
    picker.choose([odd])
    gone = workspace.operator.session.delete_groups([odd])
    fingerprint = gone.plan.fingerprint
    assert gone.decide(dry_run=False, approve=fingerprint, reason="a test").apply().is_done

    assert notebook.run("cell-6") is None

    assert () == notebook["change"].plan.group_ids


@pytest.mark.parametrize("number", OF_ONE)
def test_a_notebook_of_one_group_refuses_several(workspace: Workspace, number: str) -> None:
    """One sentence names the parameter and the groups, and no plan is made."""
    first, second = workspace.group(), workspace.group()
    told = workspace.cells(number, groups=[first, second])

    assert ("failed", 2) == told.ended
    assert f"is of one group, and groups has 2: {first}, {second}" in told.why
    assert "set groups to one of them" in told.why


@pytest.mark.parametrize("number", PLANNED)
def test_a_headless_run_without_groups_is_refused(workspace: Workspace, number: str) -> None:
    """It ends with what to do, and changes nothing."""
    told = workspace.cells(number, **PLANNED[number])

    assert ("failed", 2) == told.ended
    assert told.why.startswith(("no group selected. Try: ", "no group is named. Try: "))
    assert [] == workspace.operator.log


def test_parameters_have_one_name_in_all_notebooks() -> None:
    """Whatever takes groups calls them `groups`; what is about many clusters says `clusters`."""
    names = {
        path.stem: {line.partition(":")[0] for line in parameters(path.stem)}
        for path in find_notebook("00").parent.glob("*.ipynb")
    }

    assert {} == {name: found for name, found in names.items() if "group" in found}
    assert {} == {name: found for name, found in names.items() if {"cluster", "clusters"} <= found}


def parameters(notebook: str) -> list[str]:
    cells = json.loads(find_notebook(notebook).read_text("utf-8"))["cells"]
    (cell,) = (cell for cell in cells if "parameters" in cell["metadata"].get("tags", ()))
    return [*cell["source"]]
