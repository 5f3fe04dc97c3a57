from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from toolkit.errors import FleetFileError
from toolkit.model import Policy
from toolkit.storage.fleet_file import load_fleet
from toolkit.storage.policy import FOR_ONE, LIMITS

CLUSTER = "clusters:\n  eu:\n    bootstrap.servers: b:1\n"
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


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return where a fleet file is to be written."""
    return tmp_path / "fleet.yaml"


def test_what_is_said_for_all_and_for_one(written: Path) -> None:
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
    assert {"bootstrap.servers"}.isdisjoint(fleet["eu"].settings)
    assert {} == fleet["eu"].settings


def test_without_a_word_the_defaults_hold(written: Path) -> None:
    """A fleet file that says nothing of changes has the policy of the model."""
    written.write_text(CLUSTER)

    assert Policy() == load_fleet(written)["eu"].policy


WRONG = {
    "no flag": ("    read_only: maybe\n", (4, 16), "read_only must be true or false"),
    "a quoted flag": ('    read_only: "true"\n', (4, 16), "read_only must be true or false"),
    "an empty flag": ("    read_only:\n", (4, 15), "read_only must be true or false"),
    "a flag for all": ("read_only: true\n", (4, 1), "unknown entry 'read_only'"),
    "one group": ("    protected_groups: payments\n", (4, 23), "must be a list, such as"),
    "a group that is a list": ("protected_groups: [[a]]\n", (4, 20), "each of protected_groups"),
    "no group": ("protected_groups: [a, ]\nlimits: 5\n", (5, 9), "limits must have"),
    "a null group": ("protected_groups: [a, ~]\n", (4, 23), "each of protected_groups"),
    "another limit": ("limits: {max_group: 1}\n", (4, 10), "did you mean 'max_groups'?"),
    "a strange limit": ("limits: {zeal: 1}\n", (4, 10), "known limits: max_groups, max_partitions"),
    "a negative limit": ("limits: {max_groups: -1}\n", (4, 22), "a whole number from 0"),
    "a fraction": ("limits: {max_groups: 1.5}\n", (4, 22), "a whole number from 0"),
    "an octal": ("limits: {max_groups: 010}\n", (4, 22), "a whole number from 0"),
    "a quoted number": ('limits: {max_groups: "1"}\n', (4, 22), "a whole number from 0"),
    "a word": ("limits: {max_groups: many}\n", (4, 22), "a whole number from 0"),
    "no number": ("limits: {max_groups: }\n", (4, 21), "max_groups must be one value"),
    "a limit twice": ("limits: {max_groups: 1, max_groups: 2}\n", (4, 25), "duplicate key"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_policy_names_line_and_column(written: Path, kind: str) -> None:
    """A limit that is not understood is never taken for none."""
    text, (line, column), words = WRONG[kind]
    written.write_text(CLUSTER + text)

    with pytest.raises(FleetFileError) as caught:
        load_fleet(written)

    assert f"line {line}, column {column}: " in str(caught.value)
    assert words in str(caught.value)


def test_whether_a_reason_is_needed(written: Path) -> None:
    """It is, unless the file says otherwise for all clusters or for one; a typo is no otherwise."""
    fleet = "clusters:\n  eu: {bootstrap.servers: a:1, reason: required}\n"
    written.write_text(f"{fleet}  us: {{bootstrap.servers: b:1}}\nreason: optional\n")
    found = load_fleet(written)

    assert ("required", "optional") == (found["eu"].policy.reason, found["us"].policy.reason)
    assert "required" == Policy().reason
    written.write_text(f"{fleet}reason: no\n")
    with pytest.raises(FleetFileError, match="line 3, column 9: reason must be required or opt"):
        load_fleet(written)


def test_every_field_of_the_policy_can_be_set() -> None:
    """What the file accepts and what the model holds are the same names."""
    assert {field.name for field in fields(Policy)} == {*FOR_ONE, *LIMITS} - {"limits"}
