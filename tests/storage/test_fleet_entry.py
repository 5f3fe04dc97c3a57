"""Adding a cluster to a fleet file that people wrote keeps every other byte of it."""

import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model import Cluster, Policy
from toolkit.storage.fleet_entry import save_cluster, with_cluster
from toolkit.storage.fleet_file import load_fleet

ENTRIES = {"bootstrap.servers": "new:9092", "sasl.password": "${env:NEW}", "read_only": "true"}
NEW = Cluster("new", "new:9092", {"sasl.password": "${env:NEW}"}, Policy(read_only=True))

COMMENTS = st.sampled_from(["", "  # the main one", " #: {[ 'odd"])
LINES_BETWEEN = st.sampled_from(
    ["", "\n", "# a comment\n", "  \n", "      # deeper\n", "\n# a: b\n"]
)
# Ways to write the settings of a cluster, at an indentation.
SETTINGS: tuple[Callable[[str], str], ...] = (
    lambda inner: f"\n{inner}bootstrap.servers: b:1\n",
    lambda inner: f'\n{inner}bootstrap.servers: "b:1"\n{inner}client.id: é #x\n',
    lambda inner: f"\n{inner}bootstrap.servers:\n{inner}  b:1\n",
    lambda inner: f"\n{inner}bootstrap.servers: >-\n{inner}  b:1\n",
    lambda inner: f"\n{inner}bootstrap.servers: b:1\n{inner}protected_groups:\n{inner}- pay*\n",
    lambda _: " {bootstrap.servers: b:1}\n",
    lambda inner: f" {{bootstrap.servers: b:1,\n{inner}client.id: 'x'}}  # flow\n",
    lambda inner: f" &one\n{inner}bootstrap.servers: b:1\n",
)


@st.composite
def hand_written(draw: st.DrawFn) -> str:
    """Draw the text of a fleet file as people write one."""
    outer, inner = " " * draw(st.integers(1, 5)), " " * draw(st.integers(6, 9))
    count = draw(st.integers(1, 3))
    names = draw(st.permutations(["eu", '"us-1"', "'it''s'", "東京"]))[:count]
    kinds = [draw(st.sampled_from(SETTINGS)) for _ in names]
    if kinds.count(SETTINGS[-1]) > 1:
        kinds = [SETTINGS[0] for _ in names]
    clusters = "".join(
        f"{outer}{name}:{kind(inner)}{draw(LINES_BETWEEN)}"
        for name, kind in zip(names, kinds, strict=True)
    )
    parts = [f"clusters:{draw(COMMENTS)}\n{draw(LINES_BETWEEN)}{clusters}"]
    parts += draw(st.sampled_from([[], ["timeout: 30s\n"], ["limits:\n    max_groups: 3\n"]]))
    text = draw(LINES_BETWEEN) + draw(LINES_BETWEEN).join(draw(st.permutations(parts)))
    text = draw(st.sampled_from(["", "\ufeff", "---\n", "%YAML 1.1\n---\n"])) + text
    if draw(st.booleans()):
        text = text.rstrip("\n")
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet")


@given(text=hand_written())
def test_every_other_byte_stays(folder: Path, text: str) -> None:
    """The file has one more piece of text, and one more cluster; everything else is as it was."""
    path = folder / "fleet.yaml"
    path.unlink(missing_ok=True)
    path.write_bytes(text.encode())
    before = load_fleet(path)

    added = save_cluster(path, "new", ENTRIES)
    after = path.read_bytes().decode()

    assert text in {
        after[:at] + after[at + len(after) - len(text) :] for at in range(len(text) + 1)
    }
    assert "\r\n" not in text or after.count("\n") == after.count("\r\n")
    assert load_fleet(path) == {**before, "new": added}
    # Policies and the timeout are also those that the file has for all clusters.
    assert replace(added, policy=NEW.policy, timeout_s=NEW.timeout_s) == NEW
    assert added.policy.read_only


NEW_ENTRY = "  new:\n    bootstrap.servers: n:1\n"
# The file, what stays before the entry, and what is added.
WHERE = {
    "a comment of the last entry stays with it": (
        "clusters:\n  eu:\n    bootstrap.servers: b:1\n    # client.id: me\n\n# all\nstate: x\n",
        "    # client.id: me\n",
        NEW_ENTRY,
    ),
    "the indentation of the others": (
        "clusters:\n    eu:\n          bootstrap.servers: b:1\n",
        "          bootstrap.servers: b:1\n",
        "    new:\n          bootstrap.servers: n:1\n",
    ),
    "no cluster yet, only comments": (
        "# clusters:\n#   eu: x\n",
        "#   eu: x\n",
        "clusters:\n" + NEW_ENTRY,
    ),
    "nothing under clusters": ("clusters:  # none\nstate: x\n", "clusters:  # none\n", NEW_ENTRY),
    "only other entries": ("state: x", "state: x", "\nclusters:\n" + NEW_ENTRY),
    "braces": (
        '{"clusters": {"eu": {"bootstrap.servers": "b:1"}}}',
        '{"clusters": {',
        '"new": {"bootstrap.servers": "n:1"}, ',
    ),
    "empty braces": ("clusters: {}\n", "clusters: {", '"new": {"bootstrap.servers": "n:1"}'),
    "braces without clusters": (
        '{"state": "x"}',
        "{",
        '"clusters": {"new": {"bootstrap.servers": "n:1"}}, ',
    ),
}


@pytest.mark.parametrize("case", WHERE)
def test_where_the_entry_is_put(tmp_path: Path, case: str) -> None:
    """The entry comes after the last one and is written as the others are."""
    text, begin, added = WHERE[case]
    path = tmp_path / "fleet.yaml"
    path.write_text(text)

    save_cluster(path, "new", {"bootstrap.servers": "n:1"})

    before, _, after = text.partition(begin)
    assert before + begin + added + after == path.read_text()
    assert load_fleet(path)["new"] == Cluster("new", "n:1")


# What YAML reads as something else, and any text.
WORDS = st.sampled_from(
    [*("null", "~", "true", "1e3", "#", "a #b", "&a", "*a", "!a", "- a", "{a", "[a]"), "a: b", '"']
) | st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1)
REFUSED = {
    "taken": ("clusters:\n  new:\n    bootstrap.servers: b:1\n", {}, "already in fleet file"),
    "an anchor that two share": (
        "clusters: &all\n  eu: &eu\n    bootstrap.servers: b:1\n  us: *eu\n...\n",
        {"sasl.password": "hunter2"},
        "sasl.password must be a reference",
    ),
    "a mistake in the file": ("clusters:\n  eu: x\n", {}, "line 2, column 7"),
    "two documents": ("state: x\n---\nstate: y\n", {}, "another document"),
    "an unknown protocol": (
        "clusters: {}\n",
        {"security.protocol": "SASL"},
        "cluster 'new' was not added",
    ),
    "a list": ("- x\n", {}, "was not added"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_entry_leaves_the_file(tmp_path: Path, case: str) -> None:
    """The refusal has the reason and no secret."""
    text, entries, words = REFUSED[case]
    path = tmp_path / "fleet.yaml"
    path.write_text(text)

    with pytest.raises(UsageError, match=words) as caught:
        save_cluster(path, "new", {"bootstrap.servers": "n:1", **entries})

    assert text == path.read_text()
    assert "hunter2" not in str(caught.value)
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "a:1", " a", "a\nb"])
def test_names_that_would_be_addresses_are_refused(tmp_path: Path, name: str) -> None:
    """A cluster's name can be written on a command line, where a colon makes it an address."""
    with pytest.raises(UsageError, match="cannot be a cluster's name"):
        with_cluster(tmp_path / "fleet.yaml", name, {"bootstrap.servers": "n:1"})


@given(name=WORDS.filter(lambda name: ":" not in name and name == name.strip()), value=WORDS)
def test_names_and_values_are_read_as_they_were_given(folder: Path, name: str, value: str) -> None:
    """Quotes are put around what YAML would read as something else: true, a comment, a list."""
    for text in ("clusters:\n  eu--:\n    bootstrap.servers: b:1\n", '{"clusters": {}}'):
        path = folder / "names.yaml"
        path.write_text(text)

        added, _ = with_cluster(path, name, {"bootstrap.servers": "n:1", "client.id": value})

        assert Cluster(name, "n:1", {"client.id": value}) == added


def test_clusters_that_are_added_at_the_same_time(tmp_path: Path) -> None:
    """Of processes that add to one file side by side, none loses the entry of another."""
    path = tmp_path / "fleet.yaml"
    add = (
        "import sys\n"
        "from pathlib import Path\n"
        "from toolkit.storage.fleet_entry import save_cluster\n"
        "print(flush=True); sys.stdin.readline()\n"
        "for number in range(20):\n"
        "    entries = {'bootstrap.servers': 'b:1'}\n"
        "    save_cluster(Path(sys.argv[1]), f'{sys.argv[2]}{number}', entries)\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    both = [
        subprocess.Popen([sys.executable, "-c", add, path, name], **pipes) for name in ("eu", "us")
    ]
    for process in both:  # each has loaded what it needs
        process.stdout.readline()
    for process in both:
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in both:
        process.communicate()

    assert [0, 0] == [process.returncode for process in both]
    assert {f"{name}{n}" for name in ("eu", "us") for n in range(20)} == load_fleet(path).keys()
    assert [path] == list(tmp_path.iterdir())


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    """A file that only its owner may read stays so, and a link to it stays a link."""
    path, link = tmp_path / "own.yaml", tmp_path / "fleet.yaml"
    path.write_text("clusters: {}\n")
    path.chmod(0o600)
    link.symlink_to(path)

    save_cluster(link, "new", ENTRIES)

    assert link.is_symlink()
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert ["new"] == list(load_fleet(path))
