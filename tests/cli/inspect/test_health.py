"""`offsetbook health` on real groups: which word they have, on which evidence."""

from collections.abc import Callable
from pathlib import Path

from applications import Applications
from idle_groups import idle_group
from main_program import Command, rows_of

from toolkit import connect
from toolkit.model import Cluster
from toolkit.report.display import capture_outputs

AT_ONCE = ("--sample-interval", "1s")
PATIENT = ("--stuck-after", "1h")  # however busy the machine is, records are younger


def test_seeded_problems_have_their_word(offsetbook_here: Command, fleet: Path) -> None:
    """Each kind of seeded problem is found, without a change of the exit code."""
    words = (*AT_ONCE, "--stuck-after", "1s", "--output", "json")
    done = offsetbook_here("health", *words, fleet=fleet)
    rows = {row["group"]: row for row in rows_of(done)}

    assert 0 == done.returncode, done.stderr
    expected = {"nightly-export": "stopped", "share-pickers": "unknown", "archiver": "stopped"}
    assert expected == {group: rows[group]["health"] for group in expected}
    assert "unread records deleted" in rows["archiver"]["why"]
    # Whether the samples were further apart than 1 s decides; the transaction is seen in any case.
    assert rows["fraud-check"]["health"] in {"behind", "stuck"}
    assert "blocked by an open transaction" in rows["settlement"]["why"]
    assert done.stderr.splitlines()[-1].startswith("cluster eu: ")
    # It is behind meanwhile, wherever a record of the other topic waits for longer than the limit.
    words = (*AT_ONCE, *PATIENT, "--output", "json", "-g", "billing")
    (billing,) = rows_of(offsetbook_here("health", *words, fleet=fleet))
    assert "unsubscribed" == billing["health"]


def test_a_poison_record_is_stuck_when_the_samples_show_it(
    offsetbook_here: Command, fleet: Path
) -> None:
    """A group that does not get past a record is not stuck after 1 s, but after the limit."""
    group = ("-g", "fraud-check", "--output", "csv")

    def asked(*words: str) -> dict[str, str]:
        done = offsetbook_here("health", *words, *group, "--quiet", fleet=fleet)
        assert (0, "") == (done.returncode, done.stderr)
        (row,) = rows_of(done)
        return row

    soon = asked(*AT_ONCE, *PATIENT)
    later = asked("--sample-interval", "3s", "--stuck-after", "2s")

    assert "stuck" != soon["health"]
    assert ("stuck", "stuck") == (later["health"], later["verdict"])
    assert "no new committed offset in" in later["why"]


def test_a_session_has_the_same_rows(
    apps: Applications, offsetbook_here: Command, fleet_of: Callable[..., Path]
) -> None:
    """Python callers get the rows of the command, as text and as a table."""
    group, _ = idle_group(apps, 10)
    session = connect(apps.address)
    report = session.health([group], sample_interval="1s")
    with capture_outputs() as shown:
        report._ipython_display_()

    words = ("health", *AT_ONCE, "-o", "json", "-g", group)
    row = {**report.frame.iloc[0].to_dict(), "cluster": "eu"}
    assert [row] == rows_of(offsetbook_here(*words, fleet=fleet_of(eu=apps.address)))
    assert f"cluster {apps.address}: 1 ok" == report.summary
    assert group in repr(report)
    assert group in str(shown)


def test_clusters_are_one_table(
    offsetbook_here: Command, fleet_of: Callable[..., Path], cluster: Cluster
) -> None:
    """The worst groups of all clusters come first, and each cluster has its counts."""
    both = fleet_of(eu=cluster.bootstrap_servers, us=cluster.bootstrap_servers)
    words = (*AT_ONCE, "-g", "nightly-export", "-g", "billing", "-o", "csv")
    done = offsetbook_here("health", *words, fleet=both)
    rows = rows_of(done)

    assert ["stopped", "stopped", "unsubscribed", "unsubscribed"] == [r["health"] for r in rows]
    assert {"eu", "us"} == {row["cluster"] for row in rows[:2]}
    counts = "1 stopped, 1 unsubscribed"
    assert [f"cluster {name}: {counts}" for name in ("eu", "us")] == done.stderr.splitlines()
