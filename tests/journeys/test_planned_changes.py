"""What copies, deletions and rescues read, plan and show; saved plans; known addresses."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from applications import Applications
from operators import Operator

from toolkit.errors import Blocked, FleetFileError, UsageError
from toolkit.journeys.cluster_access import ClusterAccess, cluster_at, find_clusters
from toolkit.journeys.copy import CopyRequest, copy
from toolkit.journeys.delete_offsets import OffsetChoice
from toolkit.journeys.reset import FromGroup, target
from toolkit.model import Cluster, Policy, TopicPartition
from toolkit.plan import ConclusionStatus, Intent
from toolkit.session import connect
from toolkit.spark.schemas import PROBLEMS
from toolkit.storage.state_folder import state_dir


@pytest.fixture
def two_idle(apps: Applications) -> tuple[str, str]:
    topic = apps.create_topic(apps.name("orders"), records=3)
    groups = apps.name("idle"), apps.name("other")
    for name in groups:
        apps.commit(name, {TopicPartition(topic, 0): 1})
    return groups


def test_with_an_age_only_the_named_groups_are_shown(
    operator: Operator, two_idle: tuple[str, str]
) -> None:
    """The whole cluster is read for the age, but the other groups are not shown."""
    group, other = two_idle

    change = operator.session.delete_groups([group], empty_for="1d")

    assert [group] == [found.group_id for found in change.facts.groups]
    assert {group, other} <= {commit.group_id for commit in change.facts.commits}


def test_a_named_group_is_read_though_it_is_ignored_elsewhere(
    operator: Operator, two_idle: tuple[str, str]
) -> None:
    """It was reported as missing."""
    group, other = two_idle
    session = operator.with_policy(ignored_groups=(group, other)).session

    change = session.delete_groups([group], empty_for="1d")
    found = session.unsubscribed([group, "nobody"])

    assert [group] == [found.group_id for found in change.facts.groups]
    names = {found.group_id for found in found.facts.groups}
    assert (True, False) == (group in names, other in names)
    assert ["nobody"] == [one.group_id for one in found.facts.problems]


@pytest.fixture
def stem(apps: Applications) -> str:
    """Return how the names of three groups begin: one is idle, one to be protected, one live."""
    topic, stem = apps.create_topic(apps.name("orders"), records=3), apps.name("stem")
    for name in (f"{stem}-idle", f"{stem}-kept"):
        apps.commit(name, {TopicPartition(topic, 0): 1})
    apps.join(f"{stem}-live", [topic])
    return stem


def test_a_pattern_deletes_groups_that_can_be_deleted(operator: Operator, stem: str) -> None:
    """A live and a protected group stay and do not block, unless they are named."""
    idle, kept, live = (f"{stem}-{word}" for word in ("idle", "kept", "live"))
    session = operator.with_policy(protected_groups=(kept,)).session

    change = session.delete_groups([f"{stem}-*"])

    assert ((idle,), {kept, live}) == (
        change.plan.group_ids,
        {found.group_id for found in change.findings if found.rule == "left-out"},
    )
    decision = change.decide(dry_run=False, approve=change.fingerprint, reason="a test")
    assert ((), True) == (decision.blocked_by, decision.apply().is_done)
    there = {group.group_id for group in operator.look(f"{stem}-*").groups}
    assert {kept, live} == there

    for name, rule in ((kept, "protected-group"), (live, "group-live")):
        named = session.delete_groups([f"{stem}-*", name]).decide()
        assert (rule,) == named.blocked_by


def test_groups_that_can_be_deleted_are_listed(operator: Operator, stem: str) -> None:
    """Empty groups can be chosen, with their expiry; the others have the reason why not."""
    idle, kept, live = (f"{stem}-{word}" for word in ("idle", "kept", "live"))
    session = operator.with_policy(protected_groups=(kept,)).session

    found = session.deletable_groups()

    rows = found.rows.set_index("group")
    assert (True, False, False) == (idle in rows.index, kept in rows.index, live in rows.index)
    (commit,) = (c for c in operator.facts(idle).commits if c.group_id == idle)
    assert commit.committed_at
    left = rows["offsets expire about"][idle] - commit.committed_at
    assert left.total_seconds() > 0
    why = found.others.set_index("group")["why"]
    assert f"protected by the fleet file ({kept})" == why[kept]
    assert why[live].startswith("group is ")
    assert not len(session.deletable_groups([idle]).rows)


DOWN = Cluster("eu", "127.0.0.1:1")  # where nobody may listen but root, and nobody does


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"group": ""}, "no group selected"),
        ({"group": ["g", "h"]}, "a copy is of one group, and groups has 2: g, h"),
        ({"group": "g", "by": "size"}, "unknown value 'size' for the offsets of a mirror"),
        ({"group": "g", "topics": ["a b"]}, "'a b' does not begin with the name of a topic"),
        ({"group": "g"}, "no other name for group 'g' is given"),
        (
            {"group": "g", "to_group": "h", "topic_prefix": "eu."},
            "a prefix of topics is for a copy to another cluster",
        ),
    ],
)
def test_invalid_copies_are_refused(asked: dict[str, Any], says: str) -> None:
    """Each mistake is named; the cluster, which is down, would be another error."""
    with pytest.raises(UsageError) as caught:
        copy(ClusterAccess(DOWN, Path("nowhere")), CopyRequest(**asked))

    assert says == caught.value.problem
    assert caught.value.hint


def vanishing(*rows: tuple[str, str], unread: str = "") -> Any:
    """Return a forecast of these clusters and groups, perhaps of a cluster not all of which."""
    found = pd.DataFrame(list(rows), columns=["cluster", "group"])
    rows = [(unread, "commit times: denied")] if unread else []
    frames = SimpleNamespace(problems=pd.DataFrame(rows, columns=PROBLEMS.names))
    return SimpleNamespace(found=SimpleNamespace(rows=found), fleet=SimpleNamespace(frames=frames))


def test_the_groups_that_lose_offsets_are_rescued(operator: Operator, apps: Applications) -> None:
    """All of the forecast of that cluster, which may be none, or those that are named."""
    topic = apps.create_topic(apps.name("rescued"), records=3)
    wild, other = apps.name("wild*"), apps.name("wild-too")
    for group in (wild, other, wild.replace("*", "card")):
        apps.commit(group, {TopicPartition(topic, 0): 1})
    here = operator.cluster.name
    expired = apps.name("expired-since")
    forecast = vanishing((here, wild), (here, expired), ("elsewhere", other))

    change = operator.session.rescue(forecast=forecast)

    assert (Intent.RESCUE, (wild,)) == (change.plan.intent, change.plan.group_ids)
    assert [wild] == [group.group_id for group in change.facts.groups]
    assert [(expired, False)] == [(found.group_id, found.blocks) for found in change.findings]
    named = operator.session.rescue([other], forecast=vanishing())
    assert (other,) == named.plan.group_ids
    nothing = operator.session.rescue(forecast=vanishing(("elsewhere", "g")))
    assert ((), "rescue nothing: no offset expires") == (nothing.plan.steps, nothing.plan.request)
    assert change.is_whole
    assert nothing.is_whole


def test_an_incomplete_forecast(operator: Operator) -> None:
    """Unread offsets may expire: it does not report that there are none."""
    here = operator.cluster.name

    change = operator.session.rescue(forecast=vanishing(unread=here))
    ended = change.decide(dry_run=False).apply()

    assert "rescue nothing: no offset is known to expire" == change.plan.request
    (told,) = change.plan.findings
    assert "the forecast has 1 read error, such as commit times: denied" == told.why
    assert ConclusionStatus.INCOMPLETE == ended.ending
    assert operator.session.rescue(forecast=vanishing(unread="elsewhere")).is_whole


@pytest.mark.parametrize("written", ['""', ""])
def test_offsets_are_taken_from_the_group_with_the_empty_name(written: str) -> None:
    """It is written in quotes where an empty text means nothing, as other names of groups are."""
    assert FromGroup("") == target("from-group", written).target


def test_a_change_is_on_one_cluster(tmp_path: Path) -> None:
    """On several clusters a change is refused before any is asked."""
    with pytest.raises(UsageError, match="a change is on one cluster, and 2 were chosen"):
        connect(["eu", "us"], tmp_path / "fleet.yaml")


def test_a_saved_move_of_nothing_has_nothing_to_do(
    operator: Operator, apps: Applications, tmp_path: Path
) -> None:
    """Where all offsets were where they were to go, its file is applied without a change."""
    topic, group = apps.create_topic(apps.name("orders"), records=3), apps.name("payments")
    operator.commit(group, {TopicPartition(topic, 0): 0})
    apps.join(group, [topic])
    change = operator.session.move(group, to=target("to-current"))
    assert ("move", ()) == (change.plan.intent, change.plan.steps)

    saved = operator.session.saved_change(change.save(tmp_path / "plan.json"))

    assert "nothing to do" == saved.decide(dry_run=False).message


KNOWN = {
    "broker.example:9092": "eu",
    "PLAINTEXT://broker.example:9092": "eu",
    "Broker.Example:09092": "eu",
    "other:1, broker.example:9092": "eu",
    "[::1]:9092": "us",
    "::1:9092": "us",
    "EXTERNAL://[0:0::1]:9092": "us",
    "broker.example:9093": "",
    "broker.example": "",
}


@pytest.mark.parametrize("servers", KNOWN)
def test_a_known_address_has_its_policy(servers: str, tmp_path: Path) -> None:
    """The policy of a cluster holds also where its address is written in another way."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        "clusters:\n  eu: {bootstrap.servers: 'broker.example:9092', read_only: true}\n"
        "  us: {bootstrap.servers: '::1:9092', read_only: true}\n"
    )
    found = cluster_at(servers, fleet)

    assert (KNOWN[servers] or servers) == found.name
    assert bool(KNOWN[servers]) == found.policy.read_only


@pytest.mark.parametrize(
    ("since", "says"),
    [
        ("    read_only: true", "marked read_only"),
        ("    protected_groups: ['*']", "protected-group"),
        ("    limits: {max_groups: 0}", "max_groups is 0"),
        (
            "    read_only: perhaps",
            "what may be changed on eu is not known: .*must be true or false",
        ),
        ("eu: {}", "what may be changed on eu is not known"),
    ],
)
def test_a_policy_counts_that_is_stricter_by_now(
    operator: Operator, two_idle: tuple[str, str], tmp_path: Path, since: str, says: str
) -> None:
    """A notebook may have been open since before the incident for which a cluster is protected."""
    group, fleet = two_idle[0], tmp_path / "fleet.yaml"
    servers = operator.cluster.bootstrap_servers
    fleet.write_text(entry := f"clusters:\n  eu:\n    bootstrap.servers: {servers}\n")
    change = connect("eu", fleet, tmp_path / "state").delete_groups([group])
    approval = {
        "approve": change.fingerprint,
        "reason": "a test",
        "overrides": ["keeps-committing"],
    }
    decision = change.decide(dry_run=False, **approval)
    fleet.write_text(entry + since)

    with pytest.raises(Blocked, match=says):
        decision.apply()
    assert {group} == operator.held(group).keys()


def test_a_policy_that_is_less_strict_by_now_does_not_count(tmp_path: Path) -> None:
    """The stricter of both does, of each of its parts."""
    fleet = tmp_path / "fleet.yaml"
    entry = (
        "clusters: {{eu: {{bootstrap.servers: 'eu:1', reason: {}, {}: [g], limits: {{{}: 3}}}}}}"
    )
    fleet.write_text(entry.format("required", "protected_groups", "max_groups"))
    access = ClusterAccess.named("eu", fleet, tmp_path)
    fleet.write_text(entry.format("optional", "ignored_groups", "max_partitions"))

    expected = Policy(protected_groups=("g",), max_groups=3, max_partitions=3)
    assert expected == access.under_policy("id").policy


def test_the_policy_of_an_address_that_is_in_the_fleet_file_now(tmp_path: Path) -> None:
    """The cluster was named by its address before the fleet file had it."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("clusters: {us: {bootstrap.servers: 'us:1'}}")
    access = ClusterAccess.named("eu:1", fleet, tmp_path)
    assert not access.under_policy("id").policy.read_only
    fleet.write_text("clusters: {eu: {bootstrap.servers: 'eu:1', read_only: true}}")

    assert access.under_policy("id").policy.read_only


def test_a_policy_counts_that_a_cluster_of_the_same_id_has_by_now(
    operator: Operator, tmp_path: Path
) -> None:
    """Another address of it is in the fleet file; each time the file is read as it is."""
    servers, fleet = operator.cluster.bootstrap_servers, tmp_path / "fleet.yaml"
    entry = (
        f"clusters:\n  eu:\n    bootstrap.servers: {servers.replace('127.0.0.1', 'localhost')}\n"
    )
    fleet.write_text(entry)
    access = ClusterAccess.named(servers, fleet, tmp_path)
    cluster_id = operator.look("none").cluster_id
    assert Policy() == access.under_policy(cluster_id).policy
    for policy in (Policy(max_groups=7), Policy(max_groups=3)):
        fleet.write_text(f"{entry}    limits: {{max_groups: {policy.max_groups}}}\n")

        assert policy == access.under_policy(cluster_id).policy


def test_a_cluster_counts_once(tmp_path: Path) -> None:
    """By its name, its address, or one of its addresses: it would be read, and summed, twice."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("clusters: {eu: {bootstrap.servers: 'b1:9092,b2:9092'}}")
    names = ["b2:9092", "eu", "other:9092", "b1:9092", "eu", "other:9092"]

    assert ["eu", "other:9092"] == [cluster.name for cluster in find_clusters(names, fleet)]


def test_a_fleet_file_that_is_not_trusted_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster given by address would lose its limits, and changes their common lock and log."""
    monkeypatch.chdir(tmp_path)
    for variable in ("OFFSETBOOK_FLEET", "OFFSETBOOK_STATE"):
        monkeypatch.delenv(variable, raising=False)
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("clusters: {eu: {bootstrap.servers: 'broker.example:9092', read_only: true}}")
    assert cluster_at("broker.example:9092", None).policy.read_only
    fleet.chmod(0o666)

    for use in (partial(cluster_at, "broker.example:9092", None), state_dir):
        with pytest.raises(FleetFileError, match="was found, but not used"):
            use()
    assert "other.example:9092" == cluster_at("other.example:9092", fleet).name


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"topics": ["t"], "unsubscribed": True}, "exclude each other"),
        ({"seen_in_runs": 3}, "is a condition of unsubscribed"),
        ({"unsubscribed": True, "seen_in_runs": -3}, "seen_in_runs is -3"),
    ],
)
def test_which_offsets_is_clear(asked: dict[str, Any], why: str) -> None:
    """A slip of the sign does not lift the condition on how often offsets were seen."""
    with pytest.raises(UsageError, match=why):
        OffsetChoice(**asked)
