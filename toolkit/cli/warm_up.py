"""`offsetbook warm-up`: an archive of Spark's classes, from which its JVM starts faster."""

from __future__ import annotations

import sys

import click

from toolkit.cli.progress_line import ProgressLine


@click.command("warm-up")
@click.option(
    "--environment",
    "in_environment",
    is_flag=True,
    help="Put the archive into this Python environment, for all its users, as in an image.",
)
def command(*, in_environment: bool) -> None:
    """
    Make Spark start with half the work: archive the classes that it loads.

    It takes about half a minute and 160 MB, once for each version of Java and Spark. Spark runs
    the same without: it only starts slower. To undo it, remove the file that is named.
    """
    from toolkit.spark.class_archive import archive_file, make_archive

    file = archive_file(in_environment=in_environment)
    if file.exists():
        click.echo(f"{file} is there already")
        return
    with ProgressLine("warm-up", visible=sys.stderr.isatty()) as progress:
        progress.show("running Spark once, and archiving its classes")
        make_archive(file)
    click.echo(f"{file}: {file.stat().st_size / 1e6:.0f} MB")
