"""For which intents a rule can block: what the registry says, and what can really be found."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest
from guardrail_cases import IDLE, case, facts
from guardrail_examples import EXAMPLES
from guardrail_strategies import any_cases
from hypothesis import given

from toolkit import planning
from toolkit.errors import UsageError
from toolkit.model import CaptureMode, GroupType
from toolkit.plan import Action, Intent
from toolkit.planning.changes.move import MoveRequest, plan_move
from toolkit.planning.changes.targets import ToOffset
from toolkit.planning.guardrails.hold_rule_table import HOLD_RULES
from toolkit.planning.guardrails.registry import (
    OVERRIDABLE,
    RULES,
    CheckContext,
    check,
    check_overrides,
)

ROOT = Path(planning.__file__).parent
COMMITS = {Action.COMMIT, Action.MOVE}
# What each intent is planned by, and the actions of such a plan.
PLANNERS: dict[Intent, tuple[set[str], set[Action]]] = {
    Intent.RESET: ({"plan_reset"}, COMMITS),
    Intent.DELETE_OFFSETS: (
        {"plan_delete_offsets", "plan_delete_unsubscribed"},
        {Action.DELETE_OFFSETS},
    ),
    Intent.DELETE_GROUPS: ({"plan_delete_groups"}, {Action.DELETE_GROUP}),
    Intent.COPY: ({"plan_copy", "plan_copy_between"}, COMMITS),
    Intent.RENAME: ({"plan_rename"}, COMMITS | {Action.DELETE_GROUP}),
    Intent.RESTORE: ({"plan_restore"}, COMMITS),
    Intent.RESCUE: ({"plan_rescue"}, {Action.COMMIT, Action.REJOIN}),
    Intent.UNDO: ({"plan_undo"}, COMMITS | {Action.DELETE_OFFSETS, Action.DELETE_GROUP}),
    Intent.PAUSE: ({"plan_pause"}, {Action.HOLD}),
    Intent.RESUME: ({"plan_resume"}, {Action.RELEASE}),
    Intent.MOVE: ({"plan_move", "plan_reset", "plan_pause"}, COMMITS),
}
# What the code of a planner could reach and never does.
NEVER_FOUND = {
    (Intent.MOVE, "other-end")  # the hold of a move ends with the move, see below
}
OF_ANOTHER_TYPE = replace(IDLE, type=GroupType.CONSUMER)
NOT_PLANNED = {"cut-off-run"}  # the audit log tells it, when a plan is applied


@dataclass
class _Code:
    """A function or a constant: the names of rules in it, and what else it uses."""

    rules: set[str] = field(default_factory=set)
    uses: set[tuple[str, str]] = field(default_factory=set)  # module and name; "" for a method


@cache
def code() -> dict[tuple[str, str], _Code]:
    """Return every function, method and constant of planning, by module and name."""
    found: dict[tuple[str, str], _Code] = {}
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        imported = {
            alias.name: (node.module or "").rpartition(".")[2]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for name, node in _parts(tree):
            one = found.setdefault((path.stem, name), _Code())
            for used in ast.walk(node):
                if isinstance(used, ast.Constant) and used.value in RULES:
                    one.rules.add(str(used.value))
                elif isinstance(used, ast.Name):
                    one.uses.add((imported.get(used.id, path.stem), used.id))
                elif isinstance(used, ast.Call) and isinstance(used.func, ast.Attribute):
                    one.uses.add(("", f".{used.func.attr}"))
                    one.uses.add((ast.unparse(used.func.value), used.func.attr))
    return found


def _parts(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        match node:
            case ast.FunctionDef():
                yield node.name, node
            case ast.ClassDef():
                methods = (one for one in node.body if isinstance(one, ast.FunctionDef))
                yield from ((f".{method.name}", method) for method in methods)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node


def planned(intent: Intent) -> set[str]:
    """Return the rules that the planners of an intent can reach; other planners are not entered."""
    planners, _ = PLANNERS[intent]
    todo = [key for key in code() if key[1] in planners]
    assert len(planners) == len(todo)
    reached = set(todo)
    while todo:
        for module, name in code()[todo.pop()].uses:
            if name.startswith("plan_") and name != "plan_of":
                continue
            found = {key for key in code() if key[1] == name and module in {"", key[0]}}
            todo += found - reached
            reached |= found
    return {rule for key in reached for rule in code()[key].rules}


@pytest.mark.parametrize("intent", Intent)
def test_what_planning_can_find_is_registered_for_the_intent(intent: Intent) -> None:
    """An operator can override whatever a planner finds, if the rule allows it at all."""
    found = planned(intent)

    assert "unreadable" in found
    unknown = {rule for rule in found & OVERRIDABLE if intent not in RULES[rule].intents}
    assert unknown == {rule for where, rule in NEVER_FOUND if where is intent}


def _as_planned(about: CheckContext) -> CheckContext:
    """Return a case of which the plan has only actions that its intent is carried out by."""
    _, actions = PLANNERS[about.plan.intent]
    steps = tuple(step for step in about.plan.steps if step.action in actions)
    return replace(about, plan=replace(about.plan, steps=steps))


@given(any_cases)
def test_what_a_rule_objects_to_is_registered_for_the_intent(about: CheckContext) -> None:
    """No rule blocks a plan with an intent that the registry does not name."""
    intent = about.plan.intent

    assert set() == {
        f.rule for f in check(_as_planned(about)) if intent not in RULES[f.rule].intents
    }


def _objects(rule: str, intent: Intent) -> bool:
    """Whether a rule blocks a plan with an intent and the actions of such a plan."""
    bad = case(now=facts(OF_ANOTHER_TYPE)) if rule == "facts-moved" else EXAMPLES[rule].bad
    for action in PLANNERS[intent][1]:
        steps = tuple(replace(step, action=action) for step in bad.plan.steps)
        asked = replace(bad, plan=replace(bad.plan, intent=intent, steps=steps))
        if any(finding.rule == rule for finding in check(asked)):
            return True
    return False


@pytest.mark.parametrize("rule", sorted(RULES.keys() - NOT_PLANNED))
def test_every_intent_of_a_rule_is_real(rule: str) -> None:
    """Where an override could have no effect, it is not accepted."""
    for intent in RULES[rule].intents:
        judged = rule in EXAMPLES and _objects(rule, intent)
        assert judged or rule in planned(intent), intent


@pytest.mark.parametrize("rule", [rule.name for rule in HOLD_RULES if rule.by])
def test_a_move_is_blocked_by_what_its_hold_would_be_blocked_by(rule: str) -> None:
    """A hold inside a move is judged when the move is planned, but not for when it ends."""
    bad = EXAMPLES[rule].bad
    prefer = CaptureMode.QUIET if rule == "no-committed-offset" else CaptureMode.LOSSLESS
    beside = bad.beside.get("g", MoveRequest(ToOffset(5), "g").beside)
    request = MoveRequest(ToOffset(5), "g", ("orders:0",), True, prefer, beside)
    findings = plan_move(bad.facts, request).plan.findings
    blocks = any(finding.rule == rule and finding.blocks for finding in findings)

    assert blocks == (Intent.MOVE in RULES[rule].intents)


@pytest.mark.parametrize("intent", Intent)
def test_an_override_is_accepted_where_it_can_have_an_effect(intent: Intent) -> None:
    """Exactly for the intents of the rule; the error names those of the intent."""
    usable = [rule for rule in sorted(OVERRIDABLE) if intent in RULES[rule].intents]
    check_overrides(usable, intent=intent)
    for rule in OVERRIDABLE.difference(usable):
        check_overrides([rule])  # where no intent is known yet
        with pytest.raises(UsageError, match=f"'{rule}' never blocks {intent}") as caught:
            check_overrides([*usable, rule], intent=intent)

        hint = f"those that can be overridden for {intent} are {', '.join(usable)}"
        assert hint == caught.value.hint
