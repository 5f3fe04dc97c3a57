"""YAML as nodes that know their line and column, so that a mistake can be pointed at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from toolkit.errors import FleetFileError


def compose(path: Path) -> yaml.Node | None:
    """Return the root of a YAML file, None for an empty one; raises FleetFileError."""
    text = _read(path)
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        raise _at(path, exc.problem_mark, exc.problem or "not valid YAML") from exc
    except yaml.reader.ReaderError as exc:
        before = text[: exc.position].split("\n")
        line, column = len(before) - 1, len(before[-1])
        mark = yaml.Mark(str(path), exc.position, line, column, buffer=None, pointer=0)
        raise _at(path, mark, f"character U+{exc.character:04X} is not allowed in YAML") from exc
    except (ValueError, OverflowError, RecursionError) as exc:  # no such character; too deep
        raise FleetFileError(
            f"fleet file {path} is not valid YAML: {exc}", hint="compare it with the README's"
        ) from exc


def pairs(path: Path, node: yaml.Node, what: str) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """Yield the names and values of a mapping; raises FleetFileError for anything else."""
    if not isinstance(node, yaml.MappingNode):
        raise wrong_at(path, node, f"{what} must hold 'name: value' lines")
    seen = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise wrong_at(path, key, "a name must be plain text")
        if key.value in seen:
            raise wrong_at(path, key, f"{key.value!r} is there twice")
        seen.add(key.value)
        yield key, value


def text_of(path: Path, node: yaml.Node, what: str) -> str:
    """Return the one value that a node holds; raises FleetFileError."""
    if not isinstance(node, yaml.ScalarNode) or not node.value or node.tag.endswith(":null"):
        raise wrong_at(path, node, f"{what} must be one value")
    return str(node.value)


def wrong_at(path: Path, node: yaml.Node, problem: str) -> FleetFileError:
    """Return the error that points at a node."""
    return _at(path, node.start_mark, problem)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as exc:
        raise FleetFileError(
            f"fleet file {path} cannot be read: {exc.strerror}",
            hint="name another with --fleet, or run 'offsetbook sandbox up' to get one",
        ) from exc
    except UnicodeDecodeError as exc:
        raise FleetFileError(
            f"fleet file {path} is not UTF-8 text", hint="save it as such"
        ) from exc


def _at(path: Path, mark: yaml.Mark | None, problem: str) -> FleetFileError:
    place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return FleetFileError(f"fleet file {path}{place}: {problem}", hint="correct that line")
