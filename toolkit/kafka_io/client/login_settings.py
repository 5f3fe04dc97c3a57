"""What each client needs to log in with SASL, and whether it is complete."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from toolkit.errors import FleetFileError
from toolkit.kafka_io.client.access_tokens import COMMAND, ENDPOINT, TokenProvider
from toolkit.model import Cluster
from toolkit.model.connection_settings import MECHANISMS, WITH_PASSWORD

MECHANISM, USERNAME, PASSWORD = "sasl.mechanism", "sasl.username", "sasl.password"
SERVICE = "sasl.kerberos.service.name"
OAUTH_CLIENT = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")


def check_login(cluster: Cluster, settings: Mapping[str, str]) -> None:
    """Raise FleetFileError for a login that lacks something."""
    protocol = settings["security.protocol"]
    mechanism = settings.get(MECHANISM)
    if mechanism not in MECHANISMS:
        what = f"{MECHANISM} {mechanism!r} is unknown" if mechanism else f"{MECHANISM} is not set"
        raise FleetFileError(
            f"cluster {cluster.name}: security.protocol is {protocol}, but {what}",
            hint=f"set it to one of {', '.join(sorted(MECHANISMS))} in {cluster.origin.settings}",
        )
    needed: tuple[str, ...] = ()
    if mechanism in WITH_PASSWORD:
        needed = (USERNAME, PASSWORD)
    elif mechanism == "OAUTHBEARER" and COMMAND not in settings:
        needed = (ENDPOINT, *OAUTH_CLIENT)
    for name in needed:
        if not settings.get(name):
            raise FleetFileError(
                f"cluster {cluster.name}: {MECHANISM} is {mechanism}, but {name} is not set",
                hint=f"set it in {cluster.origin.settings}"
                + (f", or {COMMAND}" if mechanism == "OAUTHBEARER" else ""),
            )
    if mechanism == "GSSAPI" and not find_spec("gssapi"):
        raise FleetFileError(
            f"cluster {cluster.name}: {MECHANISM} GSSAPI needs the Python package gssapi, "
            "which is not installed",
            hint="install it (docs/kerberos.md), or use another mechanism",
        )


def admin_login(cluster: Cluster, settings: Mapping[str, str]) -> dict[str, Any]:
    """Return kafka-python's arguments; raises ClusterUnreachable where no token is to be had."""
    login: dict[str, Any] = {"sasl_mechanism": settings[MECHANISM]}
    match settings[MECHANISM]:
        case "OAUTHBEARER":
            login["sasl_oauth_token_provider"] = provider = TokenProvider(cluster, settings)
            provider.token()  # its errors are not those of a login
        case "GSSAPI":
            login["sasl_kerberos_service_name"] = settings.get(SERVICE, "kafka")
        case _:
            login["sasl_plain_username"] = _username(settings)
            login["sasl_plain_password"] = settings[PASSWORD]
    return login


def bulk_login(cluster: Cluster, settings: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's settings."""
    login: dict[str, Any] = {MECHANISM: settings[MECHANISM]}
    match settings[MECHANISM]:
        case "OAUTHBEARER":
            provider = TokenProvider(cluster, settings)
            login["oauth_cb"] = lambda _: provider.token_and_expiry()
        case "GSSAPI":
            login[SERVICE] = settings.get(SERVICE, "kafka")
            # It would run kinit with a keytab of its own; the ticket cache is used as it is.
            login["sasl.kerberos.min.time.before.relogin"] = 0
        case _:
            login |= {name: settings[name] for name in (USERNAME, PASSWORD)}
    return login


def _username(settings: Mapping[str, str]) -> str:
    """Return the user name as it is sent: kafka-python leaves SCRAM's escapes to us (RFC 5802)."""
    name = settings[USERNAME]
    is_scram = settings[MECHANISM].startswith("SCRAM")
    return name.replace("=", "=3D").replace(",", "=2C") if is_scram else name
