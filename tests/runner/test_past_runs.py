import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from small_notebooks import EndWith, MakeNotebook

from toolkit.cli import cli
from toolkit.errors import UsageError
from toolkit.runner.execution import RunEnd
from toolkit.runner.past_runs import past_runs, refresh_index, remove_old
from toolkit.runner.result import InvalidResultFile, RunStatus, StepFailed, read_result

HOSTILE = "<img src=x onerror=alert(1)>"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RESULT: dict[str, Any] = {
    "notebook": "50_reset_offsets",
    "status": "done",
    "exit_code": 0,
    "summary": "moved",
    "counts": {"planned": 3, "changed": 3},
    "undo": "undo-7",
    "error": None,
    "parameters": {"cluster": "eu", "dry_run": False},
    "clusters": ["eu"],
    "started": NOON.isoformat(),
    "finished": (NOON + timedelta(seconds=75)).isoformat(),
    "who": "ana@host",
    "version": "1.2.3",
    "folder": "/runs/x",
    "report": "report.html",
}


def keep(runs: Path, folder: str, **changes: Any) -> Path:
    """Write the result of a run, with fields changed, and its report."""
    made = runs / folder
    made.mkdir()
    (made / "result.json").write_text(json.dumps({**RESULT, **changes}), "utf-8")
    (made / "report.html").write_text("report")
    return made


def test_the_newest_run_comes_first(tmp_path: Path) -> None:
    """Runs are listed by when they began, whatever their folders are called."""
    for folder, hour in (("a", 9), ("z", 7), ("m", 8)):
        keep(tmp_path, folder, started=NOON.replace(hour=hour).isoformat())

    assert ["a", "m", "z"] == [row.folder for row in past_runs(tmp_path)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "3; undo undo-7"),
        ({"counts": {"changed": 0}}, "nothing"),
        ({"counts": {}, "parameters": {"dry_run": True}}, "nothing"),
        ({"counts": {}, "status": "blocked"}, "nothing"),
        ({"counts": {}, "status": "done"}, "nothing"),
        ({"counts": {}, "parameters": {}}, "nothing"),
        ({"counts": {}, "status": "kernel-died"}, "unknown"),
        ({"counts": {}, "status": "failed"}, "unknown"),
        ({"counts": {}, "status": "failed", "parameters": {}}, "no details"),
    ],
)
def test_runs_that_may_have_changed_something(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    """A run that broke off with an approval is not reported as harmless."""
    keep(tmp_path, "a", **changes)

    assert [said] == [row.changed for row in past_runs(tmp_path)]


def test_a_failed_run_has_the_place_and_the_reason(tmp_path: Path) -> None:
    """In place of a summary; an end before the start gives no duration."""
    failed = {"status": "failed", "error": {"reason": "no answer", "step": "Look", "cell": 3}}
    keep(tmp_path, "a", **failed)
    keep(tmp_path, "b", finished=(NOON - timedelta(hours=1)).isoformat())
    failure, set_back = sorted(past_runs(tmp_path), key=lambda row: row.folder)

    assert ("failed", "Look: no answer", 75.0) == (failure.status, failure.summary, failure.took_s)
    assert set_back.took_s is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("\udcff", "is not JSON"),
        ("[]", "is not an object"),
        ("{}", "notebook is missing"),
        (json.dumps({**RESULT, "started": "2026-03-01T12:00:00"}), "started is missing or invalid"),
        (json.dumps({**RESULT, "counts": {"changed": "3"}}), "counts is missing or invalid"),
        (json.dumps({**RESULT, "clusters": [1]}), "clusters is missing or invalid"),
        (json.dumps({**RESULT, "error": {"reason": 1}}), "error is missing or invalid"),
    ],
)
def test_a_broken_result_is_a_row_with_the_error(tmp_path: Path, text: str, said: str) -> None:
    """The run is listed beside the others."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "result.json").write_bytes(text.encode(errors="surrogateescape"))
    keep(tmp_path, "good")
    rows = {row.folder: row for row in past_runs(tmp_path)}

    assert {"broken", "good"} == rows.keys()
    assert ("no result", True) == (rows["broken"].status, said in rows["broken"].summary)


@pytest.mark.parametrize("name", sorted(RESULT.keys() - {"exit_code", "folder"}))
def test_a_field_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    """Each field that the list needs is looked for."""
    made = keep(tmp_path, "a")
    (made / "result.json").write_text(json.dumps({k: v for k, v in RESULT.items() if k != name}))

    with pytest.raises(InvalidResultFile, match=f"{name} is missing"):
        read_result(made)


def test_a_run_without_a_result_is_listed(tmp_path: Path) -> None:
    """A folder with a notebook and no result goes on or was killed; other folders are no runs."""
    for folder in ("killed", "other", ".hidden"):
        (tmp_path / folder).mkdir()
    (tmp_path / "killed" / "20_find.ipynb").write_text("{}")
    (tmp_path / ".hidden" / "20_find.ipynb").write_text("{}")
    (row,) = past_runs(tmp_path)

    assert ("killed", "20_find", "no result") == (row.folder, row.notebook, row.status)
    assert "no result.json: the run is still in progress" in row.summary


@pytest.mark.parametrize("report", ["../../etc/passwd", "/etc/passwd", "gone.html", "", None])
def test_a_report_is_a_file_in_the_folder_of_its_run(tmp_path: Path, report: str | None) -> None:
    """A result.json cannot make the list lead anywhere else."""
    keep(tmp_path, "a", report=report)

    assert [""] == [row.report for row in past_runs(tmp_path)]


def test_names_are_text_in_the_page(tmp_path: Path) -> None:
    """Whatever a result says is text, and a folder's name cannot leave its link."""
    changes = dict.fromkeys(("notebook", "status", "summary", "who", "undo"), HOSTILE)
    keep(tmp_path, 'a" onclick="x', **changes, clusters=[HOSTILE])
    page = refresh_index(tmp_path).read_text("utf-8")

    assert "<img" not in page
    assert 'onclick="x' not in page
    assert 'href="./a%22%20onclick%3D%22x/report.html"' in page


def test_every_run_refreshes_the_list(
    make_notebook: MakeNotebook, without_kernel: EndWith, tmp_path: Path
) -> None:
    """After a run the page lists it, also where it failed, with a link to its report."""
    failed = StepFailed("OSError: no answer", step="Look")
    without_kernel(stop=RunEnd(RunStatus.FAILED, 1, failed))
    done = run(make_notebook("# Look", "1"), tmp_path / "runs")
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    page = (tmp_path / "runs" / "index.html").read_text("utf-8")

    assert 1 == done.exit_code
    assert f'href="./{folder.name}/report.html"' in page
    assert "Look: OSError: no answer" in page


def run(notebook: Path, runs: Path) -> Result:
    words = ["run", str(notebook), "--output-dir", str(runs)]
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def test_a_list_that_cannot_be_written_spoils_no_run(
    make_notebook: MakeNotebook, without_kernel: EndWith, tmp_path: Path
) -> None:
    """The run ends as it ended, and a note on stderr says that the list is old."""
    without_kernel()
    (tmp_path / "runs" / "index.html").mkdir(parents=True)
    done = run(make_notebook("# Look", "1"), tmp_path / "runs")

    assert 0 == done.exit_code
    assert "note: the list of runs cannot be written" in done.stderr
    assert not list((tmp_path / "runs").glob(".*partial"))


def test_writers_at_once_leave_one_whole_page(tmp_path: Path) -> None:
    """Runs that end at the same moment do not stand in each other's way."""
    keep(tmp_path, "a")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(refresh_index, [tmp_path] * 8))

    assert (tmp_path / "index.html").read_text("utf-8").rstrip().endswith("</html>")
    assert ["a", "index.html"] == sorted(path.name for path in tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_a_wrong_request(tmp_path: Path) -> None:
    """It is not made, and no empty list pretends that nothing ran."""
    with pytest.raises(UsageError, match="cannot be written to"):
        refresh_index(tmp_path / "nope")
    assert not (tmp_path / "nope").exists()


def test_old_runs_of_a_runbook_are_removed(tmp_path: Path) -> None:
    """Of that runbook only, never the newest of a cluster, never one that has no result."""
    for folder, runbook, days, clusters in (
        ("newest", "weekly", 10, ["eu"]),
        ("young", "weekly", 29, ["eu"]),
        ("old", "weekly", 31, ["eu"]),
        ("older", "weekly", 99, ["eu"]),
        ("last of us", "weekly", 99, ["us"]),
        ("another", "monthly", 99, ["eu"]),
        ("by hand", None, 99, ["eu"]),
    ):
        at = (datetime.now(UTC) - timedelta(days=days)).isoformat()
        keep(tmp_path, folder, runbook=runbook, started=at, finished=at, clusters=clusters)
    keep(tmp_path, "broken", runbook="weekly", finished="long ago")
    elsewhere = keep(tmp_path.parent, f"{tmp_path.name}-elsewhere", runbook="weekly")
    (tmp_path / "linked").symlink_to(elsewhere)

    assert 2 == remove_old(tmp_path, "weekly", older_than=timedelta(days=30))
    assert 0 == remove_old(tmp_path, "weekly", older_than=timedelta(days=30))
    assert {"newest", "young", "last of us", "another", "by hand", "broken", "linked"} == {
        folder.name for folder in tmp_path.iterdir()
    }
    assert (elsewhere / "result.json").is_file()


def test_a_run_that_is_half_removed_is_none(tmp_path: Path) -> None:
    """A process that was killed meanwhile leaves no run without a result; the next removes it."""
    keep(tmp_path, "newest", runbook="weekly")
    (left := tmp_path / ".removing-old").mkdir()
    (left / "20_example.ipynb").touch()

    assert ["newest"] == [row.folder for row in past_runs(tmp_path)]
    assert 0 == remove_old(tmp_path, "weekly", older_than=timedelta(days=30))
    assert not left.exists()


def test_a_clock_that_jumps_costs_no_newest_run(tmp_path: Path) -> None:
    """Where every run seems to be of years ago, the last of each cluster stays."""
    for folder in ("a", "b"):
        keep(tmp_path, folder, runbook="weekly", clusters=[folder])

    assert 0 == remove_old(tmp_path, "weekly", older_than=timedelta(seconds=1))
