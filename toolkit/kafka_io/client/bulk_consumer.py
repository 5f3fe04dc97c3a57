"""A consumer of librdkafka, which reads many records fast."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException

from toolkit.errors import PrerequisiteMissing
from toolkit.kafka_io.client.client_settings import bulk_settings
from toolkit.kafka_io.client.error_codes import reason
from toolkit.model import Cluster

# Errors are raised as well; without a handler, Python would also print what librdkafka logs.
LOG = logging.getLogger("librdkafka")
LOG.addHandler(logging.NullHandler())


NO_MECHANISM = "No provider for SASL mechanism"  # librdkafka says it in no other way


def bulk_consumer(cluster: Cluster, settings: Mapping[str, object]) -> Consumer:
    """
    Return a consumer with settings of its own.

    Raises FleetFileError, KafkaException, and PrerequisiteMissing where librdkafka has no Kerberos.
    """
    try:
        return Consumer({**bulk_settings(cluster), **settings}, logger=LOG)
    except KafkaException as exc:
        if NO_MECHANISM not in exc.args[0].str():
            raise
        raise PrerequisiteMissing(
            f"reading records of cluster {cluster.name}: the installed confluent-kafka has no "
            "Kerberos (GSSAPI)",
            hint="use a confluent-kafka that has it, see docs/kerberos.md",
        ) from exc


def read_error(error: KafkaError) -> str:
    """Return why records were not read; librdkafka's own codes are negative, brokers' are not."""
    return reason(error.code(), "Read") if error.code() > 0 else str(error.str())
