"""Parse YAML into nodes with line and column for error messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path

import yaml

from toolkit.errors import UsageError
from toolkit.model.input_files import read_input
from toolkit.model.times import parse_duration

MOST_BYTES = 2**20  # people write these; one of this size takes seconds to parse


@dataclass(frozen=True, slots=True)
class YamlFile:
    """A file that people write, its name, and the error for mistakes in it."""

    path: Path
    what: str  # such as "fleet file"
    error: type[UsageError]
    without: str  # what to try where it cannot be read
    lines_before: int = 0  # of the file, where only what follows is YAML

    def read(self) -> str:
        """Return the text of the file, with its lines ended by a line feed."""
        return self.read_exactly().replace("\r\n", "\n")

    def read_exactly(self) -> str:
        try:
            return read_input(self.path, most_bytes=MOST_BYTES).decode()
        except OSError as exc:
            problem = f"{self.what} {self.path} cannot be read: {exc.strerror}"
            raise self.error(problem, hint=self.without) from exc
        except UnicodeDecodeError as exc:
            problem = f"{self.what} {self.path} is not UTF-8 text"
            raise self.error(problem, hint="save it as UTF-8") from exc

    def compose(self, text: str) -> yaml.Node | None:
        """Return the root of YAML text, None where it is empty."""
        try:
            return yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as exc:
            raise self._at(exc.problem_mark, exc.problem or "not valid YAML") from exc
        except yaml.reader.ReaderError as exc:
            before = text[: exc.position].split("\n")
            line, column = len(before) - 1, len(before[-1])
            mark = yaml.Mark(str(self.path), exc.position, line, column, buffer=None, pointer=0)
            why = f"character U+{exc.character:04X} is not allowed in YAML"
            raise self._at(mark, why) from exc
        except (ValueError, OverflowError, RecursionError) as exc:  # no such character; too deep
            problem = f"{self.what} {self.path} is not valid YAML: {exc}"
            raise self.error(problem, hint="compare it with the one in the documentation") from exc

    def pairs(self, node: yaml.Node, what: str) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        """Yield the names and values of a mapping; raises the error for anything else."""
        if not isinstance(node, yaml.MappingNode):
            raise self.wrong_at(node, f"{what} must have 'name: value' lines")
        seen = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.wrong_at(key, "a name must be plain text")
            if key.value in seen:
                raise self.wrong_at(key, f"duplicate key {key.value!r}")
            seen.add(key.value)
            yield key, value

    def entries(
        self, node: yaml.Node, what: str, known: Sequence[str], *, called: str = "entry"
    ) -> dict[str, yaml.Node]:
        """Return the values of a mapping, by name, that may have only known names."""
        found = {}
        for key, value in self.pairs(node, what):
            if key.value not in known:
                raise self.wrong_at(key, f"unknown {called} {key.value!r}{meant(key.value, known)}")
            found[key.value] = value
        return found

    def text_of(self, node: yaml.Node, what: str) -> str:
        """Return the one value that a node holds; raises the error for anything else."""
        if not isinstance(node, yaml.ScalarNode) or not node.value or is_blank(node):
            raise self.wrong_at(node, f"{what} must be one value")
        return str(node.value)

    def one_of(self, node: yaml.Node, what: str, choices: Sequence[str]) -> str:
        text = self.text_of(node, what)
        if text not in choices:
            raise self.wrong_at(node, f"{what} must be one of: {', '.join(choices)}")
        return text

    def duration_of(self, node: yaml.Node, what: str) -> timedelta:
        text = self.text_of(node, what)
        try:
            return parse_duration(text)
        except UsageError as exc:
            raise self.wrong_at(node, f"{what} must be a duration such as 30s: {exc}") from exc

    def texts_of(self, node: yaml.Node, what: str) -> list[str]:
        """
        Return one value or a list of them as the texts of a parameter; null is "".

        A list of fewer than two has an empty text at its end, which distinguishes it from one value
        with commas.
        """
        texts = self.items_of(node, what)
        return [*texts, ""] if isinstance(node, yaml.SequenceNode) and len(texts) < 2 else texts

    def items_of(self, node: yaml.Node, what: str) -> list[str]:
        """Return one value or a list of them as texts; null is ""."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for item in nodes:
            if not isinstance(item, yaml.ScalarNode):
                raise self.wrong_at(item, f"{what} must be one value, or a list of values")
        return ["" if is_blank(item) else str(item.value) for item in nodes]

    def wrong_at(self, node: yaml.Node, problem: str) -> UsageError:
        return self._at(node.start_mark, problem)

    def _at(self, mark: yaml.Mark | None, problem: str) -> UsageError:
        place = ""
        if mark:
            place = f", line {self.lines_before + mark.line + 1}, column {mark.column + 1}"
        return self.error(f"{self.what} {self.path}{place}: {problem}", hint="fix that line")


def is_blank(node: yaml.Node) -> bool:
    """Whether nothing is written after a name, or null."""
    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")


def meant(name: str, known: Sequence[str]) -> str:
    """Return what a misspelt name may have meant, as the end of a sentence; "" for no idea."""
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
