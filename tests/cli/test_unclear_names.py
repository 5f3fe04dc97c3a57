"""Groups whose name is empty, blank or a dash, which brokers accept commits for."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from applications import Applications
from main_program import Command
from operators import Operator
from terminal import talk

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter
from toolkit.model import TopicPartition
from widgets.pickers import group_picker

NAMES = {"": '""', " ": '" "', "-": '"-"', "\N{EN DASH}": '"\N{EN DASH}"'}


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
    return fleet_of(operator, tmp_path, protected_groups=[])


def fleet_of(operator: Operator, folder: Path, **policy: object) -> Path:
    cluster = {"bootstrap.servers": operator.cluster.bootstrap_servers, **policy}
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump({"clusters": {"test": cluster}}))
    return path


def at(operator: Operator, name: str, place: TopicPartition) -> int | None:
    position = operator.held(name).get(name, {}).get(place)
    return position.offset if position else None


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("reset", "--to-offset", "3"), ""),
        (("reset", "--to-offset", "3"), "-"),
        (("delete-groups",), " "),
        (("consumer-groups", "--delete"), ""),
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


def test_single_offsets_of_the_empty_name_stay(
    operator: Operator, place: TopicPartition, fleet: Path, offsetbook_main: Command
) -> None:
    """A broker refuses to delete them, which the plan says; the whole group it deletes."""
    words = ("--cluster", "test", "--group", "", "--topic", place.topic, "--dry-run")
    planned = offsetbook_main("delete-offsets", *words, fleet=fleet)

    assert 3 == planned.returncode
    assert 'empty-name: "": brokers delete no single offsets' in planned.stderr
    assert "Try: delete the group with all its offsets" in planned.stderr
    with Connection(operator.cluster) as connection:
        refused = GroupWriter(connection).delete_offsets("", [place])
    assert "INVALID_GROUP_ID" in refused.error
    assert 7 == at(operator, "", place)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", ["", '""'])
def test_a_copy(apps: Applications, fleet: Path, offsetbook_main: Command, name: str) -> None:
    """The empty name can be copied, also where it is written as tables show it."""
    copy = apps.name("copy")
    words = ("copy", "--cluster", "test", "--group", name, "--to", copy)
    planned = offsetbook_main(*words, "--dry-run", "--output", "json", fleet=fleet)
    assert (0, [copy]) == (planned.returncode, [row["group"] for row in json.loads(planned.stdout)])
    peeked = offsetbook_main("peek", "--cluster", "test", "--group", name, fleet=fleet)
    assert 0 == peeked.returncode, peeked.stderr


@pytest.mark.usefixtures("place")
def test_a_picker_distinguishes_names(operator: Operator) -> None:
    """The list shows names in quotes, and a choice can be read as a name again."""
    session = operator.session
    choices = session.choices()
    picker = group_picker(choices[choices["group"].isin(NAMES)], only_one=True)
    picker.live_form()

    assert set(NAMES.values()) == set(picker.shown)
    picker.choose(['""'])
    (name,) = picker.picked
    assert {""} == {*session.sample(name).partitions["group"]}
