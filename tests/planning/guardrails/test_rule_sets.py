"""Which rules there are, and which of them an operator may override: written out by hand."""

from __future__ import annotations

from toolkit.planning.guardrails import registry

JUDGED = {
    *("read-only", "wrong-cluster", "protected-group", "reason-required", "stale-plan"),
    *("no-such-group", "share-group", "group-live", "subscribed", "facts-moved"),
    *("topic-made-anew", "keeps-committing", "pending-transaction", "topic-never-used"),
    *("skips-unread-records", "before-log-start", "last-offsets", "not-undoable"),
    *("hidden-offsets", "too-many-groups", "too-many-partitions", "too-many-records"),
    *("group-not-allowed", "empty-too-briefly", "unsubscribed-too-briefly", "unreadable"),
    *("group-kind", "group-empty", "not-stable", "custom-protocol", "unreadable-member"),
}
OVERRIDABLE = {
    *("stale-plan", "topic-made-anew", "keeps-committing", "pending-transaction"),
    *("topic-never-used", "skips-unread-records", "before-log-start", "last-offsets"),
    *("not-undoable", "hidden-offsets", "unreadable"),
    *("too-many-groups", "too-many-partitions", "too-many-records"),
    *("missing-partition", "no-leader", "moved-since", "other-cluster", "no-row", "past-end"),
    *("cut-off-run", "foreign-hold", "no-committed-offset", "other-end", "releases-more"),
}
FINAL = {
    *("read-only", "wrong-cluster", "reason-required", "no-such-group", "group-exists"),
    *("group-live", "subscribed", "facts-moved", "share-group", "in-the-future"),
    *("topics-required", "protected-group"),
    *("group-kind", "group-empty", "not-stable", "custom-protocol", "unreadable-member"),
    *("streams-share", "not-subscribed", "nothing-assigned", "hold-too-long", "retention"),
    *("group-size", "another-hold"),
    *("group-not-allowed", "empty-too-briefly", "unsubscribed-too-briefly"),
}
OF_APPROVALS = {"group-not-allowed", "empty-too-briefly", "unsubscribed-too-briefly"}
BY_HAND = {"too-many-groups", "too-many-partitions", "too-many-records"}


def test_the_rules_are_these() -> None:
    """No rule was lost, and none was added without saying so here."""
    assert registry.RULES.keys() == JUDGED
    assert registry.RULES.keys() | registry.PLANNED_WITHOUT | registry.FINAL == OVERRIDABLE | FINAL


def test_the_rules_that_an_operator_may_override_are_these() -> None:
    """What could not be overridden cannot be overridden now, and the other way round."""
    assert registry.OVERRIDABLE == OVERRIDABLE
    assert registry.FINAL == FINAL


def test_the_rules_that_only_a_fingerprint_may_override_are_these() -> None:
    """A standing approval cannot override what its limits are about."""
    assert registry.LIMITING == BY_HAND


def test_the_rules_of_standing_approvals_are_these() -> None:
    """They judge nothing that is approved by its fingerprint."""
    assert registry.OF_APPROVALS == OF_APPROVALS
