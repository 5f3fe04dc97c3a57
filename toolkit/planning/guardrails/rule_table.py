"""The rules that judge a plan by the facts: who may change what, what is lost, how much at once."""

from __future__ import annotations

from toolkit.plan import Intent
from toolkit.planning.guardrails import group_rules, loss_rules, policy_rules, standing_rules
from toolkit.planning.guardrails.check_context import AIMED, NEW_OFFSETS, Needs
from toolkit.planning.guardrails.rule import ANY, Override, Rule

NEVER, BY_HAND = Override.NEVER, Override.BY_HAND
OF_OFFSETS = ANY - {Intent.PAUSE, Intent.RESUME}  # those two only change who reads
OFFSETS_GO = frozenset({Intent.DELETE_OFFSETS, Intent.UNDO})
GROUPS_GO = frozenset({Intent.DELETE_GROUPS, Intent.RENAME, Intent.UNDO})

CLUSTER_RULES = (
    Rule(
        "read-only",
        "The fleet file does not call the cluster read-only.",
        policy_rules.read_only,
        override=NEVER,
        lasting=True,
    ),
    Rule(
        "wrong-cluster",
        "The plan was made for this cluster.",
        group_rules.wrong_cluster,
        override=NEVER,
        needs=Needs.CLUSTER_ID,
        lasting=True,
    ),
    Rule(
        "protected-group",
        "The fleet file does not protect the group.",
        policy_rules.protected_group,
        override=NEVER,
        lasting=True,
    ),
    Rule(
        "reason-required",
        "The approval gives a reason, or the fleet file makes it optional.",
        policy_rules.reason_required,
        override=NEVER,
    ),
    Rule(
        "stale-plan",
        "The plan is younger than an hour.",
        policy_rules.stale_plan,
        needs=Needs.PLAN_AGE,
    ),
)
GROUP_STATE_RULES = (
    Rule(
        "no-such-group",
        "The group exists, unless the request creates it.",
        group_rules.no_such_group,
        override=NEVER,
    ),
    Rule(
        "share-group",
        "The group is not a share group, unless the plan deletes it.",
        group_rules.share_group,
        override=NEVER,
        intents=ANY - {Intent.DELETE_GROUPS},
    ),
    Rule(
        "group-live",
        "The group has no members, or nobody reads the partitions that change.",
        group_rules.group_live,
        override=NEVER,
        intents=OF_OFFSETS,
    ),
    Rule(
        "subscribed",
        "No member subscribes to a topic whose committed offsets the plan deletes.",
        group_rules.subscribed,
        override=NEVER,
        needs=Needs.SUBSCRIPTIONS,
        intents=OFFSETS_GO,
    ),
    Rule(
        "facts-moved",
        "Groups and committed offsets are as they were when the plan was made.",
        group_rules.facts_moved,
        override=NEVER,
    ),
    Rule(
        "topic-recreated",
        "The topic was not deleted and created again since its offsets were read.",
        group_rules.topic_recreated,
    ),
    Rule(
        "keeps-committing",
        "Nobody commits for a group that has no members.",
        group_rules.keeps_committing,
        needs=Needs.COMMIT_TIMES,
        intents=OF_OFFSETS,
    ),
    Rule(
        "pending-transaction",
        "No open transaction is about to commit an offset that the plan changes or copies.",
        group_rules.pending_transaction,
        intents=OF_OFFSETS,
    ),
    Rule(
        "topic-never-used",
        "The group has committed the topic before, or the request allows new topics.",
        group_rules.topic_never_used,
        override=NEVER,
        instead="allow new topics: --new-topics, or new_topics=True in a notebook",
        intents=NEW_OFFSETS | {Intent.COPY},
    ),
)
LOSS_RULES = (
    Rule(
        "skips-unread-records",
        "The plan skips no record that the group has not read.",
        loss_rules.skips_unread_records,
        needs=Needs.LOGS,
        intents=AIMED,
    ),
    Rule(
        "before-log-start",
        "The records asked for still exist, and every new offset is in its log.",
        loss_rules.before_log_start,
        needs=Needs.LOGS,
        intents=AIMED,
    ),
    Rule(
        "last-offsets",
        "The group keeps at least one committed offset.",
        loss_rules.last_offsets,
        intents=OFFSETS_GO,
    ),
    Rule(
        "not-undoable",
        "An undo can restore everything that the plan deletes.",
        loss_rules.not_undoable,
        intents=GROUPS_GO,
    ),
    Rule(
        "hidden-offsets",
        "Every committed offset that is deleted with a group was visible.",
        loss_rules.hidden_offsets,
        needs=Needs.OFFSETS_TOPIC,
        intents=GROUPS_GO,
    ),
)
LIMIT_RULES = (
    Rule(
        "too-many-groups",
        "The plan changes no more groups than max_groups.",
        policy_rules.too_many_groups,
        override=BY_HAND,
    ),
    Rule(
        "too-many-partitions",
        "The plan changes no more committed offsets than max_partitions.",
        policy_rules.too_many_partitions,
        override=BY_HAND,
    ),
    Rule(
        "too-many-records",
        "The plan skips and repeats no more records than max_records_skipped and "
        "max_records_repeated.",
        loss_rules.too_many_records,
        override=BY_HAND,
        needs=Needs.LOGS,
        intents=AIMED,
    ),
)
STANDING_RULES = (
    Rule(
        "group-not-allowed",
        "The standing approval is for this group.",
        standing_rules.group_not_allowed,
        override=NEVER,
        only_standing=True,
    ),
    Rule(
        "empty-too-briefly",
        "Nobody has used the group for as long as the standing approval says.",
        standing_rules.empty_too_briefly,
        override=NEVER,
        needs=Needs.COMMIT_TIMES,
        only_standing=True,
    ),
    Rule(
        "unsubscribed-too-briefly",
        "The topic was seen unsubscribed for as long, and in as many runs, as the standing "
        "approval says.",
        standing_rules.unsubscribed_too_briefly,
        override=NEVER,
        needs=Needs.SIGHTINGS,
        only_standing=True,
    ),
)
EVALUATED_RULES = (
    *(*CLUSTER_RULES, *GROUP_STATE_RULES, *LOSS_RULES, *LIMIT_RULES, *STANDING_RULES),
    Rule(
        "unreadable", "Everything that the plan depends on could be read.", group_rules.unreadable
    ),
)
