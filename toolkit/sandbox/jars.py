"""
Apache Kafka's jars, fetched once by the dependency resolver that ships inside PySpark, and run.

The resolver is run by itself: through `spark-submit` it would first start Spark and also ask a
second repository. A proxy or a trust store is given to it in `JAVA_TOOL_OPTIONS`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from toolkit.errors import PrerequisiteMissing, UsageError
from toolkit.spark.java import find_java, quick_jvm
from toolkit.storage.formats.file_lock import exclusively
from toolkit.storage.formats.user_folders import cache_folder

VERSION = "4.3.1"
_HERE = Path(__file__).parent
_PROGRESS_EVERY = 10  # jars

_HEAP = "512m"
_MORE_OPTIONS: tuple[str, ...] = ()  # such as an archive of classes
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


@dataclass(frozen=True, slots=True)
class _Bundle:
    """Jars that are fetched together: for what, by which Ivy file, and which must be there."""

    words: str
    folder: str
    ivy: str
    needed: tuple[str, ...]


KAFKA = _Bundle("Apache Kafka {} (about 45 MB)", "kafka", "ivy.xml", ("kafka_2.13", "kafka-tools"))
STREAMS = _Bundle("Kafka Streams {} (2 MB)", "streams", "ivy-streams.xml", ("kafka-streams",))


def kafka_jars(version: str, *, on_step: Callable[[str], None] = lambda _: None) -> Path:
    """Return the directory with the jars of `version`, fetching them when it is the first time."""
    return _cached(KAFKA, version, on_step=on_step)


def streams_jars(version: str, *, on_step: Callable[[str], None] = lambda _: None) -> Path:
    """Return the directory with the jar that Streams applications need besides Kafka's own."""
    return _cached(STREAMS, version, on_step=on_step)


def kafka_command(main: str, *, version: str = VERSION) -> list[str]:
    """Return the command that runs a Java class of Apache Kafka, to which arguments are added."""
    java = (str(find_java()), *quick_jvm(_HEAP), *_MORE_OPTIONS)
    return [*java, *_LOGGING, "-cp", f"{kafka_jars(version)}/*", main]


def _cached(bundle: _Bundle, version: str, *, on_step: Callable[[str], None]) -> Path:
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        known = [name.removeprefix("kafka-") for name in _digests() if name.startswith("kafka-")]
        raise UsageError(
            f"{version!r} is not a version of Apache Kafka",
            hint=f"use a whole one, such as {', '.join(known)}",
        )
    jars = cache_folder() / f"{bundle.folder}-{version}"
    if jars.exists():
        return jars

    def waiting() -> None:
        on_step(f"another process is fetching {bundle.words.format(version)}, waiting for it")

    with exclusively(jars.with_name(f"{jars.name}.lock"), on_wait=waiting):
        if not jars.exists():
            _fetch(bundle, version, jars, on_step=on_step)
    return jars


def _fetch(bundle: _Bundle, version: str, jars: Path, *, on_step: Callable[[str], None]) -> None:
    """Download next to `jars` and rename at the end, so that the folder is always complete."""
    # It stays after a failure: the next try continues.
    unfinished = jars.with_name(f"{jars.name}.partial")
    retrieved = unfinished / "jars"
    shutil.rmtree(retrieved, ignore_errors=True)
    words = bundle.words.format(version)
    on_step(f"fetching {words}, the first time only")
    resolver = _resolver(bundle, version, unfinished, retrieved)
    output = list(_follow(resolver, on_step=on_step))
    for needed in bundle.needed:
        if not list(retrieved.glob(f"*{needed}-{version}.jar")):
            raise PrerequisiteMissing(
                f"fetching {words} failed: {_reason(output)}",
                hint="check the version and the network; behind a proxy, "
                "JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=... -Dhttps.proxyPort=...'",
            )
    check_digests(retrieved, jars.name, on_step=on_step)
    retrieved.rename(jars)
    shutil.rmtree(unfinished)


def check_digests(
    folder: Path, bundle: str, *, on_step: Callable[[str], None] = lambda _: None
) -> None:
    """
    Compare the jars in a folder with the SHA-256 digests of a bundle such as "kafka-4.3.1".

    Raises PrerequisiteMissing that names each jar that differs, is missing or is not in the list.
    Of versions without a list, which only users ask for, it says that nothing was compared.
    """
    released = _digests().get(bundle)
    if released is None:
        on_step(f"  no digests are known of {bundle}: its jars were not verified")
        return
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.iterdir()}
    if wrong := sorted(name for name, _ in released.items() ^ found.items()):
        raise PrerequisiteMissing(
            f"jars of {bundle} are not those that were released: {', '.join(dict.fromkeys(wrong))}",
            hint=f"find out who changed them; they are in {folder} and are not used",
        )


def _digests() -> dict[str, dict[str, str]]:
    digests: dict[str, dict[str, str]] = json.loads((_HERE / "jar_digests.json").read_text("utf-8"))
    return digests


def _resolver(bundle: _Bundle, version: str, cache: Path, target: Path) -> list[str]:
    # The organisation is in the name because two projects may each have a "core" jar.
    pattern = target / "[organisation]_[artifact]-[revision](-[classifier]).[ext]"
    return [
        *(str(find_java()), f"-Dkafka.version={version}", "-jar", str(_ivy())),
        *("-settings", str(_HERE / "ivysettings.xml"), "-ivy", str(_HERE / bundle.ivy)),
        *("-cache", str(cache / "ivy"), "-retrieve", str(pattern)),
    ]


def _ivy() -> Path:
    pyspark = find_spec("pyspark")
    found = (
        sorted(Path(pyspark.origin).parent.glob("jars/ivy-*.jar"))
        if pyspark and pyspark.origin
        else []
    )
    if not found:
        raise PrerequisiteMissing(
            "fetching Apache Kafka needs the resolver of the pyspark package",
            hint="pip install pyspark",
        )
    return found[-1]


def _follow(command: list[str], *, on_step: Callable[[str], None]) -> Iterator[str]:
    """Run the resolver, yield its lines and say now and then how far it is."""
    counts = {"found": 0, "downloading": 0}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            yield line.strip()
            word = line.split(maxsplit=1)[0] if line.strip() else ""
            if word in counts:
                counts[word] += 1
                if counts[word] % _PROGRESS_EVERY == 0:
                    on_step(f"  {counts['found']} jars found, {counts['downloading']} fetched")


def _reason(output: list[str]) -> str:
    reasons = [
        line
        for line in output
        if re.search(r"not found|not reachable|[Ee]rror|timed out|Exception|refused", line)
    ]
    return "; ".join(dict.fromkeys(reasons or output[-3:]))[:600] or "the resolver wrote no output"
