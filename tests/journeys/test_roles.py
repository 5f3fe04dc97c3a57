"""What the users of docs/acls.md may do, on a real broker that judges them."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from applications import Applications, eventually
from secured import Secured, add_scram_user

import toolkit as ob
from toolkit.errors import BrokerRefused
from toolkit.journeys.delete_offsets import OffsetChoice
from toolkit.kafka_io.logs.records_around import read_records_around
from toolkit.sandbox.roles import ROLES

PAGE = Path(__file__).parents[2] / "docs" / "acls.md"
# The changes that each role may make; it is refused all others.
MAY = {
    "viewer": set[str](),
    "pipeline": {"delete_offsets", "delete_groups"},
    "operator": {
        *("delete_offsets", "delete_groups", "reset", "copy", "restore", "rescue"),
        *("pause", "move"),
    },
}
NEEDS = {"delete_offsets": "Delete", "delete_groups": "Delete"}  # any other change: Read
EMPTY_GROUP: dict[str, Callable[[ob.Session, str], Any]] = {
    "copy": lambda session, group: session.copy(ob.CopyRequest(group, f"{group}-copy")),
    "delete_groups": lambda session, group: session.delete_groups([group]),
    "delete_offsets": lambda session, group: session.delete_offsets(
        [group], OffsetChoice(all_topics=True)
    ),
    "rescue": lambda session, group: session.rescue([group]),
    "restore": lambda session, group: session.restore(
        session.export([group])[0], into=f"{group}-restored"
    ),
    "reset": lambda session, group: session.reset([group], to=ob.target("to-earliest")),
}
REBALANCING = {"not-stable", "not-subscribed", "nothing-assigned", "unreadable-member"}
LIVE_GROUP: dict[str, Callable[[ob.Session, str, str], Any]] = {
    "pause": lambda session, group, topic: session.pause(group, [f"{topic}:0"]),
    "move": lambda session, group, topic: session.move(
        [group], to=ob.target("to-earliest"), topics=[f"{topic}:0"]
    ),
}


@pytest.fixture
def as_role(secured: Secured, tmp_path: Path) -> Callable[[str], ob.Session]:
    return lambda role: ob.Session(secured.role(role), tmp_path / role)


def applied_at_rest(plan: Callable[[], Any]) -> tuple[str, str]:
    """Apply a plan; while the group rebalances, plan and try again, as the refusal says."""

    def tried() -> list[tuple[str, str]]:
        change = plan()
        blocks = {finding.rule for finding in change.findings if finding.blocks}
        if not blocks.isdisjoint(REBALANCING):
            return []
        status, why = applied(change)
        return [] if "run the command again" in why else [(status, why)]

    return eventually(tried)[0]


def applied(change: Any) -> tuple[str, str]:
    """Apply a change; return how it ended, and why not where it was refused."""
    overrides = [finding.rule for finding in change.findings if finding.blocks]
    decision = change.decide(
        dry_run=False, approve=change.fingerprint, reason="a test", overrides=overrides
    )
    outcome = decision.apply().outcome
    (result,) = {(result.status, result.why) for step in outcome.steps for result in step.results}
    return str(result[0]), result[1]


def test_the_page_lists_the_acls_of_the_roles() -> None:
    """The table of the page is what the users are given."""
    rows = re.findall(
        r"^\| (\w+) \| ([A-Z_]+) \| (\S+) \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )

    assert rows == [
        (role, rule.resource, rule.name, ", ".join(rule.operations))
        for role, rules in ROLES.items()
        for rule in rules
    ]


@pytest.mark.parametrize("role", ROLES)
def test_each_role_reads_everything_but_the_viewer_no_records(
    role: str,
    as_role: Callable[[str], ob.Session],
    secured: Secured,
    applications: Callable[[ob.Cluster], Applications],
) -> None:
    """Lag with commit times has no read error; records are refused to the viewer."""
    apps = applications(secured.plain)
    topic = apps.create_topic(apps.name("read"), records=3)
    group = apps.name("read-group")
    apps.commit(group, {ob.TopicPartition(topic, 0): 1})
    session = as_role(role)

    facts = session.lag([group], commit_times=True).facts
    records = read_records_around(session.cluster, {ob.TopicPartition(topic, 0): 1})

    assert () == facts.problems
    assert [True] == [commit.committed_at is not None for commit in facts.commits]
    assert {"viewer": 0}.get(role, 3) == len(records.records)
    missing = "the ACL Read on the topic is missing (TOPIC_AUTHORIZATION_FAILED, code 29)"
    assert {"viewer": [missing]}.get(role, []) == [problem.why for problem in records.problems]


def test_changes_by_role(
    as_role: Callable[[str], ob.Session],
    secured: Secured,
    applications: Callable[[ob.Cluster], Applications],
) -> None:
    """Allowed roles make a change; others are refused, with the ACL that is missing."""
    apps = applications(secured.plain)
    topic = apps.create_topic(apps.name("changed"), records=3)
    cases = [(role, verb, apps.name("changed-group")) for role in MAY for verb in EMPTY_GROUP]
    for _, _, group in cases:
        apps.commit(group, {ob.TopicPartition(topic, 0): 1})
    sessions = {role: as_role(role) for role in MAY}
    # All plans before the first is applied: each has to be some seconds old by then.
    plans = [(role, verb, EMPTY_GROUP[verb](sessions[role], group)) for role, verb, group in cases]
    for role, verb, plan in plans:
        status, why = applied(plan)

        assert ("done" if verb in MAY[role] else "refused") == status, (role, verb, why)
        assert verb in MAY[role] or f"the ACL {NEEDS.get(verb, 'Read')} on the group" in why


def test_a_picker_reports_hidden_groups(
    secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an ACL no group is listed, which must not look like an empty cluster."""
    (password := tmp_path / "password").write_text("nobody's")
    add_scram_user(secured, tmp_path.name, password.read_text())
    role = secured.role("viewer")
    login = {"sasl.username": tmp_path.name, "sasl.password": f"${{file:{password}}}"}
    session = ob.Session(replace(role, settings={**role.settings, **login}), tmp_path)
    missing = "the ACL Describe on Cluster is missing"
    board = session.board("payments")

    def tiles() -> list[int]:
        with suppress(BrokerRefused):  # the broker may know of the user a moment later
            return [len(board())]
        return []

    assert [0] == eventually(tiles)
    session.choices()
    session.deletable_groups()

    assert any(missing in why for why in board.not_read())
    assert 2 <= capsys.readouterr().out.count(missing)


@pytest.mark.live("consumers run")
def test_only_the_operator_role_pauses_and_moves_a_live_group(
    as_role: Callable[[str], ob.Session], secured: Secured, live_group: Any
) -> None:
    """Partitions of a live group are the operator's alone."""
    live = live_group(secured.plain, "librdkafka-range")
    (topic,) = live.topics
    for role, may in MAY.items():
        for verb, plan in LIVE_GROUP.items():
            session = as_role(role)
            make = partial(plan, session, live.group, topic)
            status, why = applied_at_rest(make)
            if status == "done" and verb == "pause":
                applied(session.resume(live.group))

            assert ("done" if verb in may else "refused") == status, (role, why)
            assert verb in may or "the ACL Read on the group is missing" in why
