"""Groups whose name is empty, blank or a dash, which brokers accept commits for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml
from applications import Applications
from operators import Operator
from terminal import talk

from toolkit.journeys.copy import CopyRequest
from toolkit.model import TopicPartition
from toolkit.session import Session
from widgets.group_picker import group_picker

NAMES = {"": '""', " ": '" "', "-": '"-"', "\N{EN DASH}": '"\N{EN DASH}"'}
Command = Callable[..., CompletedProcess[str]]


@pytest.fixture
def place(operator: Operator, apps: Applications) -> Iterator[TopicPartition]:
    """Return a partition that groups without a clear name have read."""
    place = TopicPartition(apps.create_topic(apps.name("orders"), records=9), 0)
    for name in NAMES:
        operator.commit(name, {place: 7})
    yield place
    for name in NAMES:
        apps.admin.delete_consumer_groups([name])[name].exception()


@pytest.fixture
def fleet(operator: Operator, tmp_path: Path) -> Path:
    """Return a fleet file that knows the cluster as `test`."""
    return fleet_of(operator, tmp_path, protected_groups=[])


def fleet_of(operator: Operator, folder: Path, **policy: object) -> Path:
    """Write a fleet file with the one cluster."""
    cluster = {"bootstrap.servers": operator.cluster.bootstrap_servers, **policy}
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump({"clusters": {"test": cluster}}))
    return path


def at(operator: Operator, name: str, place: TopicPartition) -> int | None:
    """Return what a group has committed."""
    position = operator.held(name).get(name, {}).get(place)
    return position.offset if position else None


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("reset", "--to-offset", "3"), ""),
        (("reset", "--to-offset", "3"), "-"),
        (("delete-groups",), " "),
    ],
)
def test_something_has_to_be_typed(
    operator: Operator, place: TopicPartition, fleet: Path, words: tuple[str, ...], name: str
) -> None:
    """Enter alone, and the name without quotes, change nothing; the name in quotes does."""
    command = (*words, "--cluster", "test", "--group", name, "--reason", "a test")
    for typed in {"", name.strip()}:
        code, seen = talk(command, fleet, says=[("to apply this", typed)])
        assert (3, 7) == (code, at(operator, name, place)), seen
    assert f"Type '{NAMES[name]}' to apply this" in seen

    code, seen = talk(command, fleet, says=[("to apply this", NAMES[name])])

    changed = 3 if words[0] == "reset" else None
    assert (0, changed) == (code, at(operator, name, place)), seen


def test_kafka_flags(operator: Operator, place: TopicPartition, fleet: Path) -> None:
    """The same with the flags of Kafka's tool."""
    where = ("--bootstrap-server", operator.cluster.bootstrap_servers, "--delete", "--group", "")
    command = ("consumer-groups", *where, "--reason", "a test")
    code, seen = talk(command, fleet, says=[("to apply this", "")])
    assert (3, 7) == (code, at(operator, "", place)), seen

    code, seen = talk(command, fleet, says=[("to apply this", '""')])

    assert (0, None) == (code, at(operator, "", place)), seen


@pytest.mark.usefixtures("place")
def test_tables_and_sentences_have_names(fleet: Path, offsetbook_main: Command) -> None:
    """Names are in quotes for people, and as they are in JSON."""
    options = [word for name in NAMES for word in ("--group", name)]
    shown = offsetbook_main("lag", "--cluster", "test", *options, fleet=fleet)
    data = offsetbook_main("lag", "--cluster", "test", *options, "--output", "json", fleet=fleet)
    reset = ("reset", "--cluster", "test", "--to-offset", "3", "--dry-run", "--group")
    plan = offsetbook_main(*reset, "", fleet=fleet)

    assert 0 == shown.returncode == data.returncode == plan.returncode, shown.stderr + plan.stderr
    assert all(f" {name} " in shown.stdout for name in NAMES.values())
    assert set(NAMES) == {row["group"] for row in json.loads(data.stdout)}
    assert 'reset "" to-offset 3' in plan.stderr


@pytest.mark.usefixtures("place")
def test_protected(operator: Operator, tmp_path: Path, offsetbook_main: Command) -> None:
    """The fleet file can protect the empty name, and says so; other names are not protected."""
    fleet = fleet_of(operator, tmp_path, protected_groups=[""])
    reset = ("reset", "--cluster", "test", "--to-offset", "3", "--dry-run", "--group")
    blocked = offsetbook_main(*reset, "", fleet=fleet)

    assert 3 == blocked.returncode
    assert 'protected-group: "": protected by the fleet file (protected_groups: "")' in (
        blocked.stderr
    )
    assert 0 == offsetbook_main(*reset, "-", fleet=fleet).returncode


@pytest.mark.usefixtures("place")
def test_a_copy(
    operator: Operator, apps: Applications, fleet: Path, offsetbook_main: Command
) -> None:
    """The empty name can be copied; in Python an empty text names no group."""
    copy = apps.name("copy")
    words = ("copy", "--cluster", "test", "--group", "", "--to", copy)
    planned = offsetbook_main(*words, "--dry-run", "--output", "json", fleet=fleet)
    assert (0, [copy]) == (planned.returncode, [row["group"] for row in json.loads(planned.stdout)])
    with pytest.raises(Exception, match="no group selected"):
        Session(operator.cluster, operator.state).copy(CopyRequest(""))


@pytest.mark.usefixtures("place")
def test_a_picker_tells_names_apart(operator: Operator) -> None:
    """The list shows names in quotes, and a choice can be read as a name again."""
    session = Session(operator.cluster, operator.state)
    choices = session.choices()
    picker = group_picker(choices[choices["group"].isin(NAMES)], only_one=True)
    picker.live_form()

    assert set(NAMES.values()) == set(picker.shown)
    picker.choose(['""'])
    (name,) = picker.picked
    assert {""} == {*session.sample(name).partitions["group"]}


def test_a_name_is_no_pattern_of_another(
    operator: Operator, apps: Applications, fleet: Path, offsetbook_main: Command
) -> None:
    """A group whose name is how a pattern would be written for another one is not taken for it."""
    topic = TopicPartition(apps.create_topic(apps.name("orders"), records=9), 0)
    odd = apps.name("odd*")
    beside = odd.replace("*", "[*]")
    operator.commit(odd, {topic: 3})
    operator.commit(beside, {topic: 7})
    session = Session(operator.cluster, operator.state)

    diagnosed = session.sample(odd)
    copied = session.copy(CopyRequest(odd, apps.name("copy")))
    words = ("--bootstrap-server", operator.cluster.bootstrap_servers, "--describe", "--group", odd)
    described = offsetbook_main("consumer-groups", *words, fleet=fleet)

    assert [3] == [*diagnosed.partitions["committed"]]
    assert [3] == [change.after.offset for _, change in copied.plan.changes if change.after]
    assert (0, True) == (described.returncode, odd in described.stdout), described.stderr
