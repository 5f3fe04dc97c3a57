"""Reference pages, made from the code they describe; each function returns Markdown."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import click

import toolkit
from toolkit import errors
from toolkit.cli import COMMANDS, cli
from toolkit.model.cluster import CHOICES, DEFAULT_TIMEOUT_S, SECRET_SETTINGS, SETTINGS, Policy
from toolkit.planning.guardrails.registry import NOTES, RULES
from toolkit.runner.notebooks import read_notebook
from toolkit.runner.parameters import read_parameters
from toolkit.spark.columns import MEANING
from toolkit.spark.schemas import RESULTS
from toolkit.storage.fleet_file import FOR_ALL

ROOT = Path(__file__).parents[2]
EXIT_CODES = {0: "done, or nothing to do"} | {
    1: "failed",
    2: "usage error: nothing was started",
    3: "blocked by a guard rail, or an approval is missing",
    4: "partial: not everything could be read, applied or confirmed",
}


def commands() -> str:
    """Every command with its options, as click knows them."""
    context = click.Context(cli, info_name="offsetbook")
    return "\n\n".join(
        part
        for name in COMMANDS
        for part in _command(cli.get_command(context, name), f"offsetbook {name}", 2)
    )


def _command(command: click.Command | None, name: str, level: int) -> Iterator[str]:
    assert command is not None, name  # noqa: S101 - the name comes from the same table
    context = click.Context(command, info_name=name)
    yield f"{'#' * level} {name}"
    yield _markdown(inspect.cleandoc(command.help or "").split("\f", maxsplit=1)[0])
    yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            yield from _command(command.get_command(context, child), f"{name} {child}", level + 1)
        return
    records = [p.get_help_record(context) for p in command.params if not _hidden(p)]
    rows = [(f"`{record[0]}`", record[1]) for record in records if record]
    if rows:
        yield _table(("option", "meaning"), rows)


def _hidden(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and parameter.hidden


def notebooks() -> str:
    """Every notebook with what it is for and its parameters."""
    return "\n\n".join(
        part for path in sorted((ROOT / "notebooks").glob("*.ipynb")) for part in _notebook(path)
    )


def _notebook(path: Path) -> Iterator[str]:
    first = "".join(read_notebook(path)["cells"][0]["source"])
    title, _, text = first.partition("\n")
    yield f"## {path.stem}: {title.lstrip('# ')}"
    yield text.strip()
    rows = [
        (f"`{p.name}`", f"`{p.type.name}`", f"`{p.default!r}`", p.help)
        for p in read_parameters(path)
    ]
    yield _table(("parameter", "type", "default", "meaning"), rows)


def columns() -> str:
    """The columns of every table of the fleet job, with type and meaning."""
    return "\n\n".join(
        f"## {name}\n\n"
        + _table(
            ("column", "type", "meaning"),
            [(f"`{f.name}`", f"`{f.type}`", MEANING[f.name]) for f in schema],
        )
        for name, schema in RESULTS.items()
    )


def guard_rails() -> str:
    """Every rule, whether it can be overridden, and which plans it judges."""
    override = {"allowed": "yes", "never": "no", "by hand": "by hand only"}
    rules = [
        (f"`{rule.name}`", rule.judges, override[rule.override], _intents(rule.intents))
        for rule in sorted(RULES.values(), key=lambda rule: rule.name)
    ]
    notes = [(f"`{name}`", meaning) for name, meaning in sorted(NOTES.items())]
    return "\n\n".join(
        (
            "## Rules",
            _table(("rule", "blocks unless", "override", "plans"), rules),
            "## Notes",
            "A note informs and never blocks.",
            _table(("note", "meaning"), notes),
        )
    )


def _intents(intents: Iterable[object]) -> str:
    from toolkit.plan import Intent  # noqa: PLC0415 - beside its only use

    chosen, missing = sorted(intents), sorted(frozenset(Intent) - frozenset(intents))
    if not missing:
        return "all"
    return f"all but {', '.join(missing)}" if len(missing) < len(chosen) else ", ".join(chosen)


def exit_codes() -> str:
    """The exit codes, and the errors that lead to each."""
    raised: dict[int, list[type[errors.ToolkitError]]] = {}
    for error in _errors(errors.ToolkitError):
        raised.setdefault(error.exit_code, []).append(error)
    codes = [(str(code), meaning) for code, meaning in EXIT_CODES.items()]
    rows = [
        (str(code), f"`{error.__name__}`", _first_sentence(error))
        for code in sorted(raised)
        for error in raised[code]
    ]
    return "\n\n".join(
        (
            _table(("code", "meaning"), codes),
            "## Errors",
            "Each message says what was being done, to what, why it failed, and what to try.",
            _table(("code", "error", "meaning"), rows),
        )
    )


def _errors(error: type[errors.ToolkitError]) -> Iterator[type[errors.ToolkitError]]:
    yield error
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _errors(child)


def fleet_settings() -> str:
    """The settings that the fleet file takes: offsetbook's own and those of the connection."""
    limits = [f for f in dataclasses.fields(Policy) if f.name.startswith("max_")]
    own = [
        ("bootstrap.servers", "", "HOST:PORT of brokers, separated by commas"),
        ("properties", "", "a client's properties file, relative to the fleet file"),
        ("timeout", f"{DEFAULT_TIMEOUT_S:g}s", "limit for connecting and for each request"),
        ("read_only", "false", "true: nothing is changed on this cluster"),
        ("reason", "required", "optional: changes need no reason"),
        ("protected_groups", "[]", "names and patterns of groups that are never changed"),
        ("ignored_groups", "[]", "names and patterns of groups left out where they are not named"),
        *(
            (f"limits.{f.name}", f"{f.default:,}", "what one run may change without an override")
            for f in limits
        ),
    ]
    own.append(("state", "", "the state directory: undo records, audit log, holds, sightings"))
    for_all = {"timeout", "state", *FOR_ALL}
    rows = [
        (
            f"`{name}`",
            default and f"`{default}`",
            "yes" if name.split(".")[0] in for_all else "",
            meaning,
        )
        for name, default, meaning in own
    ]
    connection = [
        (
            f"`{name}`",
            "a reference" if name in SECRET_SETTINGS else ", ".join(sorted(CHOICES.get(name, ()))),
        )
        for name in sorted(SETTINGS)
    ]
    return "\n\n".join(
        (
            _table(("setting", "default", "also for all clusters", "meaning"), rows),
            "Connection settings, for one cluster:",
            _table(("setting", "values"), connection),
        )
    )


def result_json() -> str:
    """The fields of result.json."""
    schema = json.loads((ROOT / "toolkit/runner/result.schema.json").read_text("utf-8"))
    rows = [
        (f"`{name}`", _json_type(field), field.get("description", ""))
        for name, field in schema["properties"].items()
    ]
    return _table(("field", "type", "meaning"), rows)


def _json_type(field: dict[str, object]) -> str:
    if choices := field.get("enum"):
        assert isinstance(choices, list)  # noqa: S101 - JSON schema
        return ", ".join(f"`{choice}`" for choice in choices)
    kind = field.get("type", "")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def python_api() -> str:
    """Every public name of `toolkit` and `widgets`, by its docstring."""
    widgets = importlib.import_module("widgets")
    return "\n\n".join(
        part
        for module in (toolkit, widgets)
        for name in sorted(module.__all__)
        for part in _public(f"{module.__name__}.{name}", getattr(module, name))
    )


def _public(name: str, value: object) -> Iterator[str]:
    yield f"## {name}"
    if inspect.isfunction(value):
        yield f"```python\n{name.rpartition('.')[2]}{_signature(value)}\n```"
    yield _markdown(inspect.getdoc(value) or "")
    if not inspect.isclass(value) or issubclass(value, Exception):
        return
    for member, what in inspect.getmembers_static(value):
        if member.startswith("_"):
            continue
        call = what.__func__ if isinstance(what, classmethod | staticmethod) else what
        text = inspect.getdoc(call)
        if inspect.isfunction(call) and text:
            yield f"### {value.__name__}.{member}"
            yield f"```python\n{member}{_signature(call)}\n```"
            yield _markdown(text)
        elif isinstance(what, property) and text:
            yield f"### {value.__name__}.{member}"
            yield _markdown(text)


def _signature(call: Callable[..., object]) -> str:
    one = str(inspect.signature(call)).replace("'", "")
    if len(one) < 80:
        return one
    inside, _, result = one[1:].rpartition(")")
    return "(\n    " + re.sub(r", (?=[\w*/])(?![^\[(]*[\])])", ",\n    ", inside) + ",\n)" + result


def _markdown(text: str) -> str:
    """Docstrings and help are plain text: keep indented blocks, and escape what Markdown reads."""
    blocks = re.split(r"\n\s*\n", text.replace("\b\n", "").strip())
    return "\n\n".join(_block(block) for block in blocks)


def _block(block: str) -> str:
    if any(line.startswith("    ") for line in block.splitlines()):
        return f"```text\n{inspect.cleandoc(block)}\n```"
    return _escape(block)


def _escape(text: str) -> str:
    """Escape outside of `code`."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([\\*_<>\[\]$#])", r"\\\1", part)
        for part in parts
    )


def _first_sentence(value: object) -> str:
    return (inspect.getdoc(value) or "").split("\n\n")[0]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *(list(map(_cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    one = " ".join(text.split())
    code = one.startswith("`") and one.endswith("`")
    return (one if code else _escape(one)).replace("|", "\\|")


PAGES: dict[str, Callable[[], str]] = {
    page.__name__: page
    for page in (
        *(commands, notebooks, columns, guard_rails),
        *(exit_codes, fleet_settings, result_json, python_api),
    )
}
