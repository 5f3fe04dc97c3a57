"""The connection settings of a cluster, in librdkafka's names."""

from __future__ import annotations

PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
WITH_PASSWORD = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
MECHANISMS = WITH_PASSWORD | {"OAUTHBEARER", "GSSAPI"}

SECRET_SETTINGS = frozenset({"sasl.oauthbearer.client.secret", "sasl.password", "ssl.key.password"})
OURS = frozenset({"sasl.oauthbearer.token.command"})  # prints an access token
SETTINGS = (
    SECRET_SETTINGS
    | OURS
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
        "ssl.certificate.location",
        "ssl.key.location",
    }
)
# A misspelled protocol would otherwise mean plaintext.
CHOICES = {"security.protocol": PROTOCOLS, "sasl.mechanism": MECHANISMS}
