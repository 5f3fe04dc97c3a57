"""Every name under which anything is found is in the registry, and every name there is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import toolkit
from toolkit.operate.earlier_runs import CUT_OFF_RUN
from toolkit.planning.guardrails.registry import NOTES, RULES
from toolkit.planning.holds.hold_rules import GROUP_RULES

ROOT = Path(toolkit.__file__).parent
NAMES_IT = {
    "block": 0,
    "note": 0,
    "say": 0,
    "Finding": 0,
    "TargetOffset": 2,
}  # which argument is the rule
# What is not a literal: passed on, or read from a table or from a file.
PASSED_ON = {
    ("datetime_target", "TargetOffset", None),  # it says nothing of its own
    ("offsets_target", "TargetOffset", None),
    ("targets", "TargetOffset", None),
    ("group_selection", "Finding", "rule"),
    ("pause", "block", "rule"),  # from GROUP_RULES
    ("plan_files", "Finding", None),
    ("plan_parts", "Finding", "rule"),
    ("registry", "Finding", "rule.name"),
    ("reset", "Finding", "aim.rule"),
}


def calls() -> Iterator[tuple[str, str, ast.expr | None, ast.Module]]:
    """Yield each call that makes a finding: its module, what is called, and what names the rule."""
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = NAMES_IT.get(node.func.id)
                if place is not None:
                    name = node.args[place] if place < len(node.args) else None
                    yield path.stem, node.func.id, name, tree


def literals(name: ast.expr | None, tree: ast.Module) -> set[str]:
    """Return the names that an expression has: its own, or that of a constant of the module."""
    match name:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.IfExp(body=first, orelse=other):
            return literals(first, tree) | literals(other, tree)
        case ast.Name(id=constant):
            return {
                value.value
                for node in tree.body
                if isinstance(node, ast.Assign)
                and [ast.unparse(target) for target in node.targets] == [constant]
                and isinstance(value := node.value, ast.Constant)
            }
    return set()


FOUND = list(calls())
USED = {text for _, _, name, tree in FOUND for text in literals(name, tree)}


def test_every_name_that_is_found_is_registered() -> None:
    """A finding under an unknown name could neither be explained nor overridden."""
    assert {"topics-required", "no-leader", "topic-recreated", "past-end", "stops"} <= USED
    assert set() == (USED | GROUP_RULES.keys() | {CUT_OFF_RUN}) - (RULES.keys() | NOTES.keys())


def test_every_registered_name_is_used() -> None:
    """What nothing finds is not listed as if it protected from anything."""
    planned = {name for name, rule in RULES.items() if rule.by is None}

    assert set() == (planned | NOTES.keys()) - USED - {CUT_OFF_RUN}


def test_every_other_name_is_passed_on() -> None:
    """Where a name is no literal, it is known where it comes from."""
    passed = {
        (module, called, ast.unparse(name) if name else None)
        for module, called, name, tree in FOUND
        if not literals(name, tree)
    }

    assert PASSED_ON == passed


def test_a_note_is_registered_as_a_note() -> None:
    """A name that only ever informs is in NOTES, and one that blocks is not."""
    noted = {
        text for _, called, name, tree in FOUND if called == "note" for text in literals(name, tree)
    }
    blocked = {
        text
        for _, called, name, tree in FOUND
        if called == "block"
        for text in literals(name, tree)
    }

    assert noted <= NOTES.keys() | RULES.keys()
    assert blocked <= RULES.keys()
