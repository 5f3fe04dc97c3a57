import json
import re
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import Any

import papermill
import pytest
from click.testing import CliRunner
from small_notebooks import MakeNotebook

from toolkit.cli import cli
from toolkit.errors import UsageError
from toolkit.runner.report_of import report_of
from toolkit.runner.run_notebook import run_notebook

pytestmark = pytest.mark.starts("a kernel")

HOSTILE = "<img src=x onerror=alert(1)>"


def top_of(html: Path) -> str:
    """Return what stands at the top of a report, as a person reads it."""
    page = html.read_text("utf-8")
    top = page[page.index("<header") : page.index("</header")]
    return unescape(" ".join(re.sub(r"<[^>]+>", " ", top).split()))


def by_papermill(notebook: Path, folder: Path, **parameters: Any) -> Path:
    """Run a notebook as anybody does who has papermill and nothing of ours; it may fail."""
    executed = folder / "executed.ipynb"
    with suppress(papermill.PapermillExecutionError):
        papermill.execute_notebook(notebook, executed, parameters, progress_bar=False)
    return executed


def left_by_jupyter(notebook: Path, *cells: int) -> Path:
    """Return a notebook as JupyterLab leaves it of which some cells were run."""
    content = json.loads(notebook.read_text("utf-8"))
    for number in cells:
        content["cells"][number]["execution_count"] = 1
    notebook.write_text(json.dumps(content), "utf-8")
    return notebook


def report_to(notebook: Path, html: Path) -> str:
    """Put the report in a file; returns the status of the notebook's run."""
    report = report_of(notebook)
    html.write_text(report.html, "utf-8")
    return report.status


def test_a_notebook_that_papermill_ran(
    make_notebook: MakeNotebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conclusion is shown there, too; the report has the parameters, and when it ran."""
    monkeypatch.delenv("OFFSETBOOK_CONCLUSION", raising=False)
    parameters = 'cluster: str = "eu"  # where\nmost: int = 3  # how many'
    last = "from toolkit.report.conclusion import conclude\nconclude(cluster)"
    notebook = make_notebook("# Look", last, parameters=parameters)
    executed = by_papermill(notebook, tmp_path, cluster=HOSTILE)
    status = report_to(executed, tmp_path / "n.html")
    shown = json.loads(executed.read_text("utf-8"))["cells"][-1]["outputs"][-1]["data"]

    assert HOSTILE == "".join(shown["text/plain"])
    assert HOSTILE not in "".join(shown["text/html"])
    assert "ran" == status
    top = top_of(tmp_path / "n.html")
    assert f"cluster {HOSTILE} most 3" in top
    assert "All cells ran" in top
    assert re.search(r"Started \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC Took [\d.]+ m?s", top)


def test_a_failed_notebook_has_its_failing_step_on_top(
    make_notebook: MakeNotebook, tmp_path: Path
) -> None:
    """Without our runner, too, the top says which step failed and why, and leads there."""
    notebook = make_notebook("# Look", "1", "## Apply", f"raise OSError({HOSTILE!r})", "2")
    html = tmp_path / "n.html"

    assert "failed" == report_to(by_papermill(notebook, tmp_path), html)
    assert f"Failed Failed at: Apply OSError: {HOSTILE} Go to the failed cell" in top_of(html)
    assert HOSTILE not in html.read_text("utf-8")


def test_a_partly_run_notebook(make_notebook: MakeNotebook, tmp_path: Path) -> None:
    """If only the first cells were run, the report names the first one that was not."""
    path, html = left_by_jupyter(make_notebook("# Look", "1", "## Apply", "2"), 1), tmp_path / "n"

    assert "unfinished" == report_to(path, html)
    assert "Stopped before the last cell Failed at: Apply this cell was not run" in top_of(html)


def test_the_result_file_of_a_run_is_used(make_notebook: MakeNotebook, tmp_path: Path) -> None:
    """The notebook has the same facts as in the report of the run."""
    last = 'from toolkit.report.conclusion import conclude\nconclude("7 found", findings=7)'
    notebook = make_notebook("# Look", last, parameters='cluster: str = "eu"  # where')
    run = run_notebook(notebook, parameters={}, output_dir=tmp_path / "runs")
    html = tmp_path / "again.html"

    assert "done" == report_to(run.folder / "20_example.ipynb", html)
    assert top_of(run.folder / "report.html") == top_of(html)
    assert "7 found" in top_of(html)


def test_a_result_is_of_the_notebook_as_the_run_left_it(
    make_notebook: MakeNotebook, tmp_path: Path
) -> None:
    """Cells that were run again by hand may have changed what the dry run did not."""
    notebook = make_notebook("# Look", "1", parameters='cluster: str = "eu"  # where')
    run = run_notebook(notebook, parameters={}, output_dir=tmp_path / "runs")
    executed = run.folder / "20_example.ipynb"
    executed.write_text(executed.read_text().replace("# Look", "# Look again"))

    assert "ran" == report_to(executed, tmp_path / "again.html")


def test_a_broken_result_is_not_believed(make_notebook: MakeNotebook, tmp_path: Path) -> None:
    """Where the result.json beside it is not one, the notebook itself is asked."""
    executed = left_by_jupyter(make_notebook("# Look", "1"), 1)
    (tmp_path / "result.json").write_text('{"notebook": "20_example", "status": 7}')

    assert "ran" == report_to(executed, tmp_path / "n.html")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "invalid JSON"),
        ("[]", "no cells"),
        ('{"cells": {}}', "no cells"),
        ('{"cells": [1]}', "no cells"),
        ('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "was not executed"),
    ],
)
def test_invalid_notebooks(tmp_path: Path, content: str, said: str) -> None:
    """A file that is no notebook, or was never executed, is a usage error that names it."""
    path = tmp_path / "n.ipynb"
    path.write_text(content)

    with pytest.raises(UsageError, match=said):
        report_to(path, tmp_path / "n.html")
    assert not (tmp_path / "n.html").exists()


def test_where_it_cannot_be_read_or_written(make_notebook: MakeNotebook, tmp_path: Path) -> None:
    """A notebook that is missing or was not run, and a wrong place, are refused in words."""
    executed = left_by_jupyter(make_notebook("# Look", "1"), 1)
    before = executed.read_text()

    with pytest.raises(UsageError, match="file not found"):
        report_of(tmp_path / "nope.ipynb")
    with pytest.raises(UsageError, match="was not executed"):
        report_of(make_notebook("# Look", "1", name="as-it-comes"))
    for output, said in [
        (tmp_path / "no-folder" / "n.html", "cannot be written"),
        (executed, "is the notebook itself"),
    ]:
        asked = CliRunner().invoke(cli, ["report", str(executed), "--output", str(output)])
        assert said in str(asked.exception)
    assert before == executed.read_text()


def test_the_command_replaces_nothing_unasked(make_notebook: MakeNotebook) -> None:
    """The report is beside the notebook; a file that exists stays without --force; - is stdout."""
    executed = left_by_jupyter(make_notebook("# Look", "1"), 1)
    html = executed.with_suffix(".html")

    written = CliRunner().invoke(cli, ["report", str(executed)], catch_exceptions=False)
    assert (0, f"{html}\n") == (written.exit_code, written.stdout)
    assert "<h1>Look</h1>" in html.read_text("utf-8")

    html.write_text("mine")
    refused = CliRunner().invoke(cli, ["report", str(executed)])
    assert "exists" in str(refused.exception)
    shown = CliRunner().invoke(cli, ["report", str(executed), "--output", "-"])
    assert (0, "mine") == (shown.exit_code, html.read_text())
    assert "<h1>Look</h1>" in shown.stdout

    forced = CliRunner().invoke(cli, ["report", str(executed), "--force"])
    assert 0 == forced.exit_code
    assert "<h1>Look</h1>" in html.read_text("utf-8")
