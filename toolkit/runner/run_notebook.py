"""One run of a notebook, from checked parameters to the folder with its results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from toolkit.errors import PartlyApplied, ToolkitError, UsageError
from toolkit.model import Cluster
from toolkit.model.side_by_side import side_by_side
from toolkit.operate.deferred_signals import defer_signals
from toolkit.report.display import HEADLESS_VARIABLE
from toolkit.runner.execution import CellStep, NotebookJob, RunEnd, execute
from toolkit.runner.parameters import (
    Parameter,
    check_parameters,
    path_in,
    read_parameters,
    saved_approval,
)
from toolkit.runner.result import RunResult, RunStatus, StepFailed, digest_of
from toolkit.runner.run_log import RunLog, run_log
from toolkit.runner.time_limits import TimeLimits
from toolkit.storage.conclusion_file import FILE_VARIABLE, Conclusion, read_conclusion
from toolkit.storage.fleet_file import load_fleet
from toolkit.storage.state_folder import Operator

REPORT_NAME = "report.html"
_LONGEST_LABEL = 40


@dataclass(frozen=True, slots=True)
class RunTerms:
    """On whose behalf a notebook is run, and how long it may take."""

    runbook: str | None = None
    limits: TimeLimits = field(default_factory=TimeLimits)


def run_notebook(
    notebook: Path,
    *,
    parameters: Mapping[str, object],
    output_dir: Path,
    on_step: Callable[[CellStep], None] = lambda _step: None,
    terms: RunTerms = RunTerms(),
) -> RunResult:
    """
    Run a notebook from top to bottom in a new folder of its own.

    The folder holds the executed notebook, `report.html`, `run.log` and, written last,
    `result.json`. Wrong parameters raise ParameterError before anything is made; what goes wrong
    afterwards is in the result, and where that cannot be written RunFailed is raised. Relative
    paths in the notebook are relative to the working directory, as with plain papermill. An
    approval that is saved in the notebook is not used: `dry_run`, `approve`, `reason`, `overrides`
    and `limits` must be given.
    """
    declared = read_parameters(notebook)
    parameters, notes = _checked(declared, parameters, notebook=notebook.name)
    values = {p.name: p.default for p in declared} | parameters
    started = datetime.now(UTC)
    clusters = _clusters_of(values)
    folder = _new_folder(output_dir, terms.runbook or notebook.stem, started, "-".join(clusters))
    handed_over = folder / ".conclusion.json"
    executed = folder / f"{notebook.stem}.ipynb"
    with run_log(folder) as log, ThreadPoolExecutor(1) as aside:
        by = f"by {Operator.here().at_host} with offsetbook {version('offsetbook')}"
        for note in [f"{notebook.stem} begins, {by}", *notes]:
            log.say(note)
        ids = aside.submit(_cluster_ids, values, clusters)
        environment = _environment(handed_over)
        job = NotebookJob(notebook, values, environment, terms.limits, _logged(on_step, log))
        stop = execute(job, executed, log)
        with defer_signals():  # all is done; what remains is to say so
            conclusion = read_conclusion(handed_over)
            handed_over.unlink(missing_ok=True)
            ending, known = _ending(stop, conclusion), ids.result()
            result = _result(folder, ending, conclusion, values, started)
            result = replace(
                result,
                notebook=notebook.stem,
                notebook_digest=digest_of(executed),
                runbook=terms.runbook,
                cluster_ids=known | _cluster_ids(values, result.clusters[len(known) :]),
            )
            result = _with_report(result, executed)
            log.say(f"{result.status}, exit {result.exit_code}: {result.message}")
            result.write()
    return result


def _checked(
    declared: Sequence[Parameter], given: Mapping[str, object], *, notebook: str
) -> tuple[dict[str, object], list[str]]:
    """Return the values to run with, and notes about them."""
    check_parameters(declared, given, notebook=notebook)
    unapproved = saved_approval(declared, given)
    notes = [f"saved in the notebook and not used: {', '.join(unapproved)}"] if unapproved else []
    return {**given, **unapproved}, notes


def _environment(conclusion: Path) -> dict[str, str]:
    return {
        FILE_VARIABLE: str(conclusion),
        HEADLESS_VARIABLE: "1",
        # A figure shown by plotly itself must reach the report as data, too.
        "PLOTLY_RENDERER": "plotly_mimetype",
    }


def _logged(on_step: Callable[[CellStep], None], log: RunLog) -> Callable[[CellStep], None]:
    def say(step: CellStep) -> None:
        log.say(f"step {step.number} of {step.total}: {step.heading}")
        on_step(step)

    return say


def _new_folder(output_dir: Path, stem: str, started: datetime, label: str) -> Path:
    """Make the run's folder; an existing one is never written into."""
    label = re.sub(r"[^A-Za-z0-9._-]+", "_", label)[:_LONGEST_LABEL]
    name = "-".join(part for part in (stem, f"{started:%Y%m%dT%H%M%SZ}", label) if part)
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, 1000):
            folder = output_dir.resolve() / (name if attempt == 1 else f"{name}-{attempt}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue  # two runs began within one second
            return folder
    except OSError as exc:
        raise UsageError(
            f"cannot create the run directory in {output_dir}: {exc.strerror}",
            hint="use another --output-dir",
        ) from exc
    raise UsageError(f"{output_dir} already has 1000 runs named {name}")


def _ending(stop: RunEnd, conclusion: Conclusion) -> RunEnd:
    """Return how a run ended, by its cells and by what the notebook concluded."""
    ended = conclusion.ending
    if stop.status is RunStatus.BLOCKED and conclusion.counts.get("changed"):
        return replace(stop, status=RunStatus.PARTLY_APPLIED, exit_code=PartlyApplied.exit_code)
    return stop if stop.error else RunEnd(RunStatus(ended.value), ended.exit_code)


def _result(
    folder: Path,
    ending: RunEnd,
    conclusion: Conclusion,
    values: dict[str, object],
    started: datetime,
) -> RunResult:
    return RunResult(
        notebook="",
        runbook=None,
        status=ending.status,
        exit_code=ending.exit_code,
        summary=conclusion.summary or (ending.error.reason if ending.error else ""),
        counts=conclusion.counts,
        undo=conclusion.undo,
        error=ending.error,
        parameters=values,
        clusters=_with(_clusters_of(values), conclusion.cluster),
        cluster_ids={},
        started=started,
        finished=datetime.now(UTC),
        who=Operator.here().at_host,
        version=version("offsetbook"),
        folder=folder,
    )


def _with_report(result: RunResult, executed: Path) -> RunResult:
    """Write the report; a run without its report is not done, whatever it did."""
    from toolkit.report.html_export import write_report  # noqa: PLC0415 - nbconvert is slow to import

    shown = replace(result, report=REPORT_NAME)
    try:
        write_report(executed, result.folder / REPORT_NAME, result=shown.as_dict())
    except Exception as exc:  # noqa: BLE001 - result.json must be written whatever the export does
        lost = f"the report could not be written ({type(exc).__name__}: {exc})"
        reason = f"{result.error.reason}; and {lost}" if result.error else lost
        error = replace(result.error or StepFailed(reason), reason=reason)
        status = RunStatus.FAILED if result.exit_code == 0 else result.status
        return replace(result, status=status, exit_code=result.exit_code or 1, error=error)
    return shown


def _clusters_of(values: Mapping[str, object]) -> tuple[str, ...]:
    """
    Return the names in the parameters about clusters; an empty `clusters` means all.

    Where the fleet file cannot be read, all are none: the notebook itself says why.
    """
    many = values.get("clusters")
    names = [values.get("cluster"), values.get("to_cluster")]
    names += many if isinstance(many, list) else [many]
    named = tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name))
    if many == []:
        return named or tuple(_fleet(values))
    return named


def _with(clusters: tuple[str, ...], changed: str) -> tuple[str, ...]:
    """Return them with the one of a plan, which need not be among the parameters of an undo."""
    return clusters if changed in {"", *clusters} else (*clusters, changed)


def _cluster_ids(values: Mapping[str, object], names: Sequence[str]) -> dict[str, str | None]:
    """Return the id of each cluster of a run; None where it is not in the fleet or is silent."""
    fleet = _fleet(values)
    return dict(zip(names, side_by_side(_id, [fleet.get(name) for name in names]), strict=True))


def _fleet(values: Mapping[str, object]) -> dict[str, Cluster]:
    try:
        return load_fleet(path_in(values, "fleet_file"))
    except ToolkitError:
        return {}


def _id(cluster: Cluster | None) -> str | None:
    # Slower to import than a wrong parameter may cost.
    from toolkit.kafka_io.client.connection import Connection  # noqa: PLC0415

    if cluster is None:
        return None
    try:
        with Connection(cluster) as connection:
            return connection.cluster_id or None
    except ToolkitError:
        return None
