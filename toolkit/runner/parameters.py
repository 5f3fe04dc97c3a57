"""
The parameters of a notebook, checked before anything is started.

Papermill only warns about an unknown name and continues with the defaults, reads `false` as
a text that is true, and misses every declaration with a union or a second `=`. So the one cell
tagged `parameters` is parsed here as what it is: Python.

A parameter says its type: `str`, `int`, `float`, `bool`, `list[str]`, any of them `| None`, or a
`Literal` of texts or whole numbers. The declared type decides what a text means, never its looks:
group `007` stays text, and only a `bool` turns `false` into False.
"""

from __future__ import annotations

import ast
import difflib
import io
import math
import re
import tokenize
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolkit.errors import ParameterError
from toolkit.model.secrets import SECRET_NAME, looks_secret
from toolkit.runner.notebooks import read_notebook
from toolkit.storage.formats.yaml_nodes import YamlFile
from toolkit.templates import NOTEBOOKS

# What Python raises for source that it cannot take: too deep, with NUL, with an unhashable key.
UNPARSABLE = (
    *(SyntaxError, ValueError, TypeError, tokenize.TokenError),
    *(MemoryError, RecursionError),
)
# What approves a change: given when a run is started, never by a saved notebook.
WITHOUT_APPROVAL: dict[str, object] = {
    "dry_run": True,
    "approve": "",
    "reason": "",
    "overrides": [],
    "limits": [],
}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_PARTITIONS = re.compile(r"[0-9]+(-[0-9]+)?")
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

    def from_texts(self, texts: Sequence[str], *, of_scopes: bool = False) -> object:
        """The value of one or more texts; ValueError if they have none."""
        if self.kind == "list[str]":
            return _list_from(texts, of_scopes=of_scopes)
        if len(texts) != 1:
            raise ValueError
        text = texts[0]
        if self.optional and not text:
            return None
        if self.choices:
            return next(choice for choice in self.choices if str(choice) == text)
        return _CONVERT[self.kind](text)


READS_PARAMETERS = "ob.parameters("


@dataclass(frozen=True, slots=True)
class Parameter:
    """One line of the parameters cell: `name: type = default  # help`."""

    name: str
    type: ValueType
    default: object
    help: str = ""


def read_parameters(notebook: Path) -> tuple[Parameter, ...]:
    """
    Read the parameters that a notebook declares, in its order; () when it takes none.

    Raises ParameterError for a cell that cannot be read, and where the tag of the cell is missing:
    the values in it, or those of an earlier run, would be used unseen.
    """
    cells = [c for c in _cells(notebook) if "parameters" in c["metadata"].get("tags", ())]
    if not cells:
        _refuse_untagged(notebook)
        return ()
    if len(cells) > 1:
        raise ParameterError(
            f"{notebook.name} has {len(cells)} cells tagged `parameters`",
            hint="keep the tag on one cell",
        )
    source = "".join(cells[0]["source"])
    try:
        tree, comments = ast.parse(source), _comments(source)
    except UNPARSABLE as exc:
        raise _malformed(notebook, getattr(exc, "lineno", None) or 1) from exc
    found: dict[str, Parameter] = {}
    for node in (node for node in tree.body if not _is_prelude(node)):
        read = _parameter(node, comments, notebook, found)
        found[read.name] = read
    return tuple(found.values())


def check_parameters(
    parameters: Iterable[Parameter], given: Mapping[str, object], *, notebook: str
) -> None:
    """Raise ParameterError at the first given value that is unknown or of the wrong type."""
    known = {parameter.name: parameter for parameter in parameters}
    for name, value in given.items():
        parameter = _known(known, name, notebook)
        if not parameter.type.accepts(value):
            raise _wrong_type(parameter, value, notebook)


def saved_approval(
    parameters: Iterable[Parameter], given: Mapping[str, object]
) -> dict[str, object]:
    """
    Return what a headless run uses in place of an approval that is saved in a notebook.

    Of the parameters that approve a change, those that are not given and have another value in the
    notebook than "not approved".
    """
    return {
        parameter.name: unapproved
        for parameter in parameters
        if parameter.name not in given
        and (unapproved := WITHOUT_APPROVAL.get(parameter.name)) is not None
        and parameter.default != unapproved
        and parameter.type.accepts(unapproved)
    }


def parse_parameters(
    parameters: Iterable[Parameter], texts: Iterable[tuple[str, str]], *, notebook: str
) -> dict[str, object]:
    """
    Turn `name`, `value` texts into values of the declared types; a list may be repeated.

    Raises ParameterError for what is unknown, of the wrong type, or seems to be a secret.
    """
    known = {parameter.name: parameter for parameter in parameters}
    given: dict[str, list[str]] = {}
    for name, text in texts:
        if looks_secret(text):
            raise _secret(name, notebook)
        _known(known, name, notebook)
        given.setdefault(name, []).append(text)
    values: dict[str, object] = {}
    for name, repeated in given.items():
        try:
            values[name] = known[name].type.from_texts(repeated, of_scopes=name == "topics")
        except (ValueError, KeyError, StopIteration) as exc:
            shown = repeated[0] if len(repeated) == 1 else repeated
            raise _wrong_type(known[name], shown, notebook) from exc
    return values


def path_in(values: Mapping[str, object], name: str) -> Path | None:
    """Return the path in a parameter; None where it has none."""
    named = values.get(name)
    return Path(named) if isinstance(named, str) and named else None


def read_texts(path: Path) -> list[tuple[str, str]]:
    """
    Read names and texts from a YAML file of `name: value` lines; a value may be a list.

    Values are texts as written there: 007 stays 007. Raises ParameterError with line and column.
    """
    file = YamlFile(path, "parameters file", ParameterError, "pass a file of 'name: value' lines")
    root = file.compose(file.read())
    texts = []
    for key, node in file.pairs(root, "the file") if root else ():
        values = file.texts_of(node, key.value)
        texts += [(key.value, value) for value in values]
    return texts


def _cells(notebook: Path) -> list[dict[str, Any]]:
    return [cell for cell in read_notebook(notebook)["cells"] if cell["cell_type"] == "code"]


def _refuse_untagged(notebook: Path) -> None:
    for cell in _cells(notebook):
        is_injected = "injected-parameters" in cell["metadata"].get("tags", ())
        if is_injected or READS_PARAMETERS in "".join(cell["source"]):
            raise ParameterError(
                f"{notebook.name} has parameters, and no cell tagged `parameters`",
                hint="put the tag back on the cell that declares them",
            )


def _is_prelude(node: ast.stmt) -> bool:
    """Whether it is a docstring or the import that `Literal` needs."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.ImportFrom) and node.module == "typing"


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        t.start[0]: t.string.lstrip("# ").rstrip() for t in tokens if t.type == tokenize.COMMENT
    }


def _parameter(
    node: ast.stmt, comments: Mapping[int, str], notebook: Path, before: Mapping[str, Parameter]
) -> Parameter:
    if isinstance(node, ast.Assign):
        return _assigned(node, notebook, before)
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        raise _malformed(notebook, node.lineno)
    declared = read_type(node.annotation)
    if declared is None or node.value is None:
        raise _malformed(notebook, node.lineno)
    try:
        default = ast.literal_eval(node.value)
    except UNPARSABLE as exc:
        raise _malformed(notebook, node.lineno) from exc
    name = node.target.id
    if SECRET_NAME.search(name):
        raise _secret(name, notebook.name)
    parameter = Parameter(name, declared, default, comments.get(node.end_lineno or 0, ""))
    if not declared.accepts(default):
        raise _wrong_type(parameter, default, notebook.name)
    return parameter


def _assigned(node: ast.Assign, notebook: Path, before: Mapping[str, Parameter]) -> Parameter:
    """Read a line `name = value` of a declared parameter, such as people paste."""
    (target, *more) = node.targets
    name = target.id if isinstance(target, ast.Name) else ""
    known = {**_of_package(notebook), **before}.get(name)
    if more or known is None:
        raise _malformed(notebook, node.lineno)
    try:
        value = ast.literal_eval(node.value)
    except ValueError as exc:
        raise _malformed(notebook, node.lineno) from exc
    if not known.type.accepts(value):
        raise _wrong_type(known, value, notebook.name)
    return replace(known, default=value)


def _of_package(notebook: Path) -> dict[str, Parameter]:
    for path in NOTEBOOKS.glob("*.ipynb"):
        if notebook.stem.startswith(path.stem) and notebook.resolve() != path.resolve():
            return {parameter.name: parameter for parameter in read_parameters(path)}
    return {}


def _known(known: Mapping[str, Parameter], name: str, notebook: str) -> Parameter:
    if name in known:
        return known[name]
    if SECRET_NAME.search(name):
        raise _secret(name, notebook)
    near = difflib.get_close_matches(name, known, n=1)
    names = ", ".join(known) or "none"
    raise ParameterError(
        f"{notebook}: unknown parameter {name!r}; known parameters: {names}",
        hint=f"use {near[0]!r}" if near else "",
    )


def _wrong_type(parameter: Parameter, value: object, notebook: str) -> ParameterError:
    if parameter.type.choices:
        expected = "one of " + ", ".join(str(choice) for choice in parameter.type.choices)
    else:
        expected = parameter.type.name
    return ParameterError(
        f"{notebook}: parameter {parameter.name} must be {expected}, got {value!r}"
    )


def _malformed(notebook: Path, line: int) -> ParameterError:
    return ParameterError(
        f"{notebook.name}: line {line} of the parameters cell is not `name: type = value  # help`",
        hint=(
            "use a plain value of type str, int, float, bool, list[str], Literal[...], or ... | "
            "None"
        ),
    )


def _secret(name: str, notebook: str) -> ParameterError:
    return ParameterError(
        f"{notebook}: parameter {name!r} looks like a secret; parameters are stored in the "
        "notebook and the report and are visible in the process list",
        hint="use a reference such as ${env:NAME} or ${file:/path} in the fleet file",
    )


def read_type(annotation: ast.expr) -> ValueType | None:
    """The type that an annotation declares, or None if no parameter may have it."""
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


def _list_from(texts: Sequence[str], *, of_scopes: bool) -> list[str]:
    if len(texts) > 1:  # a name may hold a comma
        return [item.strip() for item in texts if item.strip()]
    items: list[str] = []
    for item in filter(None, map(str.strip, texts[0].split(","))):
        if of_scopes and items and ":" in items[-1] and _PARTITIONS.fullmatch(item):
            items[-1] += f",{item}"  # as in topic:0,1
        else:
            items.append(item)
    return items


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
