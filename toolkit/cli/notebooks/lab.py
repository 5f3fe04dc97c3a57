"""`offsetbook lab`: JupyterLab on working copies of the notebooks."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from toolkit.cli.options import WholeNumber
from toolkit.errors import UsageError

TOUR = "00_tour.ipynb"


@click.command("lab")
@click.argument("directory", default=".", type=click.Path(file_okay=False))
@click.argument("options", nargs=-1, metavar="[-- JUPYTERLAB_OPTION...]")
@click.option(
    "--sandbox", "with_sandbox", is_flag=True, help="Start the sandbox, and open the tour of it."
)
@click.option("--port", type=WholeNumber(1, 65535), default=8888, show_default=True)
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening it.")
def command(
    *, directory: str, options: tuple[str, ...], with_sandbox: bool, port: int, no_browser: bool
) -> None:
    """
    Open JupyterLab on the notebooks in DIRECTORY (default: here), and copy there what is missing.

    Edits stay in these copies. See `offsetbook init --update` for what a new version changes. What
    follows -- is passed to JupyterLab, for example --allow-root.
    """
    from toolkit.cli.notebooks.init import show_copied
    from toolkit.templates.working_copies import copy_templates

    if directory.startswith("-"):  # without DIRECTORY, click takes what follows -- for it
        directory, options = ".", (directory, *options)
    port, options = _port_of(options, port)
    folder = Path(directory)
    _check_port(port)
    show_copied(folder, copy_templates(folder), update=False)
    if with_sandbox:
        from toolkit.sandbox.fleet import Sandbox

        sandbox = Sandbox()
        sandbox.up(on_step=lambda step: click.echo(step, err=True))
        os.environ["OFFSETBOOK_FLEET"] = str(sandbox.fleet_file)
    first = f"/lab/tree/notebooks/{TOUR}" if with_sandbox else "/lab/tree/notebooks"
    command_line = [
        f"--ServerApp.root_dir={folder.resolve()}",
        f"--LabApp.default_url={first}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        *(["--no-browser"] if no_browser else []),
        *options,
    ]
    sys.stdout.flush()
    sys.stderr.flush()
    # In place of this process, so that Ctrl-C and the exit code are JupyterLab's.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "jupyterlab", *command_line])  # noqa: S606 -- no shell is needed


def _port_of(options: Sequence[str], port: int) -> tuple[int, tuple[str, ...]]:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--port", "--ServerApp.port", type=int, default=port)
    try:
        named, others = parser.parse_known_args(options)
    except argparse.ArgumentError as exc:
        raise UsageError(f"JupyterLab option {exc}") from exc
    return named.port, tuple(others)


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        # As the server does: what was closed a moment ago is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as exc:
            raise UsageError(
                f"port {port} cannot be used: {exc.strerror}", hint="choose another with --port"
            ) from exc
