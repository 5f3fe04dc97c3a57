"""Fetching Apache Kafka: what a failed or interrupted download leaves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolkit.errors import PrerequisiteMissing, UsageError
from toolkit.sandbox.jars import VERSION, _digests, check_digests, kafka_jars, streams_jars

MAKEFILE = Path(__file__).parents[2] / "Makefile"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a network that leads nowhere."""
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: str(tmp_path))
    proxy = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"  # nobody listens there
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", proxy)
    return tmp_path


@pytest.mark.parametrize("left", [[], ["org_kafka_2.13-4.3.1.jar", "org_kafka-tools-4.3.1.jar"]])
def test_failed_download_gives_the_resolvers_reason(nowhere: Path, left: list[str]) -> None:
    """Without a network the error has the resolver's words; a killed download is not used."""
    partial = nowhere / "kafka-4.3.1.partial" / "jars"
    for name in left:
        partial.mkdir(parents=True, exist_ok=True)
        (partial / name).touch()

    with pytest.raises(PrerequisiteMissing, match=r"kafka_2\.13;4\.3\.1: not found.*JAVA_TOOL"):
        kafka_jars("4.3.1")

    assert not (nowhere / "kafka-4.3.1").exists()


def test_kafka_streams_is_fetched_by_itself(nowhere: Path) -> None:
    """What only Streams applications need is no part of what every broker needs."""
    (nowhere / "kafka-4.3.1").mkdir()

    with pytest.raises(PrerequisiteMissing, match=r"fetching Kafka Streams.*kafka-streams;4\.3\.1"):
        streams_jars("4.3.1")

    assert not (nowhere / "streams-4.3.1").exists()


def test_full_cache_needs_nobody(nowhere: Path) -> None:
    """With the jars there, neither the network nor Java is asked."""
    (nowhere / "kafka-4.3.1").mkdir()

    assert kafka_jars("4.3.1") == nowhere / "kafka-4.3.1"


@pytest.mark.parametrize("version", ["4.3", "../4.3.1", "latest", ""])
def test_what_is_no_version_is_refused(nowhere: Path, version: str) -> None:
    """A version becomes part of a path and of a request, so anything else is refused."""
    with pytest.raises(UsageError, match=r"Try: .*such as 3\.9\.1, .*, 4\.4\.0"):
        kafka_jars(version)

    assert list(nowhere.iterdir()) == []


@pytest.mark.parametrize("change", ["edited", "missing", "added"])
def test_a_jar_that_was_changed_is_not_used(tmp_path: Path, change: str) -> None:
    """The jars that tests run match their digests; one that differs is named."""
    for jar in kafka_jars(VERSION).iterdir():
        (tmp_path / jar.name).symlink_to(jar)
    check_digests(tmp_path, f"kafka-{VERSION}")
    changed = next(tmp_path.glob("*kafka-clients*")) if change != "added" else tmp_path / "x.jar"
    changed.unlink(missing_ok=True)
    if change != "missing":
        changed.write_bytes(b"something else")

    with pytest.raises(PrerequisiteMissing, match=rf"not those that were released: {changed.name}"):
        check_digests(tmp_path, f"kafka-{VERSION}")


def test_every_version_that_is_tested_has_digests() -> None:
    """Jars of each version in the Makefile are compared, and so are those of Kafka Streams."""
    (line,) = re.findall(r"^KAFKA_VERSIONS := (.*)", MAKEFILE.read_text("utf-8"), re.MULTILINE)
    bundles = {f"{bundle}-{version}" for version in line.split() for bundle in ("kafka", "streams")}

    assert bundles == _digests().keys()
    assert VERSION in line.split()


def test_a_version_without_digests_is_said(tmp_path: Path) -> None:
    """Any version can be started; who does is told that its jars were not verified."""
    said: list[str] = []
    check_digests(tmp_path, "kafka-4.0.0", on_step=said.append)

    assert ["  no digests are known of kafka-4.0.0: its jars were not verified"] == said
