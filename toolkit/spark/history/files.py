"""
The files below one folder, on whatever file system Spark's own Hadoop client knows.

Everything goes through that client in the session's JVM, so a folder on HDFS or S3 is reached with
the settings and credentials that Spark has already. It needs a session with a JVM of its own, which
a Spark Connect session has not.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from toolkit.errors import PrerequisiteMissing, StateFileError

SPARK_FAILED = (PySparkException, Py4JError)  # what a Spark job may end with
GLOB_CHARACTERS = frozenset("{}[]*?\\^")


class HistoryFiles:
    """Files named by their path below a root; StateFileError where the file system refuses."""

    def __init__(self, session: SparkSession, root: str) -> None:
        """
        Take a folder by its path or URL; it is made when the first file is written.

        Raises StateFileError where no file system is known for it, or where its name has a
        character by which Spark means many files; PrerequisiteMissing for a session without a JVM.
        """
        if GLOB_CHARACTERS & set(root):
            raise StateFileError(f"the folder {root!r} has a character that stands for many files")
        with _naming(f"opening {root}"):
            jvm, context = _jvm_of(session)
            path = jvm.org.apache.hadoop.fs.Path(root)
            self._path: Any = jvm.org.apache.hadoop.fs.Path
            self._fs = path.getFileSystem(context.hadoopConfiguration())
            self.root: str = self._fs.makeQualified(path).toString().rstrip("/")

    def url(self, path: str) -> str:
        """Return what Spark's readers and writers take for a path."""
        return f"{self.root}/{path}"

    def sizes(self, folder: str) -> dict[str, int]:
        """Return what a folder holds, with sizes in bytes; {} where there is no such folder."""
        with _naming(f"listing {self.url(folder)}"):
            if not self._fs.exists(self._at(folder)):
                return {}
            found = list(self._fs.listStatus(self._at(folder)))
            return {status.getPath().getName(): status.getLen() for status in found}

    def find(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern, in which `*` stands for any part of one name."""
        with _naming(f"looking for {self.url(pattern)}"):
            found = self._fs.globStatus(self._at(pattern)) or []
            return [one.getPath().toString().removeprefix(f"{self.root}/") for one in found]

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        with _naming(f"looking for {self.url(path)}"):
            return bool(self._fs.exists(self._at(path)))

    def read(self, path: str) -> str:
        """Return a file's text."""
        with _naming(f"reading {self.url(path)}"):
            stream = self._fs.open(self._at(path))
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    def write_once(self, path: str, text: str) -> bool:
        """
        Write a file that is either there with its whole text, or not at all.

        Returns whether it was written: a file that exists is left as it is.
        """
        if self.exists(path):
            return False
        draft = f"{path}.{uuid.uuid4().hex}.draft"
        with _naming(f"writing {self.url(path)}"):
            stream = self._fs.create(self._at(draft), False)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
            written = bool(self._fs.rename(self._at(draft), self._at(path)))
            if not written:
                with suppress(Py4JError):
                    self._fs.delete(self._at(draft), False)
        if not written and not self.exists(path):
            raise StateFileError(
                f"writing {self.url(path)}: the file system did not rename the draft"
            )
        return written

    def move(self, source: str, target: str) -> None:
        """Move a file or folder to where there is none yet; raises StateFileError if there is."""
        if self.exists(target):
            raise StateFileError(f"moving {self.url(source)}: {self.url(target)} exists")
        with _naming(f"moving {self.url(source)} to {self.url(target)}"):
            self._fs.mkdirs(self._at(target).getParent())
            if self._fs.rename(self._at(source), self._at(target)):
                return
        raise StateFileError(f"moving {self.url(source)} to {self.url(target)} was refused")

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens if there is none."""
        with _naming(f"removing {self.url(path)}"):
            self._fs.delete(self._at(path), True)

    def remove_if_empty(self, folder: str) -> None:
        """Remove a folder in which nothing is left; somebody may be putting something there."""
        with _naming(f"removing {self.url(folder)}"):
            if not self.sizes(folder):
                with suppress(Py4JError):
                    self._fs.delete(self._at(folder), False)

    def _at(self, path: str) -> Any:
        return self._path(self.url(path))


def _jvm_of(session: SparkSession) -> tuple[Any, Any]:
    try:
        return session._jvm, session._jsc  # noqa: SLF001 - PySpark has no public way to Hadoop's client
    except (AttributeError, PySparkException) as exc:
        raise PrerequisiteMissing(
            "this Spark session has no JVM of its own (Spark Connect), which reaches the files",
            hint="a classic session, or spark-submit",
        ) from exc


@contextmanager
def _naming(doing: str) -> Iterator[None]:
    """Turn what Java throws into our own words."""
    try:
        yield
    except Py4JJavaError as exc:
        thrown = exc.java_exception
        raise StateFileError(
            f"{doing}: {thrown.getMessage() or thrown.getClass().getName()}"
        ) from exc
    except (Py4JError, PySparkException) as exc:
        raise StateFileError(f"{doing}: {exc}") from exc
