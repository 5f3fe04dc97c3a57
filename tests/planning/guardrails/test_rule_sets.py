"""Which rules there are, and which of them an operator may override: written out by hand."""

from __future__ import annotations

from toolkit.planning.guardrails import registry
from toolkit.planning.guardrails.registry import RULES
from toolkit.planning.guardrails.rule import Override

OVERRIDABLE = {
    *("stale-plan", "topic-recreated", "keeps-committing", "pending-transaction"),
    *("skips-unread-records", "before-log-start", "last-offsets"),
    *("not-undoable", "hidden-offsets", "unreadable"),
    *("too-many-groups", "too-many-partitions", "too-many-records"),
    *("missing-partition", "no-leader", "other-cluster"),
    *("cut-off-run", "foreign-hold", "no-committed-offset", "other-end", "releases-more"),
    "assignor-differs",
}
# An override would only leave out what was asked for; something else does it.
WITH_ANOTHER_WAY = {"topic-never-used", "moved-since", "no-row", "past-end"}
FINAL = {
    *("read-only", "wrong-cluster", "reason-required", "no-such-group", "group-exists"),
    *("no-such-partition", *WITH_ANOTHER_WAY),
    *("group-live", "subscribed", "facts-moved", "share-group", "in-the-future"),
    *("topics-required", "protected-group"),
    *("group-kind", "group-empty", "not-stable", "custom-protocol", "unreadable-member"),
    *("whole-application", "not-subscribed", "nothing-assigned", "hold-too-long", "retention"),
    *("group-size", "another-hold"),
    *("group-not-allowed", "empty-too-briefly", "unsubscribed-too-briefly"),
}
# These judge nothing that is approved by its fingerprint.
OF_APPROVALS = {"group-not-allowed", "empty-too-briefly", "unsubscribed-too-briefly"}
# A standing approval cannot override what its limits are about.
BY_HAND = {"too-many-groups", "too-many-partitions", "too-many-records"}
# Where one of these blocks, planning again does not help.
LASTING = {"read-only", "protected-group", "wrong-cluster"}
PLANNED = {
    *("missing-partition", "no-leader", "moved-since", "other-cluster", "no-row", "past-end"),
    *("cut-off-run", "foreign-hold", "releases-more", "no-such-partition"),
    *("group-exists", "in-the-future", "topics-required"),
}


def test_the_rules_are_these() -> None:
    """No rule was lost, and none was added without saying so here."""
    assert RULES.keys() == OVERRIDABLE | FINAL
    assert {name for name, rule in RULES.items() if rule.by is None} == PLANNED


def test_the_rules_that_an_operator_may_override_are_these() -> None:
    """What could not be overridden cannot be overridden now, and the other way round."""
    assert registry.OVERRIDABLE == OVERRIDABLE
    assert registry.FINAL == FINAL


def test_the_rules_with_a_special_force_are_these() -> None:
    """Rules overridden by hand only, rules of standing approvals, and rules no new plan passes."""
    assert {name for name, rule in RULES.items() if rule.override is Override.BY_HAND} == BY_HAND
    assert {name for name, rule in RULES.items() if rule.only_standing} == OF_APPROVALS
    assert {name for name, rule in RULES.items() if rule.lasting} == LASTING
    assert {name for name, rule in RULES.items() if rule.instead} == WITH_ANOTHER_WAY


def test_no_rule_is_there_twice() -> None:
    """A second rule of a name would replace the first."""
    tables = (*registry.EVALUATED_RULES, *registry.HOLD_RULES, *registry.PLANNED)

    assert len(tables) == len(RULES)
    assert not RULES.keys() & registry.NOTES.keys()


def test_every_rule_and_note_says_in_one_sentence_what_it_is_about() -> None:
    """Help and documentation can show it."""
    for name, text in {**{n: r.judges for n, r in RULES.items()}, **registry.NOTES}.items():
        assert text[0].isupper(), name
        assert text.endswith("."), name
        assert 1 == text.count("."), name
