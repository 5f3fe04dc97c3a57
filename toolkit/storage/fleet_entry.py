"""
Add a cluster to a fleet file as text: every other byte of the file stays as it is.

People write the file, with comments and an order that a YAML library would lose. The new entry is
put after the last one, with the indentation of the others; in a list in braces, as in JSON, before
the first one. The result is read before it replaces the file: it must have the same clusters as
before, and the new one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from toolkit.errors import FleetFileError, UsageError
from toolkit.model import Cluster
from toolkit.storage.fleet_file import fleet_in, fleet_yaml
from toolkit.storage.formats.atomic_files import make_folder, write_whole
from toolkit.storage.formats.file_lock import only_one_in
from toolkit.storage.formats.yaml_nodes import YamlFile, is_blank

PLACE = re.compile(r", line \d+, column \d+")
STEP = 2  # the indentation of a new file
Entries = Mapping[str, str]  # settings of a cluster, and what else the fleet file has for one


def with_cluster(path: Path, name: str, entries: Entries) -> tuple[Cluster, str]:
    """
    Return the new cluster, and the text of the fleet file with it; nothing is written.

    The file need not exist. Raises FleetFileError where the file or the entries cannot be used, and
    UsageError for a name that is taken or cannot be one.
    """
    _check_name(name)
    file = fleet_yaml(path)
    text = file.read_exactly() if path.exists() else ""
    root = file.compose(text)
    before = _clusters_in(file, text, root)
    if name in before:
        raise UsageError(
            f"cluster {name!r} is already in fleet file {path}",
            hint="edit its entry there, or add it under another name",
        )
    changed = _inserted(text, root, name, entries)
    try:
        after = fleet_in(file, changed)
    except FleetFileError as exc:  # its place is in a text that is not shown
        problem = PLACE.sub("", exc.problem)
        raise FleetFileError(
            f"cluster {name!r} was not added to {problem}", hint="correct its settings"
        ) from exc
    added = after.pop(name, None)
    if added is None or after != before:
        raise FleetFileError(
            f"fleet file {path}: the entry cannot be added without changing another one",
            hint=f"add it with an editor: {_flow(name, entries)}",
        )
    return added, changed


def save_cluster(path: Path, name: str, entries: Entries) -> Cluster:
    """
    Add a cluster to the fleet file, which is made where there is none, and return it.

    Of two that add at the same time, the second reads what the first has written. Raises what
    `with_cluster` raises, and StateFileError; the old file then stays.
    """
    target = path.resolve()  # a link stays a link
    with only_one_in(make_folder(target.parent)):
        added, changed = with_cluster(path, name, entries)
        write_whole(target, changed)
    return added


def _check_name(name: str) -> None:
    """A name with a colon would be taken for an address on the command line."""
    if not name or ":" in name or not name.isprintable() or name != name.strip():
        raise UsageError(
            f"{name!r} cannot be a cluster's name",
            hint="use letters, digits and hyphens, such as eu or us-1",
        )


def _clusters_in(file: YamlFile, text: str, root: yaml.Node | None) -> dict[str, Cluster]:
    """Return what a fleet file has so far; a new one may have no cluster yet."""
    clusters = _value(root, "clusters")
    is_empty = isinstance(clusters, yaml.MappingNode) and not clusters.value
    if clusters is None or is_empty or is_blank(clusters):
        return {}
    return fleet_in(file, text)


def _value(root: yaml.Node | None, name: str) -> yaml.Node | None:
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    return next((value for key, value in pairs if key.value == name), None)


def _inserted(text: str, root: yaml.Node | None, name: str, entries: Entries) -> str:
    clusters = _value(root, "clusters")
    if isinstance(clusters, yaml.MappingNode):
        if clusters.flow_style:
            return _in_braces(text, clusters, _flow(name, entries))
        first, settings = clusters.value[0]
        column = first.start_mark.column
        inner = settings.value[0][0].start_mark.column if _is_block(settings) else column + STEP
        lines = _block(name, entries, column, inner)
        return _after(text, _end_of_entry(text, _end(clusters), column), lines)
    if isinstance(root, yaml.MappingNode) and root.flow_style:
        return _in_braces(text, root, f'"clusters": {{{_flow(name, entries)}}}')
    margin = root.start_mark.column if root else 0
    lines = _block(name, entries, margin + STEP, margin + 2 * STEP)
    if clusters and is_blank(clusters):
        return _after(text, _end_of_line(text, clusters.end_mark.index), lines)
    return _after(text, len(text), [" " * margin + "clusters:", *lines])


def _is_block(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and not node.flow_style and bool(node.value)


def _end(node: yaml.Node) -> int:
    """Return where the text of a node ends: a block ends before comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _end_of_line(text: str, index: int) -> int:
    """Return the index of the next line; at the end of a line, this is it."""
    if index and text[index - 1] == "\n":  # a text block ends with its last line
        return index
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1


def _end_of_entry(text: str, index: int, column: int) -> int:
    """Return where an entry ends: comments that are indented more than its name belong to it."""
    end = at = _end_of_line(text, index)
    while at < len(text):
        following = _end_of_line(text, at + 1)
        line = text[at:following].rstrip()
        indentation = len(line) - len(line.lstrip())
        if line and not (line.lstrip().startswith("#") and indentation > column):
            break
        at = following
        end = at if line else end
    return end


def _after(text: str, index: int, lines: list[str]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    begin = newline if index and text[index - 1] != "\n" else ""
    added = begin + "".join(f"{line}{newline}" for line in lines)
    return text[:index] + added + text[index:]


def _in_braces(text: str, node: yaml.MappingNode, added: str) -> str:
    index = text.index("{", node.start_mark.index) + 1  # an anchor may come before it
    return text[:index] + added + (", " if node.value else "") + text[index:]


def _block(name: str, entries: Entries, column: int, inner: int) -> list[str]:
    head = " " * column + f"{_scalar(name, is_name=True)}:"
    return [head, *(f"{' ' * inner}{key}: {_scalar(value)}" for key, value in entries.items())]


def _flow(name: str, entries: Entries) -> str:
    settings = ", ".join(f"{_quoted(key)}: {_quoted(value)}" for key, value in entries.items())
    return f"{_quoted(name)}: {{{settings}}}"


def _scalar(text: str, *, is_name: bool = False) -> str:
    """Return text as YAML, in quotes where it would be read as something else without."""
    try:
        node = yaml.compose(f"{text}: x" if is_name else f"x: {text}", Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return _quoted(text)
    pair = node.value[0] if isinstance(node, yaml.MappingNode) else (None, None)
    found = pair[0 if is_name else 1]
    is_same = isinstance(found, yaml.ScalarNode) and found.value == text and not is_blank(found)
    return text if is_same else _quoted(text)


def _quoted(text: str) -> str:
    """JSON's strings are YAML's; true and false stay what they are in both."""
    return text if text in {"true", "false"} else json.dumps(text, ensure_ascii=False)
