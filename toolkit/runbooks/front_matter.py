"""Parse and validate the front matter of a runbook page."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

import yaml

from toolkit.errors import RunbookError, ToolkitError
from toolkit.model.times import parse_duration
from toolkit.storage.formats.yaml_nodes import YamlFile, meant


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """
    The entries of one page.

    Every method raises RunbookError that names line and column of what is wrong. Values are texts
    as they stand there: what they mean is not for YAML to say.
    """

    file: YamlFile
    entries: Mapping[str, yaml.Node]

    @classmethod
    def of(cls, path: Path, *, required: Sequence[str], optional: Sequence[str]) -> Self:
        """Read the front matter of a page that has these entries and no others."""
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
        found = cls(file, {}).pairs(root, "front matter", [*required, *optional]) if root else {}
        if missing := [name for name in required if name not in found]:
            raise RunbookError(f"runbook {path} lacks: {', '.join(missing)}")
        return cls(file, {name: node for name, (_, node) in found.items()})

    def pairs(
        self, node: yaml.Node, what: str, known: Collection[str]
    ) -> dict[str, tuple[yaml.ScalarNode, yaml.Node]]:
        """Return name, key and value of the entries of a mapping that may have only these names."""
        found = {}
        for key, value in self.file.pairs(node, what):
            if key.value not in known:
                told = f"unknown entry {key.value!r}{meant(key.value, [*known])}"
                raise self.file.wrong_at(key, told)
            found[key.value] = (key, value)
        return found

    def text(self, name: str) -> str:
        """Return an entry as one line of text."""
        return " ".join(self.file.text_of(self.entries[name], name).split())

    def one_of(self, node: yaml.Node, name: str, choices: Sequence[str]) -> str:
        """Return a value that is one of some words."""
        text = self.file.text_of(node, name)
        if text not in choices:
            raise self.file.wrong_at(node, f"{name} must be one of: {', '.join(choices)}")
        return text

    def flag(self, name: str) -> bool:
        """Return an entry that is true or false."""
        return self.one_of(self.entries[name], name, ("true", "false")) == "true"

    def texts(self, node: yaml.Node, name: str) -> list[str]:
        """Return one value, or a list of them."""
        return [text for text in self.file.texts_of(node, name) if text]

    def duration(self, name: str) -> timedelta | None:
        """Return an entry such as 90d; None where it is not there."""
        if name not in self.entries:
            return None
        try:
            return parse_duration(self.text(name))
        except ToolkitError as exc:
            raise self.file.wrong_at(self.entries[name], str(exc)) from exc

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
