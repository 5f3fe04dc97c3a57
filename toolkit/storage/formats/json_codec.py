"""Read JSON strictly, with the location of every error, and write it readably."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import NoReturn, TypeVar, cast

from toolkit.errors import UsageError
from toolkit.model.input_files import read_input

Kind = TypeVar("Kind", bound=StrEnum)
Value = TypeVar("Value")

HINT = "use the file as it was written"
TIME = "a time with its zone, such as 2026-03-01T12:00:00Z"


def utc_text(time: datetime) -> str:
    """Return a time as ISO 8601 in UTC, ending in Z."""
    return time.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


RAW_DECODE = json.JSONDecoder().raw_decode  # two thirds of the time that `loads` takes


def readable(document: Mapping[str, object]) -> str:
    """
    Return a document as JSON text in which every object of a list has its own line.

    The same document gives the same text. It is ASCII, so that a name from a cluster can neither
    steer a terminal nor be something else than it looks.
    """
    return "".join(readable_parts(document))


def readable_parts(document: Mapping[str, object]) -> Iterator[str]:
    """Yield the same in parts; a list may be an iterator, whose items are made as they come."""
    yield from _lines(document, "")
    yield "\n"


def _lines(value: object, indent: str) -> Iterator[str]:
    deeper = indent + "  "
    if isinstance(value, Mapping) and (not indent or any(map(_is_table, value.values()))):
        start = f"{{\n{deeper}"
        for key, item in value.items():
            yield f"{start}{json.dumps(key)}: "
            yield from _lines(item, deeper)
            start = f",\n{deeper}"
        yield f"\n{indent}}}"
    elif _is_table(value):
        start = f"[\n{deeper}"
        for item in cast("Iterable[object]", value):
            yield start
            yield from _lines(item, deeper)
            start = f",\n{deeper}"
        yield "[]" if start.startswith("[") else f"\n{indent}]"
    else:
        yield json.dumps(value)


def _is_table(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], dict)
    return isinstance(value, Iterator)


def read_document(path: Path, what: str) -> object:
    """Read a JSON file; raises UsageError that names the file, as `what`, and the place."""
    try:
        return json.loads(read_input(path).decode("utf-8-sig"), object_pairs_hook=_once)
    except OSError as exc:
        raise UsageError(f"{what} {path} cannot be read: {exc.strerror or exc}") from exc
    except json.JSONDecodeError as exc:
        place = f"line {exc.lineno}, column {exc.colno}"
        raise UsageError(f"{what} {path}, {place}: not JSON: {exc.msg}", hint=HINT) from exc
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"{what} {path} is invalid: {exc}", hint=HINT) from exc


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"duplicate key {twice!r} in one object")
    return values


@lru_cache
def by_value(kind: type[Kind]) -> Mapping[str, Kind]:
    """Return the members of an enum by value: an eighth of the time that `kind(value)` takes."""
    return {member.value: member for member in kind}


@dataclass(frozen=True, slots=True)
class JsonFields:
    """One JSON object, read field by field; `place` says where it is, for what is wrong in it."""

    values: dict[str, object]
    place: str

    @classmethod
    def of(cls, value: object, place: str, names: frozenset[str]) -> JsonFields:
        """Take a value for an object with exactly these fields; raises UsageError."""
        if not isinstance(value, dict):
            raise UsageError(f"{place} must be an object, not {_short(value)}", hint=HINT)
        if value.keys() != names:
            missing, unknown = sorted(names - value.keys()), sorted(value.keys() - names)
            wrong = f"lacks {missing[0]!r}" if missing else f"has an unknown field {unknown[0]!r}"
            raise UsageError(f"{place} {wrong}", hint=HINT)
        return cls(value, place)

    def text(self, name: str) -> str:
        value = self.values[name]
        return value if isinstance(value, str) else self._refuse(name, "a text")

    def texts(self, name: str) -> tuple[str, ...]:
        values = self.values[name]
        if not isinstance(values, list) or not {*map(type, values)} <= {str}:
            self._refuse(name, "a list of texts")
        return tuple(values)

    def count(self, name: str, below: int = 2**63) -> int:
        """Return a whole number from 0; JSON's true is none."""
        value = self.values[name]
        if type(value) is not int or not 0 <= value < below:
            self._refuse(name, f"a whole number from 0 to {below - 1}")
        return value

    def time(self, name: str) -> datetime:
        """Return a time, which must say its zone, in UTC."""
        try:
            time = datetime.fromisoformat(self.text(name))
            in_utc = time.astimezone(UTC)
        except (ValueError, OverflowError):  # no time; off the calendar in UTC
            self._refuse(name, TIME)
        if time.tzinfo is None:
            self._refuse(name, TIME)
        return in_utc

    def choice(self, name: str, kind: type[Kind]) -> Kind:
        try:
            member: Kind = by_value(kind)[self.text(name)]
        except KeyError:
            self._refuse(name, f"one of {', '.join(kind)}")
        return member

    def optional(self, name: str, read: Callable[[str], Value]) -> Value | None:
        """Return what `read` makes of a field, or None where it holds null."""
        return None if self.values[name] is None else read(name)

    def one(self, name: str, names: frozenset[str]) -> JsonFields:
        return JsonFields.of(self.values[name], f"{self.place}.{name}", names)

    def many(self, name: str, names: frozenset[str]) -> Iterator[JsonFields]:
        values = self.values[name]
        if not isinstance(values, list):
            self._refuse(name, "a list")
        for index, value in enumerate(values):
            yield JsonFields.of(value, f"{self.place}.{name}[{index}]", names)

    def _refuse(self, name: str, expected: str) -> NoReturn:
        raise UsageError(
            f"{self.place}.{name} must be {expected}, not {_short(self.values[name])}", hint=HINT
        )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
