import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import nbformat
import pytest
from small_notebooks import EndWith, MakeNotebook

from toolkit import runner
from toolkit.errors import ParameterError
from toolkit.plan import ConclusionStatus
from toolkit.runner import execution
from toolkit.runner.execution import CellStep, NotebookWriter
from toolkit.runner.kernel import Interruption
from toolkit.runner.result import RunResult, RunStatus, digest_of
from toolkit.runner.run_notebook import RunTerms, _new_folder, run_notebook
from toolkit.runner.time_limits import TimeLimits
from toolkit.storage.conclusion_file import COUNTS, Conclusion
from toolkit.storage.state_folder import Operator

pytestmark = pytest.mark.starts("kernels")

Run = Callable[..., RunResult]

UNLIMITED = TimeLimits()
CONCLUDE = (
    "from toolkit.report.conclusion import conclude\n"
    "conclude('2 leftovers <b>found</b>', findings=2, problems=0)"
)
SCHEMA = json.loads(Path(runner.__file__).with_name("result.schema.json").read_text())
WAIT = """\
import pathlib, time
try:
    pathlib.Path({started!r}).touch()
    time.sleep(3600)
"""
CLEAN_UP = f"{WAIT}finally:\n    pathlib.Path({{cleaned!r}}).touch()\n"
SWALLOW = f"{WAIT}except KeyboardInterrupt:\n    pass\n"
STUBBORN = """\
import pathlib, time
while True:
    try:
        pathlib.Path({started!r}).touch()
        time.sleep(3600)
    except KeyboardInterrupt:
        pathlib.Path({cleaned!r}).touch()
"""
SLOW_ONCE = """
import pathlib, time

def slow(value=()):
    started = pathlib.Path({started!r})
    if not started.exists():
        started.touch()
        time.sleep(60)
    return list(value)

"""
SLOW_START = f"{SLOW_ONCE}get_ipython().input_transformers_post.append(slow)"
SLOW_END = f"{SLOW_ONCE}get_ipython().payload_manager.read_payload = slow"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run_one(
        notebook: Path,
        *,
        on_step: Callable[[CellStep], None] = lambda _step: None,
        limits: TimeLimits = UNLIMITED,
        **parameters: object,
    ) -> RunResult:
        runs, terms = tmp_path / "runs", RunTerms(limits=limits)
        return run_notebook(
            notebook, parameters=parameters, output_dir=runs, terms=terms, on_step=on_step
        )

    return run_one


def test_done(make_notebook: MakeNotebook, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that reaches its end leaves notebook, report and a result.json that says all of it."""
    monkeypatch.setenv("LOGNAME", "mallory")  # whoever is recorded may set that as they like
    past_jupyter = "import os; os.write(1, b'past Jupyter')"
    notebook = make_notebook(
        "# Look", past_jupyter, CONCLUDE, parameters='cluster: str = "eu"\ndays: int = 7'
    )
    steps: list[CellStep] = []

    result = run(notebook, on_step=steps.append, days=9)

    written = json.loads((result.folder / "result.json").read_text())
    assert written == result.as_dict()
    jsonschema.validate(written, SCHEMA)
    left = {"20_example.ipynb", "report.html", "result.json", "run.log"}
    assert left == {path.name for path in result.folder.iterdir()}
    assert written | {"started": "", "finished": "", "version": "", "folder": ""} == {
        "notebook": "20_example",
        "runbook": None,
        "status": "done",
        "exit_code": 0,
        "summary": "2 leftovers <b>found</b>",
        "counts": {"findings": 2, "problems": 0},
        "undo": None,
        "error": None,
        "parameters": {"cluster": "eu", "days": 9},
        "clusters": ["eu"],
        "cluster_ids": {"eu": None},
        "started": "",
        "finished": "",
        "who": Operator.here().at_host,
        "version": "",
        "folder": "",
        "report": "report.html",
        "notebook_digest": digest_of(result.folder / "20_example.ipynb"),
    }
    assert datetime.fromisoformat(written["started"]).utcoffset() == timedelta(0)
    assert [(step.number, step.total, step.heading) for step in steps] == [
        (1, 3, ""),
        (2, 3, "Look"),
        (3, 3, "Look"),
    ]
    # The log has the steps, and what the kernel's process prints past Jupyter.
    log = (result.folder / "run.log").read_text()
    for words in ("step 2 of 3: Look", "past Jupyter", "done, exit 0"):
        assert words in log
    assert "mallory" not in log


@pytest.mark.parametrize(
    ("conclusion", "code"),
    [
        (Conclusion("over the limit", ConclusionStatus.BLOCKED, {"planned": 9}), 3),
        (Conclusion("1 cluster is down", ConclusionStatus.INCOMPLETE, {"problems": 1}), 4),
    ],
)
def test_the_notebook_decides_the_outcome(
    make_notebook: MakeNotebook,
    run: Run,
    without_kernel: EndWith,
    conclusion: Conclusion,
    code: int,
) -> None:
    """One that was blocked, or could not read everything, is no success."""
    without_kernel(conclusion)

    result = run(make_notebook("1"))

    assert (RunStatus(conclusion.ending), code) == (result.status, result.exit_code)
    assert conclusion.counts == result.counts
    assert conclusion.ending.capitalize() in (result.folder / "report.html").read_text("utf-8")


def test_values_arrive_as_given(
    make_notebook: MakeNotebook, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A hostile text arrives in the notebook exactly as it was given.

    The folder is named for notebook, time and cluster, and stays where it belongs; beside it the
    run makes no file, neither while it lasts nor afterwards. Sockets have short paths, also where
    the folder for temporary files has a long one.
    """
    hostile = "007\"'\\\n{x} $HOME <img> grün \u202e"
    here, temporary = tmp_path / "here", tmp_path / ("temporary" * 10)
    here.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    seen: list[int] = []
    source = (
        f"import os; assert os.getcwd() == {str(here)!r}\n"
        f"assert group == {hostile!r}, group\nassert groups == [{hostile!r}]\nassert not apply"
    )

    result = run(
        make_notebook(
            source,
            parameters='cluster: str = ""\ngroup: str = ""\ngroups: list[str] = []\n'
            "apply: bool = True",
        ),
        on_step=lambda _step: seen.append(len(list(here.iterdir()))),
        cluster="../e u",
        group=hostile,
        groups=[hostile],
        apply=False,
    )

    assert result.error is None
    assert result.folder.parent == tmp_path / "runs"
    assert result.folder.name.endswith("Z-.._e_u")
    assert {0} == set(seen)
    assert list(here.iterdir()) == list(temporary.iterdir()) == []


def test_a_saved_approval_is_not_used(make_notebook: MakeNotebook, run: Run) -> None:
    """An approval is given with the run; one that is saved in the notebook does not count."""
    saved = (
        'dry_run: bool = False\napprove: str = "within limits"\nreason: str = "mine"\n'
        'overrides: list[str] = ["group-live"]\nlimits: list[str] = ["max_groups=5"]\n'
        'group: str = "payments"'
    )
    notebook = make_notebook(
        "assert (group, dry_run, approve, limits) == ('payments', True, 'f1', [])\n"
        "assert (reason, overrides) == ('', [])",
        parameters=saved,
    )

    result = run(notebook, approve="f1")

    assert result.error is None
    assert {"dry_run": True, "approve": "f1", "limits": []}.items() <= result.parameters.items()
    log = (result.folder / "run.log").read_text()
    assert "saved in the notebook and not used: dry_run, reason, overrides, limits" in log


def test_an_approval_in_an_executed_notebook_does_not_count(
    make_notebook: MakeNotebook, run: Run
) -> None:
    """The recorded values are those of the cells, even if none was given."""
    notebook = make_notebook(
        "print(f'approved: {approve!r}, {dry_run}')",
        parameters='dry_run: bool = True\napprove: str = ""',
    )

    first = run(notebook, dry_run=False, approve="within limits")
    (executed,) = first.folder.glob("*.ipynb")
    again = run(executed)

    assert "approved: 'within limits', False" in executed.read_text()
    assert {"dry_run": True, "approve": ""} == dict(again.parameters)
    (executed,) = again.folder.glob("*.ipynb")
    assert "approved: '', True" in executed.read_text()


@pytest.mark.parametrize("tag", [[], ["injected-parameters"]])
def test_parameters_without_their_tag_are_refused(
    make_notebook: MakeNotebook, run: Run, tag: list[str]
) -> None:
    """Values saved in such a cell would be used without notice."""
    notebook = make_notebook("dry_run = False" if tag else "ob.parameters(dry_run=dry_run)")
    content = json.loads(notebook.read_text())
    content["cells"][-1]["metadata"]["tags"] = tag
    notebook.write_text(json.dumps(content))

    with pytest.raises(ParameterError, match="no cell tagged `parameters`"):
        run(notebook)


def test_wrong_parameter_starts_nothing(
    make_notebook: MakeNotebook, run: Run, tmp_path: Path
) -> None:
    """A wrong parameter is an error before a folder is made or a kernel started."""
    with pytest.raises(ParameterError):
        run(make_notebook("1", parameters="days: int = 7"), day=9)

    assert not (tmp_path / "runs").exists()


def test_code_in_the_working_directory_is_not_imported(
    make_notebook: MakeNotebook, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with a yaml.py of its own runs nothing of it."""
    stranger = "import pathlib\npathlib.Path(__file__).with_name('executed').touch()\n"
    for name in ("yaml.py", "ipykernel_launcher.py", "stranger.py"):
        (tmp_path / name).write_text(stranger)
    monkeypatch.chdir(tmp_path)

    result = run(make_notebook("import yaml\nyaml.safe_load('1')", "import stranger"))

    assert "No module named 'stranger'" in result.error.reason
    assert not (tmp_path / "executed").exists()


def test_a_block_after_a_change_is_partly_applied(make_notebook: MakeNotebook, run: Run) -> None:
    """Neither a later blocked plan nor one without changes hides the change."""
    changed = (
        "from toolkit.errors import Blocked\n"
        "from toolkit.report.conclusion import conclude\n"
        "conclude('paused', undo='R1', changed=1)"
    )
    later = "conclude('nothing to do', changed=0)\nraise Blocked('facts moved')"

    result = run(make_notebook("## Pause", changed, "## Reset", later))

    assert (RunStatus.PARTLY_APPLIED, 4) == (result.status, result.exit_code)
    assert ({"changed": 1}, "R1") == (result.counts, result.undo)
    assert result.message == "at 'Reset': facts moved; changed: 1"


def test_several_changes_are_counted_once(make_notebook: MakeNotebook, run: Run) -> None:
    """Each is reported when it is applied and when it is concluded, in any order."""
    told = "from toolkit.report.conclusion import conclude\n"
    one, two = "conclude('one', undo='R1', changed=3)\n", "conclude('two', undo='R2', changed=2)\n"

    for said in (one + one + two + two, one + two + one + two):
        result = run(make_notebook("## Change", told + said))

        assert ({"changed": 5}, "R2") == (result.counts, result.undo)


def test_every_cluster_of_a_run_is_named(
    make_notebook: MakeNotebook, run: Run, without_kernel: EndWith
) -> None:
    """That of a copy's target, and that of a run that is undone, which no parameter names."""
    without_kernel(Conclusion("undone", cluster="asia"))
    parameters = 'cluster: str = "eu"\nto_cluster: str = "us"'

    result = run(make_notebook("1", parameters=parameters))

    assert ("eu", "us", "asia") == result.clusters == tuple(result.cluster_ids)


def test_toolkit_error(make_notebook: MakeNotebook, run: Run) -> None:
    """
    A ToolkitError's own words and exit code become the run's, with the step it happened in.

    What an object raises while it is shown stops the run as any error does.
    """
    shown = (
        "from toolkit.errors import Blocked\n"
        "class Shown:\n"
        "    def _ipython_display_(self):\n"
        "        raise Blocked('No cluster xx', hint='eu')\n"
        "Shown()"
    )

    result = run(make_notebook("## Look", "1 + 1", shown, "never = True", CONCLUDE))

    assert (result.status, result.exit_code) == (RunStatus.BLOCKED, 3)
    assert result.error.reason == "No cluster xx. Try: eu"
    assert result.error.step == "Look"
    assert result.summary == "No cluster xx. Try: eu"
    assert "No cluster xx" in (result.folder / "report.html").read_text()
    executed = nbformat.read(result.folder / "20_example.ipynb", as_version=4)
    assert "Blocked" in executed.cells[result.error.cell].source


@pytest.mark.parametrize(
    ("source", "status", "reason"),
    [
        ("1 / 0", RunStatus.FAILED, "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit()", RunStatus.FAILED, None),
        ("import sys; sys.exit(3)", RunStatus.FAILED, None),
        ("import os; os._exit(9)", RunStatus.KERNEL_DIED, None),
    ],
)
def test_a_run_that_does_not_reach_its_end(
    make_notebook: MakeNotebook, run: Run, source: str, status: RunStatus, reason: str | None
) -> None:
    """
    Any other exception, sys.exit with any code and a dead kernel fail the run.

    The step is named, and result.json and report are as of any run.
    """
    result = run(make_notebook("## Apply", source, CONCLUDE))

    assert (status, 1, "Apply") == (result.status, result.exit_code, result.error.step)
    assert reason in {None, result.error.reason}
    assert result.error.cell is not None
    jsonschema.validate(json.loads((result.folder / "result.json").read_text()), SCHEMA)
    assert (result.folder / "report.html").exists()


def until_there_is(file: Path) -> None:
    """Wait for a file, however long a busy machine takes to start a kernel."""
    while not file.exists():
        time.sleep(0.05)


def in_a_loop(work: Callable[[], RunResult]) -> RunResult:
    """Call a function inside an event loop, as a notebook does."""

    async def call() -> RunResult:
        return work()

    return asyncio.run(call())


def signal_when_there_is(file: Path, number: signal.Signals) -> None:
    """Have this process get a signal once a cell has made a file."""

    def wait() -> None:
        until_there_is(file)
        os.kill(os.getpid(), number)

    threading.Thread(target=wait, daemon=True).start()


@pytest.mark.parametrize(
    ("source", "number"),
    [
        (CLEAN_UP, signal.SIGTERM),
        (SWALLOW, signal.SIGINT),
        (SLOW_START, signal.SIGTERM),
        (SLOW_END, signal.SIGTERM),
    ],
    ids=["cleans up", "swallowed", "before the code", "after the code"],
)
def test_a_signal_in_a_cell(
    make_notebook: MakeNotebook, run: Run, tmp_path: Path, source: str, number: signal.Signals
) -> None:
    """
    A signal stops the cell, whose `finally` runs, and no further cell starts.

    So it does where the cell catches it, or the kernel prepares the cell or its reply.
    """
    started, cleaned = tmp_path / "started", tmp_path / "cleaned"
    filled = source.format(started=str(started), cleaned=str(cleaned))
    handler = signal.getsignal(number)
    signal_when_there_is(started, number)
    result = run(make_notebook("## Wait", filled, "raise RuntimeError('went on')", "2"))

    assert (RunStatus.INTERRUPTED, 1) == (result.status, result.exit_code)
    assert "Wait" == result.error.step
    assert number.name in result.error.reason
    assert "went on" not in result.error.reason
    assert cleaned.exists() == (source == CLEAN_UP)
    assert signal.getsignal(number) is handler


@pytest.mark.parametrize("call", [lambda work: work(), in_a_loop])
def test_signal_between_cells(
    make_notebook: MakeNotebook, run: Run, call: Callable[..., RunResult]
) -> None:
    """A signal before a cell is sent stops the run there, also inside the caller's event loop."""

    def stop(step: CellStep) -> None:
        if step.number == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    notebook = make_notebook("1", "raise RuntimeError('went on')")
    result = call(lambda: run(notebook, on_step=stop))

    assert result.status == RunStatus.INTERRUPTED
    assert "went on" not in result.error.reason


def test_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    """Two runs within one second have a folder each."""
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    folders = [_new_folder(tmp_path, "20_find", now, "eu") for _ in range(3)]

    assert [folder.name for folder in folders] == [
        "20_find-20260102T030405Z-eu",
        "20_find-20260102T030405Z-eu-2",
        "20_find-20260102T030405Z-eu-3",
    ]


def test_report_that_fails(
    make_notebook: MakeNotebook, run: Run, without_kernel: EndWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that cannot be written costs neither the result nor the truth about the run."""

    def fail(*_args: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("toolkit.report.html_export.write_report", fail)
    without_kernel(Conclusion("2 leftovers <b>found</b>"))

    result = run(make_notebook("1"))

    assert (result.status, result.exit_code, result.report) == (RunStatus.FAILED, 1, None)
    assert "No space left on device" in result.error.reason
    assert result.summary == "2 leftovers <b>found</b>"
    assert json.loads((result.folder / "result.json").read_text())["exit_code"] == 1


def test_a_signal_while_the_report_is_written(
    make_notebook: MakeNotebook, run: Run, without_kernel: EndWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is done then: the result says so."""

    def stop(*_args: object, **_options: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("toolkit.report.html_export.write_report", stop)
    without_kernel(Conclusion("4 done", undo="R1"))

    result = run(make_notebook("1"))

    assert (RunStatus.DONE, 0) == (result.status, result.exit_code)
    assert "R1" == json.loads((result.folder / "result.json").read_text())["undo"]


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that a cell makes when it has begun, before which no time limit is over."""
    began, after = tmp_path / "started", Interruption._after

    def not_before(self: Interruption, seconds: float, work: Callable[..., None], *given: Any):  # type: ignore[no-untyped-def]  # noqa: ANN202 - as the original
        def wait(*arguments: Any) -> None:
            until_there_is(began)
            work(*arguments)

        after(self, seconds, wait, *given)

    monkeypatch.setattr(Interruption, "_after", not_before)
    return began


LIMITED = {
    "cleans up": (CLEAN_UP, TimeLimits(run_s=1), RunStatus.TIMED_OUT, "the time limit of"),
    "stubborn": (
        STUBBORN,
        TimeLimits(step_s=1, grace_s=1),
        RunStatus.KERNEL_DIED,
        "the time limit of a step, 1 s, was exceeded, and the kernel was killed",
    ),
}


@pytest.mark.parametrize("cell", LIMITED)
def test_a_time_limit(make_notebook: MakeNotebook, run: Run, started: Path, cell: str) -> None:
    """A cell that takes too long may clean up, and is killed when its time for that is over."""
    source, limits, status, says = LIMITED[cell]
    cleaned = started.with_name("cleaned")
    filled = source.format(started=str(started), cleaned=str(cleaned))

    result = run(make_notebook("## Wait", filled, "never = True"), limits=limits)

    assert (status, 1, "Wait") == (result.status, result.exit_code, result.error.step)
    assert cleaned.exists()
    assert says in result.error.reason


CHANGING = """\
import pathlib, time
folder = pathlib.Path({folder!r})
(folder / "began").touch()
while not (folder / "not written").exists():
    print("changing", flush=True)
    time.sleep(0.05)
(folder / "went on").touch()
"""


def test_a_full_disk_does_not_stop_a_step(
    make_notebook: MakeNotebook, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell that changes something continues; what could not be written is reported."""
    monkeypatch.setattr(execution, "_AUTOSAVE_S", 0.1)
    write = NotebookWriter.write

    def write_and_tell(self: NotebookWriter, text: str, name: str) -> None:
        write(self, text, name)
        if self.why_not_written and (tmp_path / "began").exists():
            (tmp_path / "not written").touch()

    monkeypatch.setattr(NotebookWriter, "write", write_and_tell)

    def lock(step: CellStep) -> None:
        if step.number == 1:
            # A folder in the place of the file: a write fails as it does on a full disk.
            (executed,) = (tmp_path / "runs").glob("*/20_example.ipynb")
            executed.unlink()
            executed.mkdir()

    source = CHANGING.format(folder=str(tmp_path))
    result = run(make_notebook("# Apply", source), on_step=lock)

    assert (tmp_path / "went on").exists()
    assert (result.status, result.exit_code) == (RunStatus.FAILED, 1)
    assert "the executed notebook could not be written" in result.error.reason


def test_the_schema_of_a_result_is_complete() -> None:
    """No field and no status is missing from the schema, nor from the record."""
    properties = SCHEMA["properties"]

    assert {field.name for field in fields(RunResult)} == properties.keys()
    assert properties.keys() == set(SCHEMA["required"])
    assert {str(status) for status in RunStatus} == set(properties["status"]["enum"])
    assert set(COUNTS) == properties["counts"]["properties"].keys()
