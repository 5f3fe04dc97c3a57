"""The old names of notebook parameters, which are accepted until the next release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from IPython.core.interactiveshell import InteractiveShell
from shells import open_in
from small_notebooks import MakeNotebook
from workspaces import Workspace

from toolkit.cli.notebooks.run import command
from toolkit.errors import ParameterError, UsageError
from toolkit.runbooks.runbook_page import read_runbook
from toolkit.runner.notebooks import find_notebook
from toolkit.runner.parameters import (
    parse_parameters,
    read_parameters,
    renamed_in_kernel,
    with_new_names,
)

KNOWN = ("groups", "clusters", "topics")
NOW = "parameter group is now called groups, a list of names; the old name is accepted until"


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ([("group", "a,b")], {"groups": ["a,b"]}),  # one name, which may hold a comma
        ([("group", "")], {"groups": []}),
        ([("cluster", "eu"), ("topics", "t")], {"clusters": ["eu"], "topics": ["t"]}),
    ],
)
def test_a_text_by_the_old_name_is_one_name(
    make_notebook: MakeNotebook, given: list[tuple[str, str]], values: dict[str, object]
) -> None:
    """The value goes by the new name, as a list of exactly what was given."""
    lines = "\n".join(f"{name}: list[str] = []" for name in KNOWN)
    declared = read_parameters(make_notebook(parameters=lines))

    assert values == parse_parameters(declared, given, notebook="n")


def test_both_names_are_refused() -> None:
    """Nobody can say which of two values was meant, in a kernel too; which to give is told."""
    both = [("group", "a"), ("groups", "b")]
    with pytest.raises(ParameterError, match="group and groups are both given") as refused:
        parse_parameters(read_parameters(find_notebook("40")), both, notebook="40_pause_partitions")
    assert "give groups alone; group is its old name" == refused.value.hint
    with pytest.raises(ParameterError, match="both given"):
        renamed_in_kernel(KNOWN, {"groups": ["b"], "group": "a"}, notebook="n", by_hand=False)

    with pytest.raises(ParameterError, match="parameter group must be str"):
        with_new_names(KNOWN, {"group": ["a"]}, notebook="n")


def test_a_name_that_a_notebook_still_has_is_not_old() -> None:
    """A notebook about one cluster takes `cluster`, which stays a text."""
    given = {"cluster": "eu", "groups": ["a"]}

    assert given == with_new_names(("cluster", "groups"), given, notebook="50")


@pytest.mark.parametrize(
    ("kernel", "by_hand", "used", "groups"),
    [
        ({"groups": [], "group": "a"}, False, ["group"], ["a"]),  # as papermill sets it
        ({"groups": ["a"], "group": "a"}, False, ["group"], ["a"]),  # its cell ran again
        ({"groups": ["b"], "group": ""}, False, [], ["b"]),
        ({"groups": [], "group": "a"}, True, [], []),  # a variable of somebody's own
        ({"group": "a"}, True, ["group"], None),  # a copy of the notebook from before
    ],
)
def test_what_a_kernel_has_by_an_old_name(
    *, kernel: dict[str, Any], by_hand: bool, used: list[str], groups: list[str] | None
) -> None:
    """What papermill sets is taken; a variable in JupyterLab is not; an old copy stays as it is."""
    found = renamed_in_kernel(KNOWN, kernel, notebook="n", by_hand=by_hand)

    assert (used, groups) == ([*found], kernel.get("groups"))


PAGE = """\
---
title: t
when: w
back_out: b
notebook: {notebook}
may_change: false
must_give: [group]
parameters: {{topics: t}}
---
"""


def test_a_runbook_page_may_use_the_old_name(make_notebook: MakeNotebook, tmp_path: Path) -> None:
    """What a page must be given, and has, goes by the new name; the old one is noted."""
    notebook = make_notebook(parameters="groups: list[str] = []\ntopics: list[str] = []")
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(notebook=notebook))
    found = read_runbook(page)
    assert (("groups",), ("group",)) == (found.must_give, found.old_names)

    page.write_text(PAGE.format(notebook=notebook).replace("topics: t", "group: a, groups: b"))
    with pytest.raises(UsageError, match="groups is given twice, once by its old name"):
        read_runbook(page)


def test_the_command_says_which_name_is_new(make_notebook: MakeNotebook, tmp_path: Path) -> None:
    """A run with an old name is as one with the new name, under a note on stderr."""
    notebook = make_notebook("assert groups == ['a']", parameters="groups: list[str] = []")
    words = [str(notebook), "-p", "group=a", "--output-dir", str(tmp_path / "runs")]

    done = CliRunner().invoke(command, words, catch_exceptions=False)

    assert 0 == done.exit_code, done.output
    assert f"note: {NOW}" in done.stderr


@pytest.mark.starts("brokers")
def test_a_copy_from_before_runs_on(shell: InteractiveShell, workspace: Workspace) -> None:
    """A copy of a notebook that declares the old name, and uses it, plans what it did before."""
    group = workspace.group()
    notebook = open_in(shell, workspace, "40_pause_partitions", topics=["t"])
    before = notebook.cells["02-parameters"]
    notebook.cells["02-parameters"] = before.replace(
        "groups: list[str] = []", f'group: str = "{group}"'
    )
    del notebook.cells["group"]
    notebook.cells["cell-6"] = "import widgets\ntiles = session.board(group)"
    notebook.cells["cell-8"] = "change = session.pause_or_resume(action, group, topics)\nchange"
    for cell in ("02-parameters", "cell-4", "cell-6", "cell-8"):
        assert notebook.run(cell) is None

    assert (group, ["group"]) == (
        notebook["tiles"].group,
        [name for name in notebook["asked"].given if name.startswith("group")],
    )
