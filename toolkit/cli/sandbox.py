"""offsetbook sandbox: real Apache Kafka on this machine, with one consumer group per problem."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit.cli.options import OUTPUT, clusters_option
from toolkit.cli.output import write_rows
from toolkit.model.plurals import counted
from toolkit.model.rows import Rows

if TYPE_CHECKING:
    from toolkit.sandbox.fleet import Sandbox

_state_dir = click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="OFFSETBOOK_SANDBOX",
    default=".sandbox",
    show_default=True,
    help="Directory for data, logs and fleet.yaml. Environment: $OFFSETBOOK_SANDBOX.",
)


@click.group("sandbox")
def command() -> None:
    """Run real Apache Kafka on this machine, with one consumer group per problem."""


@command.command()
@clusters_option("Name of a cluster; repeatable. Default: eu and us.")
@click.option("--version", default="4.3.1", show_default=True, help="Version of Apache Kafka.")
@click.option("--no-seed", is_flag=True, help="Do not create topics, groups and applications.")
@click.option("--fresh", is_flag=True, help="Delete the data of the clusters and seed them again.")
@click.option(
    "--secure",
    is_flag=True,
    help="TLS, SCRAM and ACLs: fleet.yaml connects as operator, viewer.yaml and pipeline.yaml as "
    "the other roles of docs/acls.md.",
)
@click.option(
    "--brokers",
    type=click.Choice(["1", "3", "5"]),
    help="Brokers of each new cluster; of 3 any one may be lost. Default: 1.",
)
@OUTPUT
@_state_dir
def up(  # noqa: PLR0913 -- click hands over each option by name
    clusters: tuple[str, ...],
    version: str,
    *,
    no_seed: bool,
    fresh: bool,
    secure: bool,
    brokers: str | None,
    output: str,
    state_dir: Path,
) -> None:
    """
    Start and seed the clusters. Running clusters are not touched.

    Problems that were solved, for example by the tour, stay solved; --fresh brings them back.
    """
    from toolkit.sandbox.fleet import NAMES, Sandbox

    sandbox = Sandbox(state_dir, version=version, brokers=int(brokers) if brokers else None)
    sandbox.up(clusters or NAMES, seed=not no_seed, fresh=fresh, secured=secure, on_step=_say)
    _print_status(sandbox, by_group=False, output=output)
    _say(f"fleet file: {sandbox.fleet_file}")


@command.command()
@_state_dir
def down(state_dir: Path) -> None:
    """Stop all brokers and applications. Data is kept."""
    from toolkit.sandbox.fleet import Sandbox

    ended = Sandbox(state_dir).down(on_step=_say)
    count = counted(len(ended), "process", "processes")
    _say(f"{count} stopped" if ended else "nothing was running")


@command.command()
@click.option(
    "--groups", "by_group", is_flag=True, help="Also list the seeded groups and their problems."
)
@OUTPUT
@_state_dir
def status(*, by_group: bool, output: str, state_dir: Path) -> None:
    """Show running clusters, and whether every seeded problem is visible."""
    from toolkit.sandbox.fleet import Sandbox

    _print_status(Sandbox(state_dir), by_group=by_group, output=output)


def _print_status(sandbox: Sandbox, *, by_group: bool, output: str) -> None:
    clusters = sandbox.status()
    rows: list[Mapping[str, object]] = [cluster.as_row() for cluster in clusters]
    if by_group:
        rows = [row for cluster in clusters for row in cluster.group_rows()]
    if rows:
        table = Rows(dict.fromkeys(rows[0], "text"), [tuple(row.values()) for row in rows])
        write_rows(table, output)
    else:
        _say("no cluster was started here")


def _say(step: str) -> None:
    click.echo(step, err=True)
