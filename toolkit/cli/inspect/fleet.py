"""`offsetbook fleet add|list|check`: the clusters in the fleet file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from toolkit.cli.inspect.doctor import write_checks
from toolkit.cli.options import FLEET, OUTPUT
from toolkit.cli.output import write_rows
from toolkit.model.rows import Rows

COLUMNS = [
    *("cluster", "bootstrap_servers", "security_protocol", "sasl_mechanism"),
    *("read_only", "properties"),
]


@click.group("fleet")
def command() -> None:
    """Add clusters to the fleet file, list them, and check them."""


def _settings(
    _context: click.Context, _option: click.Parameter, texts: Sequence[str]
) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, equals, value in pairs:
        if not (name and equals and value):
            # What was written instead of a name may be a secret.
            raise click.BadParameter("write SETTING=VALUE")
    return {name.strip(): value.strip() for name, _, value in pairs}


@command.command("add")
@click.argument("name")
@click.option(
    "--bootstrap-server", "bootstrap_servers", metavar="HOST:PORT,...", help="Bootstrap servers."
)
@click.option(
    "--command-config",
    "properties",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Client properties file, Java's or librdkafka's. The fleet file refers to it.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    callback=_settings,
    metavar="SETTING=VALUE",
    help="Entry of the fleet file, such as sasl.password='${env:EU_PASSWORD}'; repeatable.",
)
@click.option("--no-check", is_flag=True, help="Add the cluster without connecting to it.")
@FLEET
def add(name: str, *, no_check: bool, fleet: Path | None, **described: Any) -> None:
    """
    Add a cluster to the fleet file after connecting to it.

    Secrets are not copied: a properties file is referred to, and with --set a secret is a reference
    (${env:NAME} or ${file:PATH}). The rest of the fleet file stays as it is. Without a fleet file,
    ./fleet.yaml is created.
    """
    from toolkit.journeys.add_cluster import NewCluster, add_cluster, check_new_cluster

    new = NewCluster(name, **described)
    if not no_check:
        write_checks(check_new_cluster(new, fleet), "table")
    path = add_cluster(new, fleet)
    click.echo(f"cluster {name} added to {path}", err=True)


@command.command("list")
@FLEET
@OUTPUT
def list_clusters(*, fleet: Path | None, output: str) -> None:
    """List the clusters in the fleet file, without connecting to them."""
    from toolkit.storage.fleet_file import find_fleet_file, load_fleet, properties_files

    path = find_fleet_file(fleet)
    properties = properties_files(path)
    rows = [
        (
            cluster.name,
            cluster.bootstrap_servers,
            cluster.settings.get("security.protocol", "PLAINTEXT"),
            cluster.settings.get("sasl.mechanism", ""),
            cluster.policy.read_only,
            properties.get(cluster.name, ""),
        )
        for cluster in load_fleet(path).values()
    ]
    write_rows(Rows(dict.fromkeys(COLUMNS, "text"), rows), output, important=COLUMNS)


@command.command("check")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@FLEET
@OUTPUT
def check(names: Sequence[str], *, fleet: Path | None, output: str) -> None:
    """
    Connect to clusters and report brokers, version, permissions and clock.

    NAME is a cluster of the fleet file or HOST:PORT; default: the whole fleet. Exit code: 0 no
    error, 1 an error on every cluster, 4 an error on some.
    """
    from toolkit.journeys.doctor import check_fleet

    report = check_fleet(names, fleet)
    write_checks(report, output)
    sys.exit(report.exit_code)
