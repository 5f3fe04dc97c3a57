"""Log in with Kerberos (GSSAPI, RFC 4752): without a ticket or a server's principal, say which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI


class KerberosFailed(KafkaConnectionError):  # type: ignore[misc]  # it ships no types
    """The Kerberos library could not log in; the text is what it says."""


class KerberosLogin(SaslMechanismGSSAPI):  # type: ignore[misc]  # as above
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
    from gssapi.exceptions import GSSError  # noqa: PLC0415 - no dependency, but here it is there

    try:
        yield
    except GSSError as exc:
        # What the mechanism says, with the principal or the cache; the other code is GSSAPI's own.
        said = exc.get_all_statuses(exc.min_code, False)
        raise KerberosFailed("; ".join(said) or str(exc)) from exc


register_sasl_mechanism("GSSAPI", KerberosLogin, overwrite=True)
