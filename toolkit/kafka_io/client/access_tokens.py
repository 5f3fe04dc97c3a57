"""
Access tokens for OAUTHBEARER (KIP-255).

From a token endpoint with client credentials (RFC 6749, section 4.4), or printed by a command.
"""

from __future__ import annotations

import json
import shlex
import ssl
import subprocess
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from kafka.net.sasl.oauth import AbstractTokenProvider

from toolkit.errors import ClusterUnreachable
from toolkit.model import Cluster

COMMAND = "sasl.oauthbearer.token.command"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
# A token without an end is asked for again after this.
UNKNOWN_LIFETIME_S = 300.0
RENEWED_BEFORE_S = 30.0


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # it ships no types
    """Gives a token that is valid, and a new one shortly before it expires."""

    def __init__(self, cluster: Cluster, settings: Mapping[str, str]) -> None:
        """Ask for nothing yet."""
        self._cluster = cluster
        self._settings = settings
        self._known: tuple[str, float] | None = None

    def token(self) -> str:
        """Return the token; raises ClusterUnreachable with the reason why there is none."""
        return self.token_and_expiry()[0]

    def token_and_expiry(self) -> tuple[str, float]:
        """Return the token, and when it expires in seconds since 1970."""
        if not self._known or self._known[1] - RENEWED_BEFORE_S < time.time():
            by_command = COMMAND in self._settings
            self._known = self._from_command() if by_command else self._from_endpoint()
        return self._known

    def _from_command(self) -> tuple[str, float]:
        """Run the command, without a shell; only its output and its exit code are looked at."""
        try:
            done = subprocess.run(
                shlex.split(self._settings[COMMAND]),
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=self._cluster.timeout_s,
                check=True,
            )
        except subprocess.TimeoutExpired:
            raise self._error(COMMAND, f"no output within {self._cluster.timeout_s:g} s") from None
        except subprocess.CalledProcessError as exc:
            # What it wrote may contain a secret.
            raise self._error(COMMAND, f"it ended with exit code {exc.returncode}") from None
        except (OSError, ValueError) as exc:
            raise self._error(COMMAND, f"it cannot be run ({exc})") from None
        token = done.stdout.decode("utf-8", errors="replace").strip()
        if not token or any(map(str.isspace, token)):
            raise self._error(COMMAND, "it did not print exactly one token")
        return token, _expiry(token, UNKNOWN_LIFETIME_S)

    def _from_endpoint(self) -> tuple[str, float]:
        names = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
        login = ":".join(quote(self._settings[name], safe="") for name in names)
        form = {"grant_type": "client_credentials"}
        if scope := self._settings.get("sasl.oauthbearer.scope"):
            form["scope"] = scope
        url = self._settings[ENDPOINT]
        if urlsplit(url).scheme not in {"http", "https"}:
            raise self._error(ENDPOINT, "it is not an http or https address")
        request = Request(url, urlencode(form).encode())  # noqa: S310 - checked above
        request.add_header("Authorization", f"Basic {b64encode(login.encode()).decode()}")
        request.add_header("Accept", "application/json")
        context = ssl.create_default_context(cafile=self._settings.get("https.ca.location"))
        try:
            with urlopen(request, timeout=self._cluster.timeout_s, context=context) as response:  # noqa: S310 - as above
                answer = json.load(response)
        except HTTPError as exc:
            with exc:
                raise self._error(ENDPOINT, f"it answered {exc.code} {_code(exc)}") from None
        except OSError as exc:
            raise self._error(ENDPOINT, str(getattr(exc, "reason", exc))) from None
        except ValueError:
            raise self._error(ENDPOINT, "it did not answer with JSON") from None
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token:
            raise self._error(ENDPOINT, "its answer has no access_token")
        lifetime = answer.get("expires_in")
        known = isinstance(lifetime, int | float)
        return token, _expiry(token, float(lifetime) if known else UNKNOWN_LIFETIME_S)

    def _error(self, setting: str, why: str) -> ClusterUnreachable:
        return ClusterUnreachable(
            f"connecting to cluster {self._cluster.name}: no access token from {setting}: {why}",
            hint=f"check the sasl.oauthbearer settings in {self._cluster.origin.settings}, "
            f"{setting} first",
        )


def _code(answer: HTTPError) -> str:
    """Return the error code of RFC 6749, section 5.2; anything else is not repeated."""
    try:
        code = json.loads(answer.read(10_000))["error"]
    except (ValueError, KeyError, TypeError, OSError):
        return answer.reason or ""
    return f"({code})" if isinstance(code, str) else ""


def _expiry(token: str, lifetime_s: float) -> float:
    """Return when a token expires, in seconds since 1970: a JWT says so itself (RFC 7519)."""
    try:
        claims: Any = token.split(".")[1]
        claims = json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        return float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return time.time() + lifetime_s
