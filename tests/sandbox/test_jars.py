"""Fetching Apache Kafka: what a failed or interrupted download leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.errors import PrerequisiteMissing, UsageError
from toolkit.sandbox.jars import kafka_jars, streams_jars


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a network that leads nowhere."""
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: str(tmp_path))
    proxy = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"  # nobody listens there
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", proxy)
    return tmp_path


def test_failed_download_gives_the_resolvers_reason(nowhere: Path) -> None:
    """Without a network the error carries the resolver's words, and no cache seems whole."""
    with pytest.raises(PrerequisiteMissing, match=r"kafka_2\.13;4\.3\.1: not found.*JAVA_TOOL"):
        kafka_jars("4.3.1")

    assert not (nowhere / "kafka-4.3.1").exists()


def test_kafka_streams_is_fetched_by_itself(nowhere: Path) -> None:
    """What only Streams applications need is no part of what every broker needs."""
    (nowhere / "kafka-4.3.1").mkdir()

    with pytest.raises(PrerequisiteMissing, match=r"fetching Kafka Streams.*kafka-streams;4\.3\.1"):
        streams_jars("4.3.1")

    assert not (nowhere / "streams-4.3.1").exists()


def test_interrupted_download_is_not_taken_for_whole(nowhere: Path) -> None:
    """Jars that a killed download had already fetched do not count."""
    partial = nowhere / "kafka-4.3.1.partial" / "jars"
    partial.mkdir(parents=True)
    for name in ("org_kafka_2.13-4.3.1.jar", "org_kafka-tools-4.3.1.jar"):
        (partial / name).touch()

    with pytest.raises(PrerequisiteMissing):
        kafka_jars("4.3.1")


def test_full_cache_needs_nobody(nowhere: Path) -> None:
    """With the jars there, neither the network nor Java is asked."""
    (nowhere / "kafka-4.3.1").mkdir()

    assert kafka_jars("4.3.1") == nowhere / "kafka-4.3.1"


@pytest.mark.parametrize("version", ["4.3", "../4.3.1", "latest", ""])
def test_what_is_no_version_is_refused(nowhere: Path, version: str) -> None:
    """A version becomes part of a path and of a request, so anything else is refused."""
    with pytest.raises(UsageError):
        kafka_jars(version)

    assert list(nowhere.iterdir()) == []
