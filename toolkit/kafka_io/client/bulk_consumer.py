"""A consumer of librdkafka, which reads many records fast."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka import Consumer

from toolkit.kafka_io.client.client_settings import bulk_settings
from toolkit.model import Cluster

# What matters comes as an error, too; without a handler Python would print it beside our message.
LOG = logging.getLogger("librdkafka")
LOG.addHandler(logging.NullHandler())


def bulk_consumer(cluster: Cluster, settings: Mapping[str, object]) -> Consumer:
    """Return a consumer with settings of its own; raises FleetFileError and KafkaException."""
    return Consumer({**bulk_settings(cluster), **settings}, logger=LOG)
