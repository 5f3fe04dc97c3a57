"""
A runbook: one Markdown page, for people, that starts with what the runner must know.

    ---
    title: Delete what live groups left behind
    when: Every week, after the dry run has been looked at.
    back_out: offsetbook undo RUN
    notebook: 60_delete_offsets
    clusters: all                    # or a list; without it, --cluster must be given
    parameters: {groups: ["*"], unsubscribed: true}
    must_give: []                    # parameters without which it is not run, by -p
    may_change: true                 # false: whatever it is given, it is a dry run
    limits: {max_groups: 20, max_partitions: 500, unsubscribed_for_days: 14}
    notify:
      - {on: change, webhook: "${env:OPS_WEBHOOK}", format: slack}
    keep_for: 90d                    # folders of its older runs are removed
    step_timeout: 30m
    run_timeout: 2h
    at_once: 4                       # clusters side by side
    ---

What a value means is decided by the type that the notebook declares, never by how YAML would read
it: group 007 stays text, and `no` is not a bool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Self

import yaml

from toolkit.errors import RunbookError, ToolkitError
from toolkit.model.secrets import REFERENCE
from toolkit.plan.approvals import Limits
from toolkit.runner.notebooks import find_notebook
from toolkit.runner.parameters import Parameter, parse_parameters, read_parameters
from toolkit.runner.time_limits import TimeLimits
from toolkit.storage.formats.yaml_nodes import YamlFile, is_blank

REQUIRED = ("title", "when", "back_out", "notebook", "may_change")
OPTIONAL = (
    *("clusters", "parameters", "must_give", "limits", "notify"),
    *("keep_for", "step_timeout", "run_timeout", "at_once"),
)
# What the runner sets itself, from `may_change`, `limits`, `clusters` and the command line.
CONSENT = {
    "dry_run": "use --dry-run, or set may_change in the page",
    "approve": "set limits in the page, or run the notebook itself",
    "limits": "change them in the page",
    "cluster": "--cluster",
    "clusters": "--cluster",
}
# How each parameter is set that -p may not set: a run may do no more than its page allows.
FIXED = CONSENT | {"overrides": "list them in the page", "plan_file": "run the notebook itself"}
EVENTS = ("failure", "change", "always")
FORMATS = ("json", "slack")
AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class NotifyRule:
    """When to send a notification: to a webhook, by a reference to its address, or a command."""

    on: str  # one of EVENTS
    webhook: str = ""
    format: str = "json"
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Runbook:
    """A runbook as its page says it, checked against the notebook's own parameters."""

    path: Path
    title: str
    when: str
    back_out: str
    notebook: Path
    declared: tuple[Parameter, ...]
    may_change: bool
    clusters: tuple[str, ...] | None = None  # () means all, None that they must be named
    parameters: Mapping[str, object] = field(default_factory=dict)
    must_give: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    notify: tuple[NotifyRule, ...] = ()
    keep_for: timedelta | None = None
    times: TimeLimits = field(default_factory=TimeLimits)
    at_once: int = AT_ONCE

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def is_of_a_fleet(self) -> bool:
        """Whether one run is about all clusters, and not one run about each."""
        return self.takes("clusters") and not self.may_change

    @property
    def must_name_clusters(self) -> bool:
        """Whether the run must name its clusters; without one, a notebook may be about all."""
        one = any(p.name == "cluster" and p.default for p in self.declared)
        return self.clusters is None and (one or self.takes("clusters"))

    def takes(self, name: str) -> bool:
        return any(parameter.name == name for parameter in self.declared)

    def why_fixed(self, name: str) -> str:
        """
        Return how a parameter is set that -p may not set; "" where it may.

        What a page says of a change is what was approved, so -p gives only what it leaves open.
        """
        if self.may_change and name in self.parameters:
            return "change it in the page, or run the notebook itself"
        return FIXED.get(name, "")


def read_runbook(path: Path) -> Runbook:
    """Read a page; raises RunbookError that names the line of what is wrong in it."""
    front = _FrontMatter.of(path)
    notebook = _notebook(front)
    declared, must_give = read_parameters(notebook), front.entries.get("must_give")
    page = Runbook(
        path=path,
        title=front.text("title"),
        when=front.text("when"),
        back_out=front.text("back_out"),
        notebook=notebook,
        declared=declared,
        may_change=front.flag("may_change"),
        clusters=_clusters(front),
        parameters=_parameters(front, declared),
        must_give=tuple(front.texts(must_give, "must_give")) if must_give else (),
        limits=_limits(front),
        notify=tuple(_notices(front)),
        keep_for=front.duration("keep_for"),
        times=TimeLimits(front.seconds("step_timeout"), front.seconds("run_timeout")),
        at_once=front.count("at_once", AT_ONCE),
    )
    if page.may_change and not (page.takes("approve") and page.takes("limits")):
        problem = f"{notebook.name} changes nothing, so may_change must be false"
        raise front.file.wrong_at(front.entries["may_change"], problem)
    for name in page.must_give:
        if not page.takes(name) or page.why_fixed(name):
            problem = f"{name!r} is not a parameter that can be set with -p"
            raise front.file.wrong_at(front.entries["must_give"], problem)
    return page


def _notebook(front: _FrontMatter) -> Path:
    node = front.entries["notebook"]
    try:
        return find_notebook(front.file.text_of(node, "notebook"))
    except RunbookError:
        raise
    except ToolkitError as exc:
        raise front.file.wrong_at(node, str(exc)) from exc


def _clusters(front: _FrontMatter) -> tuple[str, ...] | None:
    node = front.entries.get("clusters")
    if node is None:
        return None
    if isinstance(node, yaml.ScalarNode) and node.value == "all":
        return ()
    if not isinstance(node, yaml.SequenceNode) or not node.value:
        raise front.file.wrong_at(node, "clusters must be all, or a list of names")
    return tuple(front.texts(node, "clusters"))


def _parameters(front: _FrontMatter, declared: Iterable[Parameter]) -> dict[str, object]:
    node = front.entries.get("parameters")
    values: dict[str, object] = {}
    for key, value in front.file.pairs(node, "parameters") if node else ():
        if key.value in CONSENT:
            problem = f"{key.value} is not set here: see may_change, limits and clusters"
            raise front.file.wrong_at(key, problem)
        if is_blank(value):
            problem = f"{key.value} has no value; an empty text is written ''"
            raise front.file.wrong_at(key, problem)
        try:
            pairs = [(key.value, text) for text in front.file.texts_of(value, key.value)]
            values |= parse_parameters(declared, pairs, notebook=front.text("notebook"))
        except ToolkitError as exc:
            raise front.file.wrong_at(key, str(exc)) from exc
    return values


def _limits(front: _FrontMatter) -> tuple[str, ...]:
    node, may_change = front.entries.get("limits"), front.flag("may_change")
    if node is None and not may_change:
        return ()
    if node is None:
        raise front.file.wrong_at(front.entries["may_change"], "may_change: true needs limits")
    if not may_change:
        raise front.file.wrong_at(node, "limits need may_change: true")
    texts: list[str] = []
    for key, value in front.file.pairs(node, "limits"):
        # A condition that is blank would be none.
        given = front.texts(value, key.value) or [""]
        texts += [f"{key.value}={text}" for text in given]
    try:
        Limits.parse(texts)
    except ToolkitError as exc:
        raise front.file.wrong_at(node, str(exc)) from exc
    return tuple(texts)


def _notices(front: _FrontMatter) -> Iterator[NotifyRule]:
    node = front.entries.get("notify")
    if node is not None and not isinstance(node, yaml.SequenceNode):
        raise front.file.wrong_at(node, "notify must be a list")
    for item in node.value if node is not None else ():
        yield _notice(front.file, item)


def _notice(file: YamlFile, node: yaml.Node) -> NotifyRule:
    entries = file.entries(node, "notify", ("on", "webhook", "format", "command"))
    if "on" not in entries or len({"webhook", "command"} & entries.keys()) != 1:
        raise file.wrong_at(node, "a notification needs `on`, and either `webhook` or `command`")
    on = file.one_of(entries["on"], "on", EVENTS)
    if "command" in entries:
        words = file.items_of(entries["command"], "command")
        if not isinstance(entries["command"], yaml.SequenceNode) or not words or not words[0]:
            problem = "command must be a list: the program, and its arguments"
            raise file.wrong_at(entries["command"], problem)
        return NotifyRule(on, command=tuple(words))
    webhook = file.text_of(entries["webhook"], "webhook")
    if not REFERENCE.fullmatch(webhook):
        raise file.wrong_at(
            entries["webhook"],
            "webhook must be a reference such as ${env:NAME} or ${file:/path}, because anyone "
            "with the URL can post to it",
        )
    form = file.one_of(entries["format"], "format", FORMATS) if "format" in entries else "json"
    return NotifyRule(on, webhook, form)


@dataclass(frozen=True, slots=True)
class _FrontMatter:
    """
    The entries of one page.

    Every method raises RunbookError that names line and column of what is wrong. Values are texts
    as written there: YAML does not decide their types.
    """

    file: YamlFile
    entries: Mapping[str, yaml.Node]

    @classmethod
    def of(cls, path: Path) -> Self:
        hint = "list the runbooks with 'offsetbook runbooks'"
        file = YamlFile(path, "runbook", RunbookError, hint, lines_before=1)
        first, _, rest = file.read().partition("\n")
        front, dashes, _ = f"\n{rest}\n".partition("\n---\n")
        if first.rstrip() != "---" or not dashes:
            raise RunbookError(
                f"runbook {path} does not begin with front matter between two lines of ---",
                hint="copy the front matter of another runbook",
            )
        root = file.compose(front.removeprefix("\n"))
        known = (*REQUIRED, *OPTIONAL)
        found = file.entries(root, "front matter", known) if root else {}
        if missing := [name for name in REQUIRED if name not in found]:
            raise RunbookError(f"runbook {path} lacks: {', '.join(missing)}")
        return cls(file, found)

    def text(self, name: str) -> str:
        return " ".join(self.file.text_of(self.entries[name], name).split())

    def flag(self, name: str) -> bool:
        return self.file.one_of(self.entries[name], name, ("true", "false")) == "true"

    def texts(self, node: yaml.Node, name: str) -> list[str]:
        """Return one value or a list of them; raises RunbookError for an empty value."""
        texts = self.file.items_of(node, name)
        if not all(texts):
            raise self.file.wrong_at(node, f"{name} has an empty value")
        return texts

    def duration(self, name: str) -> timedelta | None:
        """Return an entry such as 90d; None where it is not there."""
        return self.file.duration_of(self.entries[name], name) if name in self.entries else None

    def seconds(self, name: str) -> float | None:
        """Return a duration in seconds; None where it is not there."""
        found = self.duration(name)
        return found.total_seconds() if found is not None else None

    def count(self, name: str, default: int) -> int:
        """Return a whole number from 1."""
        if name not in self.entries:
            return default
        text = self.text(name)
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise self.file.wrong_at(self.entries[name], f"{name} must be a whole number from 1")
        return int(text)
