"""Compare the installed packages with what offsetbook needs, without importing them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from toolkit.errors import PrerequisiteMissing, require_all

DISTRIBUTION = "offsetbook"
IMPORT_NAMES = ("toolkit", "widgets")
OWN_ENVIRONMENT = "use an environment of its own for offsetbook"


def require_installation() -> None:
    """Raise PrerequisiteMissing or SeveralMissing unless every package is installed as required."""
    packages = (partial(_require_package, package) for package in required_packages())
    require_all(*packages, *(partial(_require_own_package, name) for name in IMPORT_NAMES))


def required_packages() -> Iterator[Requirement]:
    """Yield what the installed offsetbook needs on this Python and system, without extras."""
    for text in requires(DISTRIBUTION) or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def why_unusable(package: Requirement) -> str:
    """Return why an installed package does not meet a requirement; "" if it does."""
    try:
        installed = version(package.name)
    except PackageNotFoundError:
        return "not installed"
    if package.specifier.contains(installed, prereleases=True):
        return ""
    return f"{installed} is installed, and offsetbook needs {package.specifier}"


def is_own_package(name: str) -> bool:
    """Return whether an import name leads to offsetbook and not to another package."""
    spec = find_spec(name)
    root = Path(__file__).parents[2]
    return bool(spec and spec.origin and Path(spec.origin).parents[1] == root)


def install_command(package: Requirement) -> str:
    return f"python -m pip install '{package.name}{package.specifier}'"


def _require_package(package: Requirement) -> None:
    if why := why_unusable(package):
        hint = f"{install_command(package)}, then restart the kernel"
        raise PrerequisiteMissing(f"package {package.name}: {why}", hint=hint)


def _require_own_package(name: str) -> None:
    if not is_own_package(name):
        problem = f"'import {name}' imports a package that is not offsetbook's"
        raise PrerequisiteMissing(problem, hint=OWN_ENVIRONMENT)
