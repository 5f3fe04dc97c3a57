"""Every rule: its name, its sets, its intents, and the facts that it needs."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest
from facts import NOON
from guardrail_cases import IDLE, case, facts, found
from guardrail_examples import EXAMPLES
from guardrail_strategies import any_cases
from hypothesis import given

import toolkit
from toolkit import planning
from toolkit.errors import UsageError
from toolkit.model import CaptureMode, Group, GroupType, Problem, Subscription, Unread
from toolkit.plan import Action, Intent
from toolkit.planning.changes.move import MoveRequest, plan_move
from toolkit.planning.changes.targets import ToOffset
from toolkit.planning.guardrails import registry
from toolkit.planning.guardrails.check_context import CheckContext, EarlierSightings
from toolkit.planning.guardrails.registry import (
    HOLD_RULES,
    NOTES,
    OVERRIDABLE,
    RULES,
    check,
    check_overrides,
)
from toolkit.planning.guardrails.rule import Override
from toolkit.planning.holds.hold_rules import GROUP_RULES

PACKAGE, ROOT = (Path(one.__file__).parent for one in (toolkit, planning))
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
def test_findings_of_planning_are_registered_for_the_intent(intent: Intent) -> None:
    """An operator can override each finding of a planner, if the rule allows it."""
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
def test_rules_are_registered_for_the_intent(about: CheckContext) -> None:
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
def test_a_move_is_blocked_by_the_rules_of_its_hold(rule: str) -> None:
    """Its hold is judged when the move is planned, but not its end."""
    bad = EXAMPLES[rule].bad
    prefer = CaptureMode.QUIET if rule == "no-committed-offset" else CaptureMode.LOSSLESS
    beside = bad.hold_facts.get("g", MoveRequest(ToOffset(5), "g").hold_facts)
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
        with pytest.raises(UsageError, match=f"'{rule}' never blocks {intent}") as caught:
            check_overrides([*usable, rule], intent=intent)

        hint = f"those that can be overridden for {intent} are {', '.join(usable)}"
        assert hint == caught.value.hint


NAMED = re.compile(r'\b(block|note|say|Finding|Doubt)\(\s*"([a-z-]+)"')
NOT_NAMED_SO = {"past-end", *NOT_PLANNED}  # a target makes no finding of its own


def test_names_that_are_found_and_names_that_are_registered_are_the_same() -> None:
    """
    A finding under an unknown name could neither be explained nor overridden.

    What nothing finds is not listed as if it protected from anything; a name that blocks is no
    note. Where a name is no literal, the tests of planners see that it is known: `facts.rules`.
    """
    code = "".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))
    named = NAMED.findall(code)
    found = {name for _, name in named}
    planned = {name for name, rule in RULES.items() if rule.by is None}

    assert set() == found - (RULES.keys() | NOTES.keys())
    assert NOT_NAMED_SO == (planned | NOTES.keys()) - found
    assert set() == {name for how, name in named if how == "block"} - RULES.keys()


def without_subscriptions(group: Group) -> Group:
    unread = Subscription(unreadable="no idea")
    return replace(group, members=tuple(replace(m, subscription=unread) for m in group.members))


def without_commit_times(case: CheckContext) -> CheckContext:
    """Return a case right after its plan was made, in which no commit has a time."""
    commits = tuple(replace(commit, committed_at=None) for commit in case.facts.commits)
    groups = tuple(replace(group, empty_since=None) for group in case.facts.groups)
    facts = replace(case.facts, commits=commits, groups=groups)
    return replace(case, plan=replace(case.plan, made_at=NOON), facts=facts)


WITHOUT: dict[str, Callable[[CheckContext], CheckContext]] = {
    "cluster id": lambda case: replace(case, facts=replace(case.facts, cluster_id="")),
    "plan age": lambda case: replace(
        case, plan=replace(case.plan, made_at=NOON + timedelta(hours=1))
    ),
    "logs": lambda case: replace(case, facts=replace(case.facts, logs={})),
    "subscriptions": lambda case: replace(
        case, facts=replace(case.facts, groups=tuple(map(without_subscriptions, case.facts.groups)))
    ),
    "commit times": without_commit_times,
    "offsets topic": lambda case: replace(
        case, facts=replace(case.facts, problems=(Problem(Unread.COMMIT_TIMES, "no right"),))
    ),
    "sightings": lambda case: replace(case, seen=EarlierSightings()),
    "hold facts": lambda case: replace(case, hold_facts={}),
}


def cannot_tell(rule: str, case: CheckContext) -> bool:
    return any(
        finding.why.startswith("check not possible, unknown: ") for finding in found(rule, case)
    )


# Facts without which a rule cannot judge; the others are part of every plan and snapshot.
NEEDED = {
    "wrong-cluster": "cluster id",
    "stale-plan": "plan age",
    "subscribed": "subscriptions",
    "hidden-offsets": "offsets topic",
    "unsubscribed-too-briefly": "sightings",
    **dict.fromkeys(("keeps-committing", "empty-too-briefly"), "commit times"),
    **dict.fromkeys(("skips-unread-records", "before-log-start", "too-many-records"), "logs"),
    **{rule.name: "hold facts" for rule in HOLD_RULES if rule.name not in GROUP_RULES},
}


@pytest.mark.parametrize("rule", EXAMPLES)
def test_a_rule_blocks_without_the_facts_it_needs(rule: str) -> None:
    """Without such a fact it blocks with the reason; other facts it does without."""
    missing = {
        need
        for need, without in WITHOUT.items()
        for case in (EXAMPLES[rule].bad, EXAMPLES[rule].good)
        if not cannot_tell(rule, case) and cannot_tell(rule, without(case))
    }

    assert ({NEEDED[rule]} if rule in NEEDED else set()) == missing


# What no operator can override; everything else one can.
FINAL = {
    *("read-only", "wrong-cluster", "reason-required", "no-such-group", "group-exists"),
    *("no-such-partition", "topic-never-used", "moved-since", "no-row", "past-end"),
    *("group-live", "subscribed", "facts-moved", "share-group", "in-the-future"),
    *("topics-required", "protected-group", "empty-name"),
    *("group-kind", "group-empty", "not-stable", "custom-protocol", "unreadable-member"),
    *("whole-application", "not-subscribed", "nothing-assigned", "hold-too-long", "retention"),
    *("group-size", "another-hold"),
    *("group-not-allowed", "too-few-records", "empty-too-briefly", "unsubscribed-too-briefly"),
}
# These judge nothing that is approved by its fingerprint.
OF_APPROVALS = {
    *("group-not-allowed", "too-few-records", "empty-too-briefly", "unsubscribed-too-briefly"),
}
# A standing approval cannot override what its limits are about.
BY_HAND = {"too-many-groups", "too-many-partitions", "too-many-records"}
# Where one of these blocks, planning again does not help.
LASTING = {"read-only", "protected-group", "wrong-cluster"}


def test_no_rule_is_given_another_force_unseen() -> None:
    """The tests of overrides ask the registry itself which rules are final."""
    assert FINAL == registry.FINAL
    assert {name for name, rule in RULES.items() if rule.override is Override.BY_HAND} == BY_HAND
    assert {name for name, rule in RULES.items() if rule.only_standing} == OF_APPROVALS
    assert {name for name, rule in RULES.items() if rule.lasting} == LASTING


def test_no_rule_is_there_twice() -> None:
    """A second rule of a name would replace the first."""
    hold_rules = (*registry.HOLD_RULES, *registry.RESUME_RULES)
    tables = (*registry.EVALUATED_RULES, *hold_rules, *registry.PLANNED)

    assert len(tables) == len(RULES)
    assert not RULES.keys() & NOTES.keys()


def test_every_rule_and_note_has_a_sentence() -> None:
    """Help and documentation show it."""
    for name, text in {**{n: r.judges for n, r in RULES.items()}, **NOTES}.items():
        assert text[0].isupper(), name
        assert text.endswith("."), name
        assert 1 == text.count("."), name
