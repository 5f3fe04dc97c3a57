"""
An archive of the classes that Spark loads, from which its JVM starts with half the work (JEP 350).

It is made on request only, by `offsetbook warm-up`, or when a container image is built: making it
takes some 20 CPU seconds and 160 MB. It fits one Java and one set of jars, and is named after both;
a JVM that cannot use it loads its classes as ever.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from toolkit.errors import PrerequisiteMissing
from toolkit.spark.java import find_java, java_version
from toolkit.storage.formats.user_folders import cache_folder

# The JVM reports hundreds of times on stdout, where tables go, what it leaves out.
SILENT = ("-Xlog:disable", "-Xlog:all=error:stderr")


def archive_file(*, in_environment: bool = False) -> Path:
    """Return where the archive for this Java and these jars is: of the user, or of all users."""
    folder = Path(sys.prefix, "share", "offsetbook") if in_environment else cache_folder()
    return folder / f"spark-classes-{_fingerprint()}.jsa"


def archive_options() -> tuple[str, ...]:
    """Return options of a JVM that starts from an archive; none where there is no archive."""
    for in_environment in (False, True):
        file = archive_file(in_environment=in_environment)
        if file.is_file():
            return (f"-XX:SharedArchiveFile={file}", *SILENT)
    return ()


def make_archive(file: Path) -> None:
    """
    Run Spark once in a process of its own, and keep the classes that it has loaded.

    Raises PrerequisiteMissing without Java, or where the JVM leaves no archive.
    """
    find_java()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            unfinished = Path(folder, file.name)
            command = [sys.executable, "-P", "-m", "toolkit.spark.run_once", str(unfinished)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode or not unfinished.exists():
                raise PrerequisiteMissing(
                    f"no archive of Spark's classes was made: {done.stderr.strip()[-500:]}",
                    hint="check Java: offsetbook doctor",
                )
            unfinished.replace(file)
    except OSError as exc:
        raise PrerequisiteMissing(
            f"the archive {file} cannot be written: {exc}", hint="set XDG_CACHE_HOME"
        ) from exc


def _fingerprint() -> str:
    """Return what changes with Java and with Spark's jars, without which an archive is no use."""
    parts = [str(find_java()), java_version(find_java()), *_jars()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _jars() -> Iterator[str]:
    spec = find_spec("pyspark")
    if spec and spec.origin:
        for jar in sorted(Path(spec.origin).with_name("jars").glob("*.jar")):
            found = jar.stat()
            # The layers of an image keep whole seconds, and the JVM compares no more than these.
            yield f"{jar} {found.st_size} {int(found.st_mtime)}"
