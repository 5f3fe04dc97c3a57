"""
Settings of Kafka's admin client that tune it: they are checked as Java does.

Of them, only `request.timeout.ms` is used. The types and the least values are those of
`AdminClientConfig` in Apache Kafka 4.3.1.
"""

from __future__ import annotations

import re

ANY = -(2**63)
# The least value of each, and the largest.
INT, LONG = 2**31 - 1, 2**63 - 1
NUMBERS = {
    "connections.max.idle.ms": (ANY, LONG),
    "default.api.timeout.ms": (0, INT),
    "metadata.max.age.ms": (0, LONG),
    "metadata.recovery.rebootstrap.trigger.ms": (0, LONG),
    "metrics.num.samples": (1, INT),
    "metrics.sample.window.ms": (0, LONG),
    "receive.buffer.bytes": (-1, INT),
    "reconnect.backoff.max.ms": (0, LONG),
    "reconnect.backoff.ms": (0, LONG),
    "request.timeout.ms": (0, INT),
    "retries": (0, INT),
    "retry.backoff.max.ms": (0, LONG),
    "retry.backoff.ms": (0, LONG),
    "send.buffer.bytes": (-1, INT),
    "socket.connection.setup.timeout.max.ms": (ANY, LONG),
    "socket.connection.setup.timeout.ms": (ANY, LONG),
    "socket.timeout.ms": (0, INT),  # librdkafka's
}
NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
CHOICES = {
    # The other one finds the principals of brokers in a way that is not supported.
    "client.dns.lookup": {"use_all_dns_ips"},
    "metrics.recording.level": {"INFO", "DEBUG", "TRACE"},
}
CHOICES_IN_ANY_CASE = {
    "enable.metrics.push": {"true", "false"},
    "metadata.recovery.strategy": {"none", "rebootstrap"},
}


def wrong_tuning(name: str, value: str) -> str:
    """Return what is wrong with the value of a setting; "" for nothing, and for other settings."""
    if name in NUMBERS:
        return _wrong_number(value, *NUMBERS[name])
    if name in CHOICES_IN_ANY_CASE:
        return _wrong_word(value.lower(), CHOICES_IN_ANY_CASE[name])
    return _wrong_word(value, CHOICES[name]) if name in CHOICES else ""


def _wrong_number(value: str, least: int, largest: int) -> str:
    if not NUMBER.fullmatch(value):
        return "is not a number"
    return "" if least <= int(value) <= largest else "is out of range"


def _wrong_word(value: str, choices: set[str]) -> str:
    return "" if value in choices else f"is not one of: {', '.join(sorted(choices))}"
