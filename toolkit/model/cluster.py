"""A cluster: connection settings and change policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from toolkit.model.names import matches

PROTOCOL = "security.protocol"
PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
WITH_PASSWORD = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
MECHANISMS = WITH_PASSWORD | {"OAUTHBEARER", "GSSAPI"}

SECRET_SETTINGS = frozenset(
    {"sasl.oauthbearer.client.secret", "sasl.password", "ssl.key.password", "ssl.key.pem"}
)
OWN_SETTINGS = frozenset({"sasl.oauthbearer.token.command"})  # prints an access token
SETTINGS = (
    SECRET_SETTINGS
    | OWN_SETTINGS
    | {
        "client.id",
        "https.ca.location",
        "sasl.kerberos.service.name",
        "sasl.mechanism",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.username",
        "security.protocol",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
    }
)
# A misspelled protocol would otherwise mean plaintext.
CHOICES = {PROTOCOL: PROTOCOLS, "sasl.mechanism": MECHANISMS}
# The same thing as a file and as text.
FILE_OR_TEXT = tuple(
    (f"ssl.{what}.location", f"ssl.{what}.pem") for what in ("ca", "certificate", "key")
)

DEFAULT_TIMEOUT_S = 15.0


def normal_value(name: str, value: str) -> str:
    """Return a value as the client takes it: Kafka reads a protocol without regard to case."""
    return value.upper() if name == PROTOCOL and value.upper() in PROTOCOLS else value


def wrong_together(settings: Mapping[str, str]) -> tuple[str, str] | None:
    """
    Return what settings contradict each other, and what to do; None where they do not.

    A login or a certificate that the protocol does not use is a mistake in the protocol: the
    connection would be in plaintext, without a word.
    """
    protocol = settings.get(PROTOCOL, "PLAINTEXT")
    for prefix, uses_it, what in (
        ("sasl.", protocol.startswith("SASL"), "does not log in"),
        ("ssl.", protocol.endswith("SSL"), "does not use TLS"),
    ):
        idle = sorted(name for name in settings if name.startswith(prefix))
        if idle and not uses_it:
            fitting = ("SASL_SSL", "SASL_PLAINTEXT") if prefix == "sasl." else ("SSL", "SASL_SSL")
            hint = f"set {PROTOCOL} to {' or '.join(fitting)}, or remove {', '.join(idle)}"
            return f"{idle[0]} is set, but {PROTOCOL} is {protocol}, which {what}", hint
    for pair in FILE_OR_TEXT:
        if settings.keys() >= set(pair):
            return f"{' and '.join(pair)} exclude each other", "keep one of them"
    return None


@dataclass(frozen=True, slots=True)
class Policy:
    """Change policy of a cluster, and limits per run without an override."""

    read_only: bool = False
    reason: Literal["required", "optional"] = "required"
    protected_groups: tuple[str, ...] = ()  # names and shell patterns, as the next
    ignored_groups: tuple[str, ...] = ()  # left out wherever a group is not named
    max_groups: int = 100
    max_partitions: int = 10_000
    max_records_skipped: int = 1_000_000
    max_records_repeated: int = 10_000_000

    def ignores(self, group_id: str) -> bool:
        """Whether a group is left out where it is not named."""
        return any(matches(group_id, entry) for entry in self.ignored_groups)

    def or_stricter(self, other: Policy) -> Policy:
        """Return it with what the other one forbids as well, and the lower of both limits."""
        protected = dict.fromkeys([*self.protected_groups, *other.protected_groups])
        return replace(
            self,
            read_only=self.read_only or other.read_only,
            reason=self.reason if self.reason == "required" else other.reason,
            protected_groups=tuple(protected),
            max_groups=min(self.max_groups, other.max_groups),
            max_partitions=min(self.max_partitions, other.max_partitions),
            max_records_skipped=min(self.max_records_skipped, other.max_records_skipped),
            max_records_repeated=min(self.max_records_repeated, other.max_records_repeated),
        )


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the settings of a cluster come from, in the words of a hint ("set it in ...")."""

    settings: str = "the fleet file"
    timeout: str = "timeout in the fleet file"
    fleet_file: str = ""  # the path of the one that has its entry


@dataclass(frozen=True, slots=True)
class Cluster:
    """One entry of the fleet file: name, connection settings and change policy."""

    name: str
    bootstrap_servers: str
    settings: Mapping[str, str] = field(
        default_factory=dict
    )  # secrets are references, never values
    policy: Policy = Policy()
    timeout_s: float = DEFAULT_TIMEOUT_S  # to connect and log in, and for each request
    origin: Origin = field(default=Origin(), compare=False)
