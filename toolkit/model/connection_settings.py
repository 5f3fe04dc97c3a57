"""
The connection settings of a cluster, in librdkafka's names.

`sasl.oauthbearer.token.command` is ours: a command that prints an access token.
"""

from __future__ import annotations

from toolkit.model.secrets import SECRET_SETTINGS

PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
WITH_PASSWORD = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
MECHANISMS = WITH_PASSWORD | {"OAUTHBEARER", "GSSAPI"}

SETTINGS = SECRET_SETTINGS | {
    "client.id",
    "https.ca.location",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.command",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
}
# A misspelled protocol would otherwise mean plaintext.
CHOICES = {"security.protocol": PROTOCOLS, "sasl.mechanism": MECHANISMS}
