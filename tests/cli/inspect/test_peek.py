import json
from pathlib import Path

import pytest
from main_program import Command

from toolkit import connect
from toolkit.report.display import capture_outputs
from toolkit.sandbox.seed import POISON, POISON_OFFSET

SCOPE = f"{POISON.topic}:{POISON.partition}"


def test_the_poison_record_is_marked(offsetbook_here: Command, fleet: Path) -> None:
    """The record that the stuck group cannot process is shown with its bytes."""
    words = ("peek", "--group", "fraud-check", "--topic", SCOPE, "--output", "json")
    done = offsetbook_here(*words, fleet=fleet)
    rows = json.loads(done.stdout)

    assert 0 == done.returncode, done.stderr
    assert ["before", "next", "after"] == [row["place"] for row in rows]
    assert (POISON_OFFSET, "hex") == (rows[1]["offset"], rows[1]["value_form"])
    assert "JSON" == rows[0]["value_form"]
    assert json.loads(rows[0]["value"])["id"]
    found = connect("eu", fleet).peek("fraud-check", [SCOPE])
    assert rows == json.loads(found.frame().to_json(orient="records", date_format="iso"))
    with capture_outputs() as shown:
        found._ipython_display_()
    assert f"Offset {POISON_OFFSET:,}" in str(shown)


def test_without_a_topic_the_partition_with_most_lag_is_shown(
    offsetbook_here: Command, fleet: Path
) -> None:
    """Without a topic the partition where most records wait comes along."""
    done = offsetbook_here("peek", "--group", "fraud-check", "--output", "json", fleet=fleet)
    marked = [row for row in json.loads(done.stdout) if row["place"] == "next"]

    assert (POISON.partition, POISON_OFFSET) in {(r["partition"], r["offset"]) for r in marked}


def test_records_are_saved(offsetbook_main: Command, fleet: Path, tmp_path: Path) -> None:
    """What is shown is also in the file; one that exists is refused before anything is read."""
    file = tmp_path / "saved.jsonl"
    words = ("peek", "--group", "fraud-check", "--topic", SCOPE, "--save", str(file))
    done = offsetbook_main(*words, fleet=fleet)

    assert 0 == done.returncode, done.stderr
    assert f"3 records saved to {file}, read back and compared" in done.stderr
    offsets = [json.loads(line)["offset"] for line in file.read_text("utf-8").splitlines()]
    assert [POISON_OFFSET - 1, POISON_OFFSET, POISON_OFFSET + 1] == offsets
    again = offsetbook_main(*words, fleet=fleet)
    assert (2, "") == (again.returncode, again.stdout)
    assert f"{file} exists" in again.stderr


def test_as_a_table_for_people(offsetbook_here: Command, fleet: Path) -> None:
    """As a table each record is one line, without what only programs need."""
    done = offsetbook_here("peek", "--group", "fraud-check", "--topic", SCOPE, fleet=fleet)
    heading, *lines = done.stdout.splitlines()

    assert (0, 3) == (done.returncode, len(lines)), done.stderr
    assert "value_bytes" not in heading
    assert "next" in lines[1]


@pytest.mark.since("4.2")
def test_a_group_without_committed_offsets_has_none(offsetbook_main: Command, fleet: Path) -> None:
    """That is said of it, and nothing of partitions with lag."""
    done = offsetbook_main("peek", "--group", "share-pickers", fleet=fleet)

    assert (1, "error: group 'share-pickers' has no committed offset") == (
        done.returncode,
        done.stderr.strip(),
    )


def test_a_missing_group_or_topic_is_reported(offsetbook_main: Command, fleet: Path) -> None:
    """One line of error; a pattern is not a name."""
    there = ("--topic", POISON.topic)
    for words in (
        ("--group", "fraud-*"),
        ("--group", "fraud-check", "--topic", "orders.created"),
        ("--group", "fraud-check", *there, "--topic", "orders.created"),
    ):
        done = offsetbook_main("peek", *words, fleet=fleet)

        assert (1, 1) == (done.returncode, len(done.stderr.splitlines())), done.stderr
        assert "Try:" in done.stderr
