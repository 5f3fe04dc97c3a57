"""What any broker may answer, where the first of them does not."""

import pytest

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.group_settings import OF_A_BROKER, OF_A_GROUP, read_group_settings
from toolkit.kafka_io.membership import channel
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.group_config import FetchGroupConfig
from toolkit.model import Cluster

GONE = 0  # comes before the ids of all brokers


class OneGone(Connection):
    """A connection of which the first broker is lost."""

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The brokers, with one that does not answer."""
        return (GONE, *super().broker_ids)


def test_requests_to_any_broker(bare_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Member requests to any broker, and cluster-wide settings: the next broker responds."""
    monkeypatch.setattr(channel, "Connection", OneGone)
    monkeypatch.setattr(channel, "GIVE_UP_AFTER_S", 0)
    with GroupChannel(bare_cluster, "g") as talk, OneGone(bare_cluster) as connection:
        assert {*OF_A_GROUP} == talk.ask(FetchGroupConfig(OF_A_GROUP)).values.keys()
        assert {*OF_A_BROKER, *OF_A_GROUP} == read_group_settings(connection, "g").keys()
