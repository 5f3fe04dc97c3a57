"""
A broker's new data directory, as `kafka-storage format` makes it.

The tool costs a JVM, and what it writes differs in two ids only. It is run once for each version of
Apache Kafka; its output is cached with the jars, and each copy gets its own ids.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from toolkit.errors import SandboxFailed
from toolkit.sandbox.jars import kafka_command, kafka_jars
from toolkit.storage.formats.file_lock import exclusively

_IDENTITY = "meta.properties"
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
log.dirs={}
"""


def format_data(directory: Path, version: str, *, node_id: int = 1, cluster_id: str = "") -> None:
    """
    Give a data directory its ids, unless it has them; raises `SandboxFailed`.

    Without `cluster_id` it is the first broker of a new cluster.
    """
    if (directory / _IDENTITY).exists():
        return
    formatted = _formatted(version)
    all_but_ids = shutil.ignore_patterns(_IDENTITY)
    shutil.copytree(formatted, directory, ignore=all_but_ids, dirs_exist_ok=True)
    text = (formatted / _IDENTITY).read_text(encoding="utf-8")
    ids = {"cluster.id": cluster_id or _new_id(), "directory.id": _new_id(), "node.id": node_id}
    for name, value in ids.items():
        text = re.sub(rf"^{re.escape(name)}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
    # Last and at once: a start that is cut off is done again, and no two clusters share an id.
    unfinished = directory / f"{_IDENTITY}.new"
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(directory / _IDENTITY)


def _formatted(version: str) -> Path:
    """Return a formatted directory, which the tool makes the first time."""
    jars = kafka_jars(version)
    formatted, unfinished = (jars.with_name(f"{jars.name}-{word}") for word in ("data", "new-data"))
    with exclusively(jars.with_name(f"{jars.name}-data.lock")):
        if not formatted.exists():
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            _run_tool(unfinished, version)
            unfinished.rename(formatted)
    return formatted


def _run_tool(directory: Path, version: str) -> None:
    properties = directory.with_name(f"{directory.name}.properties")
    properties.write_text(_PROPERTIES.format(directory), encoding="utf-8")
    tool = kafka_command("kafka.tools.StorageTool", version=version)
    done = subprocess.run(
        [*tool, "format", "-t", _new_id(), "-c", properties],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SandboxFailed(
            f"formatting the data of Apache Kafka {version} failed: {done.stdout}{done.stderr}",
            hint=f"check {directory}",
        )


def _new_id() -> str:
    """Return an id as Kafka makes them; one that begins with - looks like an option."""
    return urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "A")
