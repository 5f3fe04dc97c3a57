"""
Which release of Apache Kafka each broker runs, as far as it can be known.

No broker reports its release. Since 3.3 a KRaft broker reports the `metadata.version` levels that
it supports (KIP-584), and each release so far has added a level. Patch releases add none.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka.protocol.metadata import ApiVersionsRequest

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection, TaggedRequest

FEATURE = "metadata.version"
# The last level of each release, as printed by `kafka-features.sh version-mapping`; of 4.4, the
# highest that a 4.4.0 broker reports.
RELEASES = {
    7: "3.3",
    8: "3.4",
    11: "3.5",
    14: "3.6",
    19: "3.7",
    20: "3.8",
    21: "3.9",
    25: "4.0",
    27: "4.1",
    29: "4.2",
    30: "4.3",
    33: "4.4",
}
NEWEST = max(RELEASES)


@dataclass(frozen=True, slots=True)
class BrokerVersion:
    """
    The highest `metadata.version` that a broker supports, and the one that its cluster uses.

    Either is None where the broker does not report it; `error` is why it did not answer.
    """

    node_id: int
    supported: int | None = None
    in_use: int | None = None
    error: ToolkitError | None = None

    @property
    def release(self) -> str:
        """The release, such as "4.3" or "4.4 or newer"; "" where it cannot be known."""
        return release_of(self.supported) if self.supported is not None else ""


def release_of(level: int) -> str:
    """Return the release whose highest `metadata.version` is `level`; "" before 3.3."""
    if level > NEWEST:
        return f"newer than {RELEASES[NEWEST]}"
    if level == NEWEST:  # the next release may have added none
        return f"{RELEASES[level]} or newer"
    if level < min(RELEASES):
        return ""
    return RELEASES[min(last for last in RELEASES if last >= level)]


def read_broker_versions(connection: Connection) -> list[BrokerVersion]:
    """Return one entry for each broker of the cluster, in the order of their ids."""
    request = ApiVersionsRequest(
        client_software_name="offsetbook", client_software_version="0", min_version=3
    )
    asks = {node_id: [TaggedRequest(None, request)] for node_id in connection.broker_ids}
    found = []
    for node_id, _, response, _ in connection.send_each(asks):
        if isinstance(response, ToolkitError):
            found.append(BrokerVersion(node_id, error=response))
            continue
        supported = {one.name: one.max_version for one in response.supported_features}
        in_use = {one.name: one.max_version_level for one in response.finalized_features}
        found.append(BrokerVersion(node_id, supported.get(FEATURE), in_use.get(FEATURE)))
    return sorted(found, key=lambda version: version.node_id)
