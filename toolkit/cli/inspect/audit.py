"""`offsetbook audit`: who changed what, when and why, and whether the log is intact."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.options import FLEET, OUTPUT, cluster_option, group_names_option
from toolkit.cli.output import PARTLY, echo_error, write_rows
from toolkit.errors import NotFound, StateFileError
from toolkit.model.groups import all_meant
from toolkit.model.names import did_you_mean, shown_name
from toolkit.model.plurals import counted

if TYPE_CHECKING:
    from toolkit.report.audit_report import AuditReport

STATE = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory. Default: $OFFSETBOOK_STATE, `state` in the fleet file, or the user's "
    "state directory.",
)

# What gets room first on a narrow terminal.
FIRST = ("run", "cluster", "who", "request", "result", "reason", "at", "interrupted")
FIRST_OF_CHANGES = (
    *("group", "topic", "partition", "before", "after", "status", "cluster", "run", "who"),
    "why",
)


@click.group("audit")
def command() -> None:
    """Show the audit log of changes, and verify its integrity."""


@command.command("list")
@FLEET
@STATE
@cluster_option("Only runs on this cluster.")
@group_names_option("Only runs that changed this group; names and shell patterns; repeatable.")
@click.option("--changes", is_flag=True, help="One row per change instead of one per run.")
@OUTPUT
def list_runs(
    *, fleet: Path | None, state: Path | None, changes: bool, output: str, **given: Any
) -> None:
    """List runs, newest first: user, reason, result, and the run id for 'offsetbook undo'."""
    from toolkit.journeys.audit import audit

    cluster, groups = given["cluster"] or "", given["groups"]
    report = audit(state, cluster=cluster, groups=groups, fleet_file=fleet)
    errors: list[NotFound] = []
    if not report.exists:
        click.echo(report.summary, err=True)
    elif report.is_removed:
        raise StateFileError(
            f"nothing is left of the audit log in {report.state} but its end",
            hint="'offsetbook audit verify' tells how many entries are missing",
        )
    else:
        report = _of_cluster(report, fleet)
        errors = _missing_groups(report)
    rows, first = (report.change_rows, FIRST_OF_CHANGES) if changes else (report.run_rows, FIRST)
    write_rows(rows, output, important=first)
    for error in errors:
        echo_error(error)
    sys.exit(PARTLY if errors else 0)


def _of_cluster(report: AuditReport, fleet_file: Path | None) -> AuditReport:
    """
    Return the report, with the name that the fleet file has for a cluster's address.

    Raises NotFound for a cluster that neither the log nor the fleet file has.
    """
    if report.cluster in {"", *report.all_clusters}:
        return report
    from toolkit.storage.fleet_file import fleet_file_in_use, load_fleet

    if ":" in report.cluster:
        from toolkit.journeys.cluster_access import cluster_at

        cluster = cluster_at(report.cluster, fleet_file).name
        if cluster != report.cluster:
            return replace(report, cluster=cluster)
    path = fleet_file_in_use(fleet_file)
    if path is None or report.cluster not in load_fleet(path):
        known = ", ".join(sorted(report.all_clusters))
        hint = f"use one of: {known}" if known else ""
        raise NotFound(f"no run of cluster {report.cluster!r} is in the audit log", hint=hint)
    return report


def _missing_groups(report: AuditReport) -> list[NotFound]:
    """Return an error for each group that no run changed; raises it where there is no other."""
    known = report.all_groups if report.groups else frozenset[str]()
    errors = [
        NotFound(f"group {shown_name(name)}: no run changed it{did_you_mean(name, known)}")
        for name in all_meant(report.groups, known)[1]
    ]
    if errors and len(errors) == len(report.groups):
        raise errors[0]
    return errors


@command.command("verify")
@FLEET
@STATE
def verify_log(fleet: Path | None, state: Path | None) -> None:
    """
    Check the log for changed, removed, reordered or duplicated lines.

    The exit code is 1 if there are any, or if there is no log. Files of the state directory that
    every user can open are a warning.
    """
    from toolkit.journeys.audit import audit

    report = audit(state, fleet_file=fleet)
    if not report.exists:  # that a missing log is intact proves nothing
        raise NotFound(
            f"no audit log in {report.state}",
            hint="check --state; before the first change there is none",
        )
    for flaw in (*report.flaws, *report.harmless_flaws):
        click.echo(flaw)
    if report.open_to_others:
        click.echo(f"warning: {report.open_to_others}", err=True)
    if report.is_intact:
        entries = counted(report.entry_count, "entry", "entries")
        click.echo(f"intact: {entries} in {report.state}")
    sys.exit(0 if report.is_intact else 1)
