"""Fleet files: what they say of clusters and of policies, and where one is looked for."""

import os
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.errors import FleetFileError, UsageError
from toolkit.model import Cluster, Policy
from toolkit.model.cluster import SETTINGS
from toolkit.storage.fleet_file import (
    FOR_ONE,
    LIMITS,
    choose_clusters,
    find_fleet_file,
    fleet_file_to_edit,
    is_of_sandbox,
    load_fleet,
)
from toolkit.templates import STARTERS

GOOD = """\
clusters:
  eu:  # the first
    bootstrap.servers: broker1:9093,broker2:9093
    security.protocol: SASL_SSL
    sasl.mechanism: SCRAM-SHA-512
    sasl.username: offsetbook
    sasl.password: ${env:EU_PASSWORD}
    ssl.ca.location: /etc/ca.pem
  "us-1":
    bootstrap.servers: "127.0.0.1:9092"
"""
TEMPLATE = STARTERS["fleet.yaml"].read_text("utf-8")
EU = "clusters:\n  eu:\n    "
# What is wrong: the text, where, and words of the message.
MALFORMED = {
    "not YAML": ("clusters:\n  eu: [\n", (3, 1), "expected the node content"),
    "a tab": ("clusters:\n\teu: x\n", (2, 1), "cannot start any token"),
    "a control character": ("clusters:\n  e\x00u: x\n", (2, 4), "U+0000 is not allowed"),
    "a list": ("- eu\n- us\n", (1, 1), "must have 'name: value' lines"),
    "one word": ("eu\n", (1, 1), "must have 'name: value' lines"),
    "only a folder": ("state: x\n", (1, 1), "no cluster is listed"),
    "a misspelt entry": (GOOD + "limit: {}\n", (11, 1), "entry 'limit'; did you mean 'limits'?"),
    "no folder": (GOOD + "state: ~\n", (11, 8), "state must be one value"),
    "a list of folders": (GOOD + "state: [x]\n", (11, 8), "state must be one value"),
    "another entry": ("cluster:\n  eu: {}\n", (1, 1), "unknown entry 'cluster'"),
    "no clusters": ("clusters: {}\n", (1, 11), "no cluster is listed"),
    "nothing under clusters": ("clusters:\n", (1, 10), "clusters must have"),
    "a list of clusters": ("clusters:\n  - eu\n", (2, 3), "clusters must have"),
    "a cluster without settings": ("clusters:\n  eu:\n", (2, 6), "cluster 'eu' must have"),
    "a cluster that is text": ("clusters:\n  eu: b:1\n", (2, 7), "cluster 'eu' must have"),
    "no servers": (EU + "client.id: me\n", (2, 3), "cluster 'eu' has no bootstrap.servers"),
    "a misspelt setting": (
        EU + "bootstrap.server: b:1\n",
        (3, 5),
        "unknown setting 'bootstrap.server'; did you mean 'bootstrap.servers'?",
    ),
    "a strange setting": (EU + "colour: red\n", (3, 5), "unknown setting 'colour'"),
    "a list of servers": (
        EU + "bootstrap.servers: [b:1]\n",
        (3, 24),
        "bootstrap.servers must be one value",
    ),
    "an empty value": (EU + "bootstrap.servers:\n", (3, 23), "bootstrap.servers must be one value"),
    "a secret": (
        EU + "bootstrap.servers: b:1\n    sasl.password: hunter2\n",
        (4, 20),
        "sasl.password must be a reference",
    ),
    "half a secret": (
        EU + "ssl.key.password: x${env:Y}\n",
        (3, 23),
        "ssl.key.password must be a reference",
    ),
    "a reference that is no secret": (
        EU + "bootstrap.servers: ${env:HOME}.example:9092\n",
        (3, 24),
        "bootstrap.servers has a reference, which is for sasl.oauthbearer.client.secret,",
    ),
    **{
        f"a reference in {what}": (GOOD + line, place, f"{what} has a reference, which is for")
        for what, line, place in (
            ("state", "state: /var/${env:TEAM}\n", (11, 8)),
            ("protected_groups", "protected_groups: [a, '${env:TEAM}-*']\n", (11, 23)),
            ("ignored_groups", "ignored_groups: ['${file:/etc/team}']\n", (11, 18)),
        )
    },
    "a reference in properties": (
        EU + "properties: ${env:TEAM}.properties\n",
        (3, 17),
        "properties has a reference",
    ),
    "an unknown protocol": (
        EU + "security.protocol: SASL-SSL\n",
        (3, 24),
        "security.protocol must be one of: PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL",
    ),
    "a cluster twice": (
        EU + "bootstrap.servers: b:1\n  eu:\n    bootstrap.servers: c:1\n",
        (4, 3),
        "duplicate key 'eu'",
    ),
    "a setting twice": (
        EU + "client.id: a\n    client.id: b\n",
        (4, 5),
        "duplicate key 'client.id'",
    ),
    "a name that is a list": ("clusters:\n  [a, b]: x\n", (2, 3), "a name must be plain text"),
    "two documents": (GOOD + "---\n" + GOOD, (11, 1), "but found another document"),
    "an unknown alias": ("clusters: *there\n", (1, 11), "undefined alias"),
}
CLUSTER = "clusters:\n  eu:\n    bootstrap.servers: b:1\n"
# What is wrong of a policy, below a cluster.
MALFORMED |= {
    kind: (CLUSTER + text, place, words)
    for kind, (text, place, words) in {
        "no flag": ("    read_only: maybe\n", (4, 16), "read_only must be true or false"),
        "a quoted flag": ('    read_only: "true"\n', (4, 16), "read_only must be true or false"),
        "an empty flag": ("    read_only:\n", (4, 15), "read_only must be true or false"),
        "a flag for all": ("read_only: true\n", (4, 1), "unknown entry 'read_only'"),
        "one group": ("    protected_groups: payments\n", (4, 23), "must be a list, such as"),
        "a group that is a list": (
            "protected_groups: [[a]]\n",
            (4, 20),
            "each of protected_groups",
        ),
        "no group": ("protected_groups: [a, ]\nlimits: 5\n", (5, 9), "limits must have"),
        "a null group": ("protected_groups: [a, ~]\n", (4, 23), "each of protected_groups"),
        "another limit": ("limits: {max_group: 1}\n", (4, 10), "did you mean 'max_groups'?"),
        "a strange limit": ("limits: {zeal: 1}\n", (4, 10), "known limits: max_groups, max_part"),
        "a negative limit": ("limits: {max_groups: -1}\n", (4, 22), "a whole number from 0"),
        "a fraction": ("limits: {max_groups: 1.5}\n", (4, 22), "a whole number from 0"),
        "an octal": ("limits: {max_groups: 010}\n", (4, 22), "a whole number from 0"),
        "a quoted number": ('limits: {max_groups: "1"}\n', (4, 22), "a whole number from 0"),
        "a word": ("limits: {max_groups: many}\n", (4, 22), "a whole number from 0"),
        "no number": ("limits: {max_groups: }\n", (4, 21), "max_groups must be one value"),
        "a limit twice": ("limits: {max_groups: 1, max_groups: 2}\n", (4, 25), "duplicate key"),
    }.items()
}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "fleet.yaml"


def test_good_file(written: Path) -> None:
    """Clusters come in the order of the file, with their settings; secrets stay references."""
    written.write_text(GOOD)

    fleet = load_fleet(written)

    assert list(fleet) == ["eu", "us-1"]
    assert fleet["us-1"] == Cluster("us-1", "127.0.0.1:9092")
    assert fleet["eu"].bootstrap_servers == "broker1:9093,broker2:9093"
    assert fleet["eu"].settings["sasl.password"] == "${env:EU_PASSWORD}"
    assert "bootstrap.servers" not in fleet["eu"].settings


def test_paths_are_those_of_the_file(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook runs in a folder below the file, and gets the same certificate and password."""
    good, secret = GOOD.replace("/etc/ca.pem", "ca.pem"), "${env:EU_PASSWORD}"
    written.write_text(good.replace(secret, "${file:secrets/eu}"))
    below = written.parent / "notebooks"
    below.mkdir()
    monkeypatch.chdir(below)

    settings = load_fleet(written)["eu"].settings

    assert str(written.parent / "ca.pem") == settings["ssl.ca.location"]
    assert f"${{file:{written.parent}/secrets/eu}}" == settings["sasl.password"]
    written.write_text(good.replace(secret, "${property:eu.properties:pass}"))
    password = load_fleet(written)["eu"].settings["sasl.password"]
    assert f"${{property:{written.parent}/eu.properties:pass}}" == password
    written.write_text(GOOD.replace("/etc/ca.pem", "~/ca.pem"))
    assert str(Path.home() / "ca.pem") == load_fleet(written)["eu"].settings["ssl.ca.location"]


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_file_names_line_and_column(written: Path, kind: str) -> None:
    """Every mistake is reported with its place, in one line, and a secret is not repeated."""
    text, (line, column), words = MALFORMED[kind]
    written.write_text(text)

    with pytest.raises(FleetFileError) as caught:
        load_fleet(written)

    assert f"fleet file {written}, line {line}, column {column}: " in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"# only a comment\n", "is empty"),
        (b"clusters:\n  caf\xe9: {}\n", "is not UTF-8 text"),
        (b'clusters:\n  "\\UFFFFFFFF": x\n', "is not valid YAML"),
        (b"[" * 5000, "is not valid YAML"),
    ],
    ids=["empty", "comment", "latin-1", "no such character", "nested"],
)
def test_file_without_a_place_to_point_to(written: Path, content: bytes, words: str) -> None:
    """A file that is empty or cannot be read as YAML at all is named with the reason."""
    written.write_bytes(content)

    with pytest.raises(FleetFileError, match=words) as caught:
        load_fleet(written)

    assert caught.value.hint


@given(text=st.text() | st.text("clusters:eu\n -[]{}&*!|>'\"%@`#?,\\0123ux\t", max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_text(written: Path, text: str) -> None:
    """Whatever is in the file, it is a fleet or a FleetFileError."""
    written.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        fleet = load_fleet(written)
    except FleetFileError:
        return

    assert all(isinstance(cluster, Cluster) for cluster in fleet.values())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda part: st.lists(part) | st.dictionaries(st.sampled_from(sorted(SETTINGS)), part),
        max_leaves=8,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_in_any_place(written: Path, value: object) -> None:
    """Valid YAML of the wrong shape is a FleetFileError that names a place."""
    written.write_text(yaml.safe_dump({"clusters": {"eu": value}}), encoding="utf-8")

    with pytest.raises(FleetFileError, match=r"line \d+, column \d+"):
        load_fleet(written)


def test_lookup_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The named file wins, then the variable, then the nearest one with an entry."""
    inside = tmp_path / "project" / "notebooks"
    inside.mkdir(parents=True)
    (inside.parent / ".sandbox").mkdir()
    settings_dir = tmp_path / "settings"
    settings_dir.mkdir()
    monkeypatch.chdir(inside)
    monkeypatch.setattr("platformdirs.user_config_dir", lambda _: str(settings_dir))
    monkeypatch.delenv("OFFSETBOOK_FLEET", raising=False)

    with pytest.raises(FleetFileError, match="no fleet file found in"):
        find_fleet_file()
    before = None
    for nearer in (
        settings_dir / "fleet.yaml",
        inside.parent / ".sandbox/fleet.yaml",
        inside.parent / "fleet.yaml",
        inside / "fleet.yaml",
    ):
        nearer.write_text(TEMPLATE)
        assert (nearer if before is None else before) == find_fleet_file()
        nearer.write_text(GOOD)
        assert find_fleet_file() == nearer
        before = nearer
    assert fleet_file_to_edit() == nearer
    nearer.write_text(TEMPLATE)
    assert fleet_file_to_edit() == nearer  # a cluster is added where nothing is yet
    monkeypatch.setenv("OFFSETBOOK_FLEET", "elsewhere.yaml")
    assert find_fleet_file() == Path("elsewhere.yaml")
    assert find_fleet_file(Path("named.yaml")) == Path("named.yaml")


@pytest.mark.parametrize("is_absolute", [True, False])
def test_the_sandbox_of_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_absolute: bool
) -> None:
    """$OFFSETBOOK_SANDBOX is where its fleet file is, and no cluster is added to that."""
    for name in (".sandbox", "other", "notebooks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "fleet.yaml").write_text(GOOD)
    (tmp_path / "notebooks" / "fleet.yaml").unlink()
    monkeypatch.setenv("OFFSETBOOK_SANDBOX", str(tmp_path / "other") if is_absolute else "other")
    monkeypatch.delenv("OFFSETBOOK_FLEET", raising=False)
    monkeypatch.chdir(tmp_path / "notebooks")

    assert find_fleet_file() == tmp_path / "other" / "fleet.yaml"
    assert is_of_sandbox()
    assert fleet_file_to_edit() == tmp_path / "notebooks" / "fleet.yaml"
    assert not is_of_sandbox(tmp_path / "fleet.yaml")


def test_choosing_clusters(written: Path) -> None:
    """Clusters come in the order asked for, none means all, an unknown one is a usage error."""
    written.write_text(GOOD)
    fleet = load_fleet(written)

    assert [c.name for c in choose_clusters(fleet, [])] == ["eu", "us-1"]
    assert [c.name for c in choose_clusters(fleet, ["us-1", "eu"])] == ["us-1", "eu"]
    with pytest.raises(UsageError, match="did you mean 'us-1'"):
        choose_clusters(fleet, ["us"])
    with pytest.raises(UsageError, match="one of: eu, us-1"):
        choose_clusters(fleet, ["something else"])


@pytest.mark.parametrize(
    ("mode", "owner", "why"),
    [
        (0o644, None, ""),
        (0o646, None, "every user can write it"),
        (0o664, 12345, "the group group 12345 can write it"),
        (0o644, 54321, "it belongs to user 54321"),
    ],
)
def test_a_file_of_others_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int | None, why: str
) -> None:
    """A file that is found, and not named, decides where passwords go: others must not write it."""
    path = tmp_path / "fleet.yaml"
    path.write_text(GOOD, encoding="utf-8")
    path.chmod(mode)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OFFSETBOOK_FLEET", raising=False)
    real = Path.stat

    def stat(self: Path, **options: bool) -> os.stat_result:
        found = real(self, **options)
        if owner is None or self != path:
            return found
        fields = list(found)
        fields[5 if mode & 0o020 else 4] = owner
        return os.stat_result(fields)

    # Only root can give a file away.
    monkeypatch.setattr(Path, "stat", stat)

    if why:
        with pytest.raises(FleetFileError, match=f"was found, but not used: {why}") as caught:
            find_fleet_file()
        assert "name it as the fleet file" in str(caught.value)
    assert path == (find_fleet_file(path) if why else find_fleet_file())


FILE = """\
limits:
  max_groups: 20
  max_records_skipped: 1_000
protected_groups: [payments-*]
ignored_groups: [hidden]
clusters:
  eu:
    bootstrap.servers: b:1
    read_only: true
    protected_groups: ["007", payments-*, "a b"]
    ignored_groups: [""]
    limits: {max_groups: 0, max_partitions: 5}
  us:
    bootstrap.servers: b:2
    read_only: no
"""


def test_limits_for_all_and_for_one_cluster(written: Path) -> None:
    """A cluster's limits replace those of all, one by one; its groups add to them."""
    written.write_text(FILE)

    fleet = load_fleet(written)

    assert (
        Policy(
            read_only=True,
            protected_groups=("payments-*", "007", "a b"),
            ignored_groups=("hidden", ""),
            max_groups=0,
            max_partitions=5,
            max_records_skipped=1000,
        )
        == fleet["eu"].policy
    )
    assert (
        Policy(
            protected_groups=("payments-*",),
            ignored_groups=("hidden",),
            max_groups=20,
            max_records_skipped=1000,
        )
        == fleet["us"].policy
    )
    assert {} == fleet["eu"].settings


def test_whether_a_reason_is_needed(written: Path) -> None:
    """It is, unless the file says otherwise for all clusters or for one; a typo is no otherwise."""
    fleet = "clusters:\n  eu: {bootstrap.servers: a:1, reason: required}\n"
    written.write_text(f"{fleet}  us: {{bootstrap.servers: b:1}}\nreason: optional\n")
    found = load_fleet(written)

    assert ("required", "optional") == (found["eu"].policy.reason, found["us"].policy.reason)
    assert "required" == Policy().reason
    written.write_text(f"{fleet}reason: no\n")
    with pytest.raises(
        FleetFileError, match="line 3, column 9: reason must be one of: required, opt"
    ):
        load_fleet(written)


def test_every_field_of_the_policy_can_be_set() -> None:
    """What the file accepts and what the model holds are the same names."""
    assert {field.name for field in fields(Policy)} == {*FOR_ONE, *LIMITS} - {"limits"}
