import json
from dataclasses import replace
from datetime import UTC, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans_for_review import DETAILED_PLAN as PLAN

from toolkit.errors import UsageError
from toolkit.model import GroupState, GroupType, TopicPartition
from toolkit.plan import OFFSETS, Action, Change, Finding, Intent, Plan, Position, Severity, Step
from toolkit.storage.plan_files import _document_checksum, read_plan, write_plan

FILE = """\
{
  "format": "offsetbook plan",
  "version": 2,
  "fingerprint": "%s",
  "checksum": "%s",
  "intent": "reset",
  "request": "reset payments, orders to-earliest",
  "cluster": "eu",
  "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
  "made_at": "2026-03-01T12:00:00Z",
  "allows": ["new-group", "new-topics"],
  "topic_ids": [
    {"topic": "orders", "id": "k2wQ7WJwTVa3pGsZkX0fSg"}
  ],
  "findings": [
    {"rule": "no-commit", "severity": "note", "why": "nothing committed", "group": "payments", \
"topic": "orders", "partition": 1}
  ],
  "steps": [
    {
      "group": "payments",
      "action": "commit",
      "type": "simple",
      "state": "Empty",
      "last_commit_at": "2026-03-01T11:59:59.999999Z",
      "needs": "",
      "changes": [
        {"topic": "orders", "partition": 0, \
"before": {"offset": 50, "leader_epoch": 3, "metadata": "m"}, \
"after": {"offset": 40, "leader_epoch": 3, "metadata": ""}, "why": "the start"},
        {"topic": "orders", "partition": 1, "before": null, \
"after": {"offset": 0, "leader_epoch": null, "metadata": ""}, "why": ""}
      ]
    }
  ]
}
"""

texts = st.text(max_size=8)
counts = st.integers(0, 2**63 - 1)
times = st.datetimes(timezones=st.just(UTC))
positions = st.builds(Position, counts, st.none() | counts, texts)
changes = st.builds(
    Change,
    st.builds(TopicPartition, texts, st.integers(0, 2**31 - 1)),
    st.none() | positions,
    st.none() | positions,
    texts,
)
steps = st.builds(
    Step,
    texts,
    st.sampled_from(Action),
    st.lists(changes, max_size=3).map(tuple),
    st.sampled_from(GroupType),
    st.none() | st.sampled_from(GroupState),
    st.none() | times,
    st.none() | texts,
)
findings = st.builds(
    Finding,
    texts,
    st.sampled_from(Severity),
    texts,
    st.none() | texts,
    st.none() | texts,
    st.none() | counts,
)
plans = st.builds(
    Plan,
    st.sampled_from(Intent),
    texts,
    texts,
    texts,
    times,
    st.lists(steps, max_size=3).map(tuple),
    st.lists(findings, max_size=2).map(tuple),
    st.frozensets(texts, max_size=3),
    st.dictionaries(texts, texts, max_size=2),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


def test_a_plan_file_is_readable(path: Path) -> None:
    """The file has one change a line, times in UTC, and nothing that a terminal would act on."""
    write_plan(path, PLAN)

    document = json.loads(path.read_text())
    assert FILE % (PLAN.fingerprint, document["checksum"]) == path.read_text()


@given(plans)
@settings(suppress_health_check=list(HealthCheck), deadline=None)  # each writes to the disk
def test_every_plan_comes_back_as_it_was(path: Path, plan: Plan) -> None:
    """What is read is equal to what was written, whatever is in it, and the file is ASCII."""
    write_plan(path, plan)

    assert plan == read_plan(path)
    assert path.read_bytes().isascii()


def test_the_same_plan_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    """Neither the order of a set nor a time's zone changes the file."""
    write_plan(path, PLAN)
    east = timezone(timedelta(hours=5))
    again = replace(
        PLAN,
        made_at=PLAN.made_at.astimezone(east),
        allows=frozenset(["new-topics", "new-group"]),
    )
    write_plan(tmp_path / "again.json", again)

    assert path.read_bytes() == (tmp_path / "again.json").read_bytes()
    write_plan(path, replace(PLAN, allows=frozenset("abcdefgh")))
    assert list("abcdefgh") == json.loads(path.read_text())["allows"]


def test_a_reformatted_file_is_the_same_plan(path: Path) -> None:
    """A file that another tool laid out differently is the same plan."""
    write_plan(path, PLAN)
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))

    assert PLAN == read_plan(path)


MOVE = replace(PLAN, intent=Intent.MOVE, terms={"target": "saved.json", OFFSETS: "as planned"})


@pytest.mark.parametrize(
    ("plan", "fingerprint"),
    [
        (PLAN, "1316-88d0-196a-dc99-540e-1b52-c911-972b"),
        (MOVE, "0bb1-fe90-4e57-4b79-e0fb-ea5d-079a-902b"),
        (replace(MOVE, terms={"target": "to-earliest"}), "4f2b-7d28-832b-fdd0-15cb-35eb-7b8a-293f"),
    ],
)
def test_an_approval_of_yesterday_still_fits(plan: Plan, fingerprint: str) -> None:
    """However it is computed, the same plan keeps its fingerprint from version to version."""
    assert fingerprint == plan.fingerprint


IN_THE_FINGERPRINT = {
    "a target": ('"offset": 40', '"offset": 41'),
    "the request": ("reset payments, orders", "reset a test group"),
    "the cluster": ("MkU3OEVBNTcwNTJENDM2Qg", "another"),
    "what it allows": ('"allows": ["new-group", "new-topics"]', '"allows": []'),
    "a topic": ("k2wQ7WJwTVa3pGsZkX0fSg", "another"),
}
EDITS = {
    **IN_THE_FINGERPRINT,
    "a finding": ('"severity": "note"', '"severity": "block"'),
    "a reason": ("the start", "the end"),
    "the fingerprint": (PLAN.fingerprint, "0123456789abcdef"),
    "the checksum": ('"sha256:', '"sha256:0'),
}


def edit(path: Path, plan: Plan, old: str, new: str) -> None:
    write_plan(path, plan)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("plan", [PLAN, MOVE])
@pytest.mark.parametrize("what", IN_THE_FINGERPRINT)
def test_a_new_checksum_does_not_help(path: Path, plan: Plan, what: str) -> None:
    """A file whose request, cluster id or changes are not those of its fingerprint is refused."""
    edit(path, plan, *EDITS[what])
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"checksum": _document_checksum(document)}))

    with pytest.raises(UsageError, match="was edited"):
        read_plan(path)


@pytest.mark.parametrize("what", EDITS)
def test_an_edited_file_is_refused(path: Path, what: str) -> None:
    """Whatever was changed by hand, the file says so."""
    edit(path, PLAN, *EDITS[what])

    with pytest.raises(UsageError, match=r"plan\.json was edited"):
        read_plan(path)


WRONG = {
    "not JSON": (('"version": 2,', '"version": 2'), r"line 4, column 3: not JSON"),
    "another format": (("offsetbook plan", "shopping list"), "is not a plan file"),
    "another version": (('"version": 2', '"version": 1'), "has version 1; .* reads version 2"),
    "a field too few": (('"needs": "",', ""), r"plan\.steps\[0\] lacks 'needs'"),
    "a field too many": (('"needs"', '"colour": 1, "needs"'), "an unknown field 'colour'"),
    "a field twice": (('"needs"', '"needs": "", "needs"'), "duplicate key 'needs'"),
    "a negative offset": (
        ('"offset": 40', '"offset": -1'),
        r"plan\.steps\[0\]\.changes\[0\]\.after\.offset must be a whole number from 0 .* not -1",
    ),
    "a text for a number": (('"offset": 40', '"offset": "40"'), 'not "40"'),
    "true for a number": (('"offset": 40', '"offset": true'), "not true"),
    "a huge partition": (('"partition": 0', '"partition": 2147483648'), r"changes\[0\]\.partition"),
    "another action": (('"commit"', '"explode"'), 'action must be one of commit, .* not "explode"'),
    "no zone": (("12:00:00Z", "12:00:00"), "made_at must be a time with its zone"),
    "no time": (("2026-03-01T12:00:00Z", "noon"), "made_at must be a time with its zone"),
    "off the calendar": (("2026-03-01T12:00:00Z", "0001-01-01T00:00:00+05:00"), "made_at must be"),
    "no list": (('"allows": ["new-group", "new-topics"]', '"allows": "all"'), "a list of texts"),
    "a topic twice": (
        ('{"topic": "orders", "id"', '{"topic": "orders", "id": ""}, {"topic": "orders", "id"'),
        r"plan\.topic_ids\[1\]: duplicate topic 'orders'",
    ),
    "null for a text": (
        ('"why": ""', '"why": null'),
        r"changes\[1\]\.why must be a text, not null",
    ),
    "a number for an object": (('"before": null', '"before": 5'), "before must be an object"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_invalid_file_names_the_place(path: Path, what: str) -> None:
    """Every fault has the file and the place in it."""
    old_and_new, words = WRONG[what]
    edit(path, PLAN, *old_and_new)

    with pytest.raises(UsageError, match=words) as caught:
        read_plan(path)

    assert str(path) in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"a": 1}'])
def test_other_files_are_no_plans(path: Path, content: bytes) -> None:
    """Any other file is a usage error that names it."""
    path.write_bytes(content)

    with pytest.raises(UsageError, match=r"plan\.json"):
        read_plan(path)
