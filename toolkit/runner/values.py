"""
What a notebook parameter may hold, and how text becomes it.

A parameter says its type: `str`, `int`, `float`, `bool`, `list[str]`, any of them `| None`, or a
`Literal` of texts or whole numbers. The declared type decides what a text means, never its looks:
group `007` stays text, and only a `bool` turns `false` into False.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class ValueType:
    """The declared type of one parameter."""

    name: str  # as the notebook spells it
    kind: str  # one of `_ACCEPTS`, or "" when only the choices count
    optional: bool = False
    choices: tuple[str | int, ...] = ()

    def accepts(self, value: object) -> bool:
        """Whether a value is of this type: True is not an int, 1 is not a bool."""
        if value is None:
            return self.optional
        if self.choices:
            # Without the type, True would equal the choice 1.
            return any(value == choice and type(value) is type(choice) for choice in self.choices)
        return _ACCEPTS[self.kind](value)

    def from_texts(self, texts: Sequence[str]) -> object:
        """The value that one or more texts stand for; ValueError where they stand for none."""
        if self.kind == "list[str]":
            return _list_from(texts)
        if len(texts) != 1:
            raise ValueError
        text = texts[0]
        if self.optional and not text:
            return None
        if self.choices:
            return next(choice for choice in self.choices if str(choice) == text)
        return _CONVERT[self.kind](text)


def read_type(annotation: ast.expr) -> ValueType | None:
    """The type that an annotation declares, or None where it is not one of ours."""
    name = ast.unparse(annotation).replace('"', "'")
    optional = False
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        sides = [annotation.left, annotation.right]
        named = [s for s in sides if not (isinstance(s, ast.Constant) and s.value is None)]
        if len(named) != 1:
            return None
        annotation, optional = named[0], True
    plain = ast.unparse(annotation)
    if plain in _ACCEPTS:
        return ValueType(name, plain, optional)
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Literal":
        choices = _choices(annotation.slice)
        return ValueType(name, "", optional, choices) if choices else None
    return None


def _choices(inside: ast.expr) -> tuple[str | int, ...]:
    items = inside.elts if isinstance(inside, ast.Tuple) else [inside]
    values = [item.value for item in items if isinstance(item, ast.Constant)]
    choices = tuple(v for v in values if isinstance(v, str | int) and not isinstance(v, bool))
    return choices if len(choices) == len(items) else ()


def _is_finite_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _list_from(texts: Sequence[str]) -> list[str]:
    # A name may hold a comma: only a list given in one text is split at commas.
    items = texts[0].split(",") if len(texts) == 1 else texts
    return [item.strip() for item in items if item.strip()]


def _bool_from(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _int_from(text: str) -> int:
    # int() alone would take "1_000" and digits of other scripts.
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ValueError
    return int(text)


def _float_from(text: str) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    if not math.isfinite(value):
        raise ValueError
    return value


_ACCEPTS: dict[str, Callable[[object], bool]] = {
    "str": lambda value: isinstance(value, str),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": _is_finite_number,
    "bool": lambda value: isinstance(value, bool),
    "list[str]": _is_list_of_text,
}
_CONVERT: dict[str, Callable[[str], object]] = {
    "str": str,
    "int": _int_from,
    "float": _float_from,
    "bool": _bool_from,
}
