"""
What the client needs to log in with SASL, and whether it is complete.

Access tokens for OAUTHBEARER (KIP-255) come from a token endpoint with client credentials (RFC
6749, section 4.4), or are printed by a command. A login with Kerberos (GSSAPI, RFC 4752) that fails
says which ticket or which server's principal is missing.
"""

from __future__ import annotations

import json
import shlex
import ssl
import subprocess
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from importlib.util import find_spec
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from kafka.errors import KafkaConnectionError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
from kafka.net.sasl.oauth import AbstractTokenProvider

from toolkit.errors import ClusterUnreachable, FleetFileError
from toolkit.model import Cluster
from toolkit.model.cluster import MECHANISMS, WITH_PASSWORD

MECHANISM, USERNAME, PASSWORD = "sasl.mechanism", "sasl.username", "sasl.password"
SERVICE = "sasl.kerberos.service.name"
OAUTH_CLIENT = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
OAUTH_COMMAND = "sasl.oauthbearer.token.command"
OAUTH_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
# A token without an expiry time is renewed after this.
UNKNOWN_LIFETIME_S = 300.0
RENEWED_BEFORE_S = 30.0


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
    elif mechanism == "OAUTHBEARER" and OAUTH_COMMAND not in settings:
        needed = (OAUTH_ENDPOINT, *OAUTH_CLIENT)
    for name in needed:
        if not settings.get(name):
            raise FleetFileError(
                f"cluster {cluster.name}: {MECHANISM} is {mechanism}, but {name} is not set",
                hint=f"set it in {cluster.origin.settings}"
                + (f", or {OAUTH_COMMAND}" if mechanism == "OAUTHBEARER" else ""),
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
            login["sasl_oauth_token_provider"] = provider = _TokenProvider(cluster, settings)
            provider.token()  # its errors are not those of a login
        case "GSSAPI":
            login["sasl_kerberos_service_name"] = settings.get(SERVICE, "kafka")
        case _:
            login["sasl_plain_username"] = _username(settings)
            login["sasl_plain_password"] = settings[PASSWORD]
    return login


def _username(settings: Mapping[str, str]) -> str:
    """Return the user name as it is sent: kafka-python leaves SCRAM's escapes to us (RFC 5802)."""
    name = settings[USERNAME]
    is_scram = settings[MECHANISM].startswith("SCRAM")
    return name.replace("=", "=3D").replace(",", "=2C") if is_scram else name


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # it ships no types
    """Gives a token that is valid, and a new one shortly before it expires."""

    def __init__(self, cluster: Cluster, settings: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._settings = settings
        self._known: tuple[str, float] | None = None

    def token(self) -> str:
        """Return the token; raises ClusterUnreachable with the reason why there is none."""
        return self.token_and_expiry()[0]

    def token_and_expiry(self) -> tuple[str, float]:
        """Return the token, and when it expires in seconds since 1970."""
        if not self._known or self._known[1] - RENEWED_BEFORE_S < time.time():
            by_command = OAUTH_COMMAND in self._settings
            self._known = self._from_command() if by_command else self._from_endpoint()
        return self._known

    def _from_command(self) -> tuple[str, float]:
        """Run the command, without a shell; only its output and its exit code count."""
        try:
            done = subprocess.run(
                shlex.split(self._settings[OAUTH_COMMAND]),
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=self._cluster.timeout_s,
                check=True,
            )
        except subprocess.TimeoutExpired:
            why = f"no output within {self._cluster.timeout_s:g} s"
            raise self._error(OAUTH_COMMAND, why) from None
        except subprocess.CalledProcessError as exc:
            # What it wrote may contain a secret.
            raise self._error(OAUTH_COMMAND, f"it ended with exit code {exc.returncode}") from None
        except (OSError, ValueError) as exc:
            raise self._error(OAUTH_COMMAND, f"it cannot be run ({exc})") from None
        token = done.stdout.decode("utf-8", errors="replace").strip()
        if not token or any(map(str.isspace, token)):
            raise self._error(OAUTH_COMMAND, "it did not print exactly one token")
        return token, _token_expiry(token, UNKNOWN_LIFETIME_S)

    def _from_endpoint(self) -> tuple[str, float]:
        login = ":".join(quote(self._settings[name], safe="") for name in OAUTH_CLIENT)
        form = {"grant_type": "client_credentials"}
        if scope := self._settings.get("sasl.oauthbearer.scope"):
            form["scope"] = scope
        url = self._settings[OAUTH_ENDPOINT]
        if urlsplit(url).scheme not in {"http", "https"}:
            raise self._error(OAUTH_ENDPOINT, "it is not an http or https address")
        request = Request(url, urlencode(form).encode())  # noqa: S310 - checked above
        request.add_header("Authorization", f"Basic {b64encode(login.encode()).decode()}")
        request.add_header("Accept", "application/json")
        context = ssl.create_default_context(cafile=self._settings.get("https.ca.location"))
        try:
            with urlopen(request, timeout=self._cluster.timeout_s, context=context) as response:  # noqa: S310 - as above
                answer = json.load(response)
        except HTTPError as exc:
            with exc:
                why = f"it answered {exc.code} {_oauth_error(exc)}"
                raise self._error(OAUTH_ENDPOINT, why) from None
        except OSError as exc:
            raise self._error(OAUTH_ENDPOINT, str(getattr(exc, "reason", exc))) from None
        except HTTPException as exc:  # neither an OSError nor a ValueError
            why = f"no complete answer in HTTP ({type(exc).__name__})"
            raise self._error(OAUTH_ENDPOINT, why) from None
        except ValueError:
            raise self._error(OAUTH_ENDPOINT, "it did not answer with JSON") from None
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token:
            raise self._error(OAUTH_ENDPOINT, "its answer has no access_token")
        lifetime = answer.get("expires_in")
        known = isinstance(lifetime, int | float)
        return token, _token_expiry(token, float(lifetime) if known else UNKNOWN_LIFETIME_S)

    def _error(self, setting: str, why: str) -> ClusterUnreachable:
        return ClusterUnreachable(
            f"connecting to cluster {self._cluster.name}: no access token from {setting}: {why}",
            hint=f"check the sasl.oauthbearer settings in {self._cluster.origin.settings}, "
            f"{setting} first",
        )


def _oauth_error(answer: HTTPError) -> str:
    """Return the error code of RFC 6749, section 5.2; anything else is not repeated."""
    try:
        code = json.loads(answer.read(10_000))["error"]
    except (ValueError, KeyError, TypeError, OSError, HTTPException):
        return answer.reason or ""
    return f"({code})" if isinstance(code, str) else ""


def _token_expiry(token: str, lifetime_s: float) -> float:
    """Return when a token expires, in seconds since 1970: a JWT contains it (RFC 7519)."""
    try:
        claims: Any = token.split(".")[1]
        claims = json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        return float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return time.time() + lifetime_s


class KerberosFailed(KafkaConnectionError):  # type: ignore[misc]  # it ships no types
    """The Kerberos library could not log in; the text is its message."""


class _KerberosLogin(SaslMechanismGSSAPI):  # type: ignore[misc]  # as above
    """The client's own login, whose errors are of the client's kind, which its callers expect."""

    def __init__(self, **settings: Any) -> None:
        """Get a ticket for the broker; raises KerberosFailed."""
        with _library_errors():
            super().__init__(**settings)

    def receive(self, auth_bytes: bytes) -> None:
        """Take what the broker sent; raises KerberosFailed."""
        with _library_errors():
            super().receive(auth_bytes)


@contextmanager
def _library_errors() -> Iterator[None]:
    from gssapi.raw.misc import GSSError  # noqa: PLC0415 - no dependency, but here it is there

    try:
        yield
    except GSSError as exc:
        # What the mechanism says, with the principal or the cache; the other code is GSSAPI's own.
        messages = exc.get_all_statuses(exc.min_code, False)
        raise KerberosFailed("; ".join(messages) or str(exc)) from exc


register_sasl_mechanism("GSSAPI", _KerberosLogin, overwrite=True)
