"""What tests of changes start from."""

import pytest
from applications import Applications

from toolkit.model import TopicPartition


@pytest.fixture
def orders(apps: Applications) -> tuple[TopicPartition, TopicPartition]:
    """Return the two partitions of a topic, with 10 records each."""
    topic = apps.create_topic(apps.name("orders"), partitions=2, records=10)
    return TopicPartition(topic, 0), TopicPartition(topic, 1)
