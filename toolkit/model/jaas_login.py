"""What the login modules of Kafka mean in our settings."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.model.jaas_text import read_jaas, wrong_jaas

_SECURITY = "org.apache.kafka.common.security"
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
_PASSWORD = {"username": "sasl.username", "password": "sasl.password"}
_TOKEN = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_TICKET = {"serviceName": "sasl.kerberos.service.name"}
MODULES = {
    f"{_SECURITY}.plain.PlainLoginModule": _PASSWORD,
    f"{_SECURITY}.scram.ScramLoginModule": _PASSWORD,
    f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule": _TOKEN,
    _KERBEROS: _TICKET,
}
# Options that say what is done anyhow; the ticket is that of the ticket cache.
AS_IT_IS = {
    "tokenauth": {"false"},
    "useKeyTab": {"false"},
    "useTicketCache": {"true"},
    **{name: {"true", "false"} for name in ("debug", "doNotPrompt", "refreshKrb5Config")},
    **{name: {"true", "false"} for name in ("renewTGT", "storeKey", "isInitiator")},
}
# Only these names are repeated: where a quotation mark is missing, a password looks like a name.
NAMED = {*AS_IT_IS, "keyTab", "principal", "ticketCache", "useFirstPass", "storePass"}


def login_settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of a JAAS entry, whose text is never repeated; raises UsageError."""
    entry = read_jaas(text)
    if entry.module not in MODULES:
        raise wrong_jaas("has a login module that is not supported")
    names = MODULES[entry.module]
    for option, value in entry.options.items():
        if option not in names and value not in AS_IT_IS.get(option, ()):
            which = f"option {option} with this value" if option in NAMED else "option"
            raise wrong_jaas(f"has an {which}, which is not supported")
    if names is _PASSWORD and not all(map(entry.options.get, names)):
        raise wrong_jaas("has no username or no password")
    yield from ((name, entry.options[o]) for o, name in names.items() if o in entry.options)
