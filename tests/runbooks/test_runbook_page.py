"""The page of a runbook: what it says, and how what is wrong in it is pointed at."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import RunbookError, ToolkitError, UsageError
from toolkit.runbooks.catalogue import find_runbook, folder_of_runbooks, read_all, readme_of
from toolkit.runbooks.run_inputs import runs_of, values_of
from toolkit.runbooks.runbook_page import NotifyRule, Runbook, read_runbook
from toolkit.runner.time_limits import TimeLimits

PARAMETERS = """\
cluster: str = "eu"
group: str = ""
groups: list[str] = []
days: int = 7
deep: bool = False
reason: str = ""
overrides: list[str] = []
dry_run: bool = True
approve: str = ""
limits: list[str] = []
fleet_file: str = ""
"""
FRONT = """\
title: Try
when: Now.
back_out: Not.
notebook: {notebook}
may_change: false
"""
LIMITED = "may_change: true\nlimits: {max_groups: 1, max_partitions: 2, groups: [pay*, '007']}\n"
MakePage = Callable[..., Path]


@pytest.fixture
def make_page(tmp_path: Path, make_notebook: Callable[..., Path]) -> MakePage:
    """Return a function that writes a page with more front matter than it must have."""
    notebook = make_notebook("1", parameters=PARAMETERS)

    def make(more: str = "", *, front: str = FRONT, name: str = "try") -> Path:
        path = tmp_path / f"{name}.md"
        text = front.replace("{notebook}", str(notebook)) + more
        path.write_text(f"---\n{text}---\n\n# For people\n\n---\nnot: yaml\n", "utf-8")
        return path

    return make


def changing(more: str = "") -> str:
    return FRONT.replace("may_change: false\n", LIMITED) + more


def test_a_minimal_page(make_page: MakePage) -> None:
    """Five entries make a runbook that changes nothing and needs a cluster."""
    page = read_runbook(make_page())

    assert ("try", "Try", "Now.", "Not.") == (page.name, page.title, page.when, page.back_out)
    assert (False, {}, ()) == (page.may_change, page.parameters, page.limits)
    assert (None, TimeLimits(), 4) == (page.keep_for, page.times, page.at_once)


def test_all_that_a_page_can_say(make_page: MakePage) -> None:
    """Every entry arrives as what it is."""
    page = read_runbook(
        make_page(
            "clusters: [eu, us]\nmust_give: [group]\nkeep_for: 90d\nstep_timeout: 30m\n"
            "run_timeout: 2h\nat_once: 2\nnotify:\n"
            '  - {on: failure, webhook: "${env:HOOK}", format: slack}\n'
            "  - {on: change, command: [logger, -t, '']}\n",
            front=changing(),
        )
    )

    assert (("eu", "us"), ("group",)) == (page.clusters, page.must_give)
    assert ("eu",) == read_runbook(make_page("clusters: [eu]\n")).clusters
    assert (timedelta(days=90), 2) == (page.keep_for, page.at_once)
    assert TimeLimits(1800.0, 7200.0) == page.times
    assert ("max_groups=1", "max_partitions=2", "groups=pay*", "groups=007") == page.limits
    assert (
        NotifyRule("failure", "${env:HOOK}", "slack"),
        NotifyRule("change", command=("logger", "-t", "")),
    ) == page.notify


def test_the_notebook_decides_the_types_of_values(make_page: MakePage) -> None:
    """A group 007 stays text, and a name in a list may have a comma."""
    page = read_runbook(
        make_page("parameters: {group: 007, groups: ['a,b'], days: 9, deep: false, reason: ''}\n")
    )

    wanted = {"group": "007", "groups": ["a,b"], "days": 9, "deep": False, "reason": ""}
    assert wanted == page.parameters
    listed = read_runbook(make_page("parameters: {groups: a, overrides: []}\n"))
    assert {"groups": ["a"], "overrides": []} == listed.parameters


WRONG = {
    "an unknown entry": ("limit: 1\n", 7, "unknown entry 'limit'; did you mean 'limits'?"),
    "an entry twice": ("title: Again\n", 7, "duplicate key 'title'"),
    "a bool as YAML has it": ("parameters: {deep: no}\n", 7, "parameter deep must be bool"),
    "no such parameter": ("parameters:\n  dayz: 1\n", 8, "unknown parameter 'dayz'"),
    "a secret": ("parameters: {group: 'password=x'}\n", 7, "looks like a secret"),
    "the runner's own": ("parameters:\n  dry_run: false\n", 8, "dry_run is not set here"),
    "its cluster": ("parameters: {cluster: eu}\n", 7, "cluster is not set here"),
    "a parameter in depth": ("parameters: {group: {a: b}}\n", 7, "group must be one value"),
    "limits for nothing": ("limits: {max_groups: 1}\n", 7, "need may_change: true"),
    "clusters in a word": ("clusters: eu\n", 7, "clusters must be all, or a list of names"),
    "a cluster without a name": ("clusters: ['']\n", 7, "clusters has an empty value"),
    "a parameter left blank": ("parameters:\n  group:\n", 8, "group has no value"),
    "to give, left blank": ("must_give:\n", 7, "must_give has an empty value"),
    "a command in a text": ("notify: [{on: always, command: a b}]\n", 7, "must be a list"),
    "a command without a program": ("notify: [{on: always, command: []}]\n", 7, "must be a list"),
    "clusters without any": ("clusters: []\n", 7, "clusters must be all, or a list of names"),
    **{
        f"to give {name}": (f"must_give: [{name}]\n", 7, f"{name!r} is not a parameter")
        for name in ("dry_run", "overrides", "dayz")
    },
    "no duration": ("keep_for: long\n", 7, "'long' is not a duration"),
    "no number": ("at_once: 0\n", 7, "at_once must be a whole number from 1"),
    "an address itself": (
        "notify:\n  - {on: always, webhook: https://hooks.example.com/x}\n",
        8,
        "webhook must be a reference",
    ),
    "whom to tell": ("notify:\n  - {on: always}\n", 8, "either `webhook` or `command`"),
    "when to tell": ("notify:\n  - {on: success, command: [a]}\n", 8, "on must be one of"),
    "not YAML": ("clusters: [\n", 7, "expected the node content"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_error_names_its_line(make_page: MakePage, what: str) -> None:
    """The line of the page, and what is wrong there, are named."""
    more, line, says = WRONG[what]
    path = make_page(more)

    with pytest.raises(RunbookError) as caught:
        read_runbook(path)

    assert f"runbook {path}, line {line}, column" in caught.value.problem
    assert says in caught.value.problem


@pytest.mark.parametrize(
    ("front", "says"),
    [
        (FRONT.replace("title: Try\n", ""), "lacks: title"),
        (FRONT.replace("false", "true"), "may_change: true needs limits"),
        (FRONT.replace("false", "no"), "may_change must be one of: true, false"),
        (FRONT.replace("{notebook}", "99_nothing"), "no notebook named '99_nothing'"),
        (changing().replace("max_groups: 1, ", ""), "needs a limit for max_groups"),
        (changing().replace("[pay*, '007']", ""), "groups has an empty value"),
        (changing().replace("[pay*, '007']", "['', pay]"), "groups has an empty value"),
        (changing().replace("[pay*, '007']", "[]"), "'groups=' has no value"),
        (changing("parameters: {days: 3}\nmust_give: [days]\n"), "'days' is not a parameter that"),
        ("", "lacks: title, when, back_out, notebook, may_change"),
    ],
)
def test_invalid_pages(make_page: MakePage, front: str, says: str) -> None:
    """A page that lacks an entry, or may change without limits, is no runbook."""
    with pytest.raises(RunbookError, match="runbook") as caught:
        read_runbook(make_page(front=front))

    assert says in caught.value.problem


@pytest.mark.parametrize("text", ["", "# Only for people\n", "---\ntitle: cut off\n"])
def test_a_page_without_front_matter(tmp_path: Path, text: str) -> None:
    """Markdown alone, or front matter without an end, is reported as such."""
    path = tmp_path / "x.md"
    path.write_text(text)

    with pytest.raises(RunbookError, match="does not begin with front matter"):
        read_runbook(path)


def test_a_notebook_that_changes_nothing_needs_no_approval(
    make_page: MakePage, make_notebook: Callable[..., Path]
) -> None:
    """A page must not claim a standing approval that its notebook would never ask for."""
    other = make_notebook("1", parameters="days: int = 1", name="10_other")
    path = make_page(front=changing().replace("{notebook}", str(other)))

    with pytest.raises(RunbookError, match="changes nothing, so may_change must be false"):
        read_runbook(path)


def values(page: Runbook, *given: tuple[str, str], dry_run: bool = False) -> dict[str, Any]:
    return values_of(page, given, dry_run=dry_run)


def test_only_a_page_with_limits_changes_something(make_page: MakePage) -> None:
    """Others are dry runs, whatever they are given; its limits and reason are a page's own."""
    page = read_runbook(make_page("parameters: {days: 30}\n"))

    assert {"dry_run": True, "days": 30} == values(page)
    assert {"dry_run": True, "days": 1, "group": "a"} == values(page, ("group", "a"), ("days", "1"))

    page = read_runbook(make_page(front=changing()))

    approved = {"approve": "within limits", "limits": list(page.limits)}
    assert approved | {"dry_run": False, "reason": "runbook try: Try"} == values(page)
    meant = approved | {"dry_run": True, "reason": "why"}
    assert meant == values(page, ("reason", "why"), dry_run=True)


@pytest.mark.parametrize("name", ["dry_run", "approve", "limits", "overrides", "cluster", "days"])
def test_the_command_line_cannot_extend_an_approval(make_page: MakePage, name: str) -> None:
    """It sets only what the page has left open."""
    page = read_runbook(make_page("parameters: {days: 30}\n", front=changing()))

    with pytest.raises(UsageError, match=f"{name} cannot be set with -p"):
        values(page, (name, "1"))
    assert "pay" == values(page, ("group", "pay"))["group"]


def test_required_parameters(make_page: MakePage) -> None:
    """A runbook for one case does not run without them."""
    page = read_runbook(make_page("must_give: [group, days]\n"))

    with pytest.raises(UsageError, match="is missing parameters: days") as caught:
        values(page, ("group", "a"))
    assert "-p days=..." in (caught.value.hint or "")
    assert 0 == values(page, ("group", "a"), ("days", "0"))["days"]
    with pytest.raises(UsageError, match="is missing parameters: group"):
        values(page, ("group", ""), ("days", "3"))  # as of a variable that is not set
    assert {"dry_run": True, "group": "a", "days": 3} == values(page, ("group", "a"), ("days", "3"))


@pytest.fixture
def clusters(tmp_path: Path) -> Callable[..., list[tuple[str, ...]]]:
    """Return a function that returns what clusters of a fleet each run of a page is about."""
    fleet = tmp_path / "fleet.yaml"
    entries = (f"  {name}:\n    bootstrap.servers: b:1\n" for name in ("ap", "eu", "us"))
    fleet.write_text("".join(["clusters:\n", *entries]))
    given = {"fleet_file": str(fleet)}
    return lambda page, *named: [names for names, _ in runs_of(page, given, clusters=named)]


def test_a_run_for_each_cluster(make_page: MakePage, clusters: Any) -> None:
    """All of the fleet, those of the page, or those that are named, and no others."""
    everywhere = read_runbook(make_page("clusters: all\n"))
    somewhere = read_runbook(make_page("clusters: [eu, us]\n", name="some"))
    anywhere = read_runbook(make_page(name="any"))

    assert [("ap",), ("eu",), ("us",)] == clusters(everywhere)
    assert [("us",)] == clusters(everywhere, "us", "us")
    assert [("eu",), ("us",)] == clusters(somewhere)
    assert [("ap",)] == clusters(anywhere, "ap")
    with pytest.raises(UsageError, match="needs a cluster"):
        clusters(anywhere)
    with pytest.raises(UsageError, match="is not for cluster 'ap'"):
        clusters(somewhere, "ap")
    with pytest.raises(UsageError, match="'xx' is not in the fleet file"):
        clusters(everywhere, "xx")


def test_one_run_for_a_fleet(
    make_page: MakePage, make_notebook: Callable[..., Path], clusters: Any
) -> None:
    """A notebook about several clusters is run once, unless it may change something."""
    several = PARAMETERS.replace('cluster: str = "eu"', "clusters: list[str] = []")
    other = make_notebook("1", parameters=several, name="10_other")
    looking = read_runbook(
        make_page("clusters: all\n", front=FRONT.replace("{notebook}", str(other)))
    )
    front = changing("clusters: all\n").replace("{notebook}", str(other))
    touching = read_runbook(make_page(front=front, name="touching"))

    assert [("ap", "eu", "us")] == clusters(looking)
    assert [("ap",), ("eu",), ("us",)] == clusters(touching)


def test_the_pages_of_this_repository() -> None:
    """Every page can be used, and the list of them is what they say."""
    folder = folder_of_runbooks()
    pages, problems = read_all(folder)

    assert [] == problems
    assert {"nightly-fleet-lag", "skip-poison-record", "retire-dead-groups"} <= {
        page.name for page in pages
    }
    assert readme_of(pages) == (folder / "README.md").read_text("utf-8")


def test_a_runbook_is_found_by_name_or_path(make_page: MakePage) -> None:
    """A path that is none is an error; a name that is none may be that of a notebook."""
    path = make_page()

    assert path == find_runbook(str(path))
    assert path == find_runbook("try", folders=[path.parent])
    assert find_runbook("tri", folders=[path.parent]) is None
    with pytest.raises(ToolkitError, match=r"there is no runbook .*tri.md; did you mean 'try'"):
        find_runbook(str(path.with_name("tri.md")), folders=[path.parent])
