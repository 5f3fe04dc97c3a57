"""The flags as the real tool takes them: what goes together, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from toolkit.cli.consumer_groups.flags import FITTING, OPTIONS, check_flags
from toolkit.errors import UsageError
from toolkit.model import Group, GroupState, GroupType, TopicPartition
from toolkit.sandbox.raw_members import RawConnection, ShareConsumer, StreamsInstance
from toolkit.sandbox.seed import SeededGroup

# Refused by the real tool too, unless it says otherwise. R45 to R48 are in tests/differential.
REFUSED = {
    "no action": ("", "no action given"),
    "F04 two actions": ("--list --describe --group g", "--describe, --list exclude each other"),
    "L04": ("--list --state bogus", "--state does not know 'bogus'"),
    "L07": ("--list --type bogus", "--type does not know 'bogus'"),
    "list of a group": ("--list --group g", "--group cannot be used with --list"),
    "F07, the tool ignores it": ("--list --export", "--export cannot be used with --list"),
    "F09, the tool ignores it": (
        "--describe --group g --execute",
        "--execute cannot be used with --describe",
    ),
    "D22": ("--describe", "--describe needs one of --all-groups, --group"),
    "D23": ("--describe --group g --members --offsets", "--members, --offsets exclude each other"),
    "describe a state": ("--describe --group g --state Empty", "--state takes no value"),
    "both, which the tool takes": (
        "--describe --group g --all-groups",
        "--all-groups, --group exclude each other",
    ),
    "R04": (
        "--reset-offsets --group g --all-topics --to-latest --execute --dry-run",
        "--dry-run, --execute exclude each other",
    ),
    "R49": ("--reset-offsets --all-topics --to-latest", "needs one of --all-groups, --group"),
    "O11": ("--delete-offsets --group g --group h --topic t", "takes one --group"),
    "O12": ("--delete-offsets --group g", "--delete-offsets needs one of --topic"),
    "O17": ("--delete-offsets --all-groups --topic t", "--all-groups cannot be used with"),
    "X06": ("--delete --group g --topic t", "--topic cannot be used with --delete"),
    "X07": ("--delete", "--delete needs one of --all-groups, --group"),
    "F01": ("--lst", "No such option"),
    "F08 an abbreviation": ("--desc --group g", "No such option"),
    "two forms of output": (
        "--reset-offsets --group g --all-topics --to-latest --export --output csv",
        "--export, --output exclude each other",
    ),
    "not a rule": ("--delete --group g --override reason", "rule 'reason' does not exist"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_flags_that_exclude_each_other(shell: Any, case: str) -> None:
    """Such a call exits with 2, and stdout stays empty."""
    flags, words = REFUSED[case]
    done = shell(*flags.split())

    assert (2, "") == (done.returncode, done.stdout)
    assert words in done.stderr


def test_every_flag_has_a_place() -> None:
    """Every option goes with an action, and every name that is checked is an option."""

    def nothing() -> None:
        """Take the options."""

    for option in OPTIONS:
        option(nothing)
    names = {option.name for option in nothing.__click_params__}  # type: ignore[attr-defined]
    placed = {flag for flags in FITTING.values() for flag in flags}
    actions = {action.replace("-", "_") for action in FITTING}
    anywhere = {"bootstrap_server", "command_config", "timeout"}
    ours = {"fleet", "cluster", "output", "quiet"}

    assert names == placed | actions | anywhere | ours


def test_the_one_action_is_returned() -> None:
    """Flags that fit lead to their action; one that no action has is refused."""
    assert "describe" == check_flags({"describe", "groups", "verbose", "fleet"})
    with pytest.raises(UsageError, match="halt cannot be used with --list"):
        check_flags({"list", "halt"})


def test_the_cluster_is_named_once(shell: Any, tmp_path: Path) -> None:
    """An address or a name of the fleet file, not both."""
    assert "no cluster selected" in shell.offsetbook("consumer-groups", "--list").stderr
    both = shell("--list", "--cluster", "eu")
    assert (2, True) == (both.returncode, "--bootstrap-server and --cluster exclude" in both.stderr)
    config = ("--command-config", str(tmp_path / "nothing"))
    named = shell.offsetbook("consumer-groups", "--list", "--cluster", "eu", *config)
    assert "--command-config goes with --bootstrap-server" in named.stderr


@pytest.mark.parametrize(
    ("address", "known"),
    [("", "still"), ("127.0.0.1:PORT", "still"), ("localhost:PORT", "localhost:PORT")],
)
def test_the_fleet_files_policy_holds_for_an_address(
    shell: Any, fleet_of: Any, address: str, known: str
) -> None:
    """A cluster that is read-only is known by its id, whatever its address is called."""
    group, _ = shell.idle(5)
    fleet = fleet_of(still=shell.apps.address)
    fleet.write_text(
        fleet.read_text("utf-8").replace("  still:\n", "  still:\n    read_only: true\n")
    )
    port = shell.apps.address.rpartition(":")[2]
    address, known = (text.replace("PORT", port) for text in (address, known))
    done = shell.execute("--delete", "--group", group, "--fleet", str(fleet), address=address)

    assert 3 == done.returncode, done.stderr
    assert f"cluster {known} is marked read_only in the fleet file" in done.stderr
    assert shell.held(group)


def test_names_are_not_patterns(shell: Any) -> None:
    """
    A pattern of other commands is a group name for this tool, and no such group exists.

    So a group `x*` that does not exist is not `x[*]` either.
    """
    topic, stem = shell.topic(), shell.apps.name("pay")
    groups = [f"{stem}[*]", f"{stem}-2"]
    for name in groups:
        shell.apps.commit(name, {TopicPartition(topic, 0): 5})

    shown = shell("--describe", "--group", f"{stem}*")
    assert (1, "") == (shown.returncode, shown.stdout)
    for name in (f"{stem}*", f"{stem}-?"):
        deleted = shell.execute("--delete", "--group", name)
        assert (3, True) == (deleted.returncode, "block: no-such-group" in deleted.stderr)
    both = shell.execute("--delete", "--group", groups[1], "--group", f"{stem}*")
    assert 3 == both.returncode
    assert f"block: no-such-group: {stem}*" in both.stderr
    assert all(shell.held(name) for name in groups)


def test_a_missing_group_does_not_hide_another_d21(shell: Any) -> None:
    """Kafka's tool prints nothing; offsetbook shows the other group, and exits with 4."""
    group, topic = shell.idle(5)
    done = shell("--describe", "--group", group, "--group", "nobody")

    last_line = done.stdout.splitlines()[-1].split()
    assert (4, [group, topic, "0", "5"]) == (done.returncode, last_line[:4])
    assert "group nobody in cluster" in done.stderr


@pytest.mark.parametrize(
    ("type_", "protocol", "listed"),
    [
        (GroupType.SIMPLE, None, True),
        (GroupType.CLASSIC, "consumer", True),
        (GroupType.CLASSIC, "connect", False),
        (GroupType.CONSUMER, "consumer", True),
        (GroupType.STREAMS, "streams", False),
        (GroupType.SHARE, "share", False),
    ],
)
def test_which_groups_are_consumer_groups(
    type_: GroupType, protocol: str | None, *, listed: bool
) -> None:
    """As for the tool, groups of Connect workers, streams and shares are none."""
    assert listed == Group("g", type_, GroupState.EMPTY, protocol).is_of_consumers


def test_patterns_of_topics(shell: Any) -> None:
    """A pattern is judged by the rules of brokers (RE2)."""
    valid, invalid = (shell("--validate-regex", text) for text in ("orders-.*", "(?=a)"))

    assert (0, "The regular expression `orders-.*` is valid.\n") == (valid.returncode, valid.stdout)
    assert (1, True) == (invalid.returncode, invalid.stdout.startswith("The regular expression"))


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_words_without_a_cluster(shell: Any, flag: str) -> None:
    """Help and version need nothing else."""
    done = shell.offsetbook("consumer-groups", flag)

    assert (0, True) == (done.returncode, bool(done.stdout))


def test_groups_that_the_tool_does_not_know(shell: Any) -> None:
    """Share and streams groups are listed by type; a share group has no offsets to describe."""
    topic = shell.topic(partitions=1)
    share, streams = (SeededGroup(shell.apps.name(n), "", "", reads=(topic,)) for n in ("s", "t"))
    broken = SeededGroup(shell.apps.name("u"), "", "", reads=(shell.apps.name("no-topic"),))
    with (
        RawConnection(shell.apps.address, client_id=share.group_id) as one,
        RawConnection(shell.apps.address, client_id=streams.group_id) as other,
        RawConnection(shell.apps.address, client_id=broken.group_id) as third,
    ):
        StreamsInstance(broken).join(third)
        ShareConsumer(share).join(one)
        StreamsInstance(streams).join(other)
        listed = {
            kind: shell("--list", "--state", "--type", kind).stdout
            for kind in ("Share", "streams", "consumer")
        }
        not_ready = shell("--list", "--type", "streams", "--state", "NotReady").stdout
        described, both = (
            shell("--describe", *(f"--group={name}" for name in names))
            for names in ([share.group_id], [share.group_id, streams.group_id])
        )
        state = shell("--describe", "--group", share.group_id, "--state")

    assert [(True, False), (False, True), (False, False)] == [
        (share.group_id in text, streams.group_id in text) for text in listed.values()
    ]
    assert broken.group_id in listed["streams"]  # its source topic is not there
    assert (True, False) == (broken.group_id in not_ready, streams.group_id in not_ready)
    assert (1, "") == (described.returncode, described.stdout)
    assert "is a share group, which has no committed offsets" in described.stderr
    assert (4, 0) == (both.returncode, state.returncode)
    assert f"Group '{streams.group_id}' has no committed offsets." in both.stderr
    assert share.group_id in state.stdout
