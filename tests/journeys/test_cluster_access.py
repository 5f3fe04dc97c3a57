"""Which cluster of the fleet file an address means, however it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.journeys.cluster_access import cluster_at

KNOWN = {
    "broker.example:9092": "eu",
    "PLAINTEXT://broker.example:9092": "eu",
    "Broker.Example:09092": "eu",
    "other:1, broker.example:9092": "eu",
    "[::1]:9092": "us",
    "::1:9092": "us",
    "EXTERNAL://[0:0::1]:9092": "us",
    "broker.example:9093": "",
    "broker.example": "",
}


@pytest.mark.parametrize("servers", KNOWN)
def test_a_known_address_has_its_policy(servers: str, tmp_path: Path) -> None:
    """The policy of a cluster holds also where its address is written in another way."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        "clusters:\n  eu: {bootstrap.servers: 'broker.example:9092', read_only: true}\n"
        "  us: {bootstrap.servers: '::1:9092', read_only: true}\n"
    )
    found = cluster_at(servers, fleet)

    assert (KNOWN[servers] or servers) == found.name
    assert bool(KNOWN[servers]) == found.policy.read_only
