"""Addresses of bootstrap servers, as Kafka's Java clients read them (`ClientUtils`)."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple

from toolkit.errors import UsageError
from toolkit.model.cluster import PROTOCOLS

# A listener's name before the address says nothing to a client.
ADDRESS = re.compile(
    r"(?:(?P<listener>[\w.%-]*)://)?(?:\[(?P<six>[\w.:%-]+)\]|(?P<host>[\w.:%-]+)):(?P<port>[0-9]+)",
    re.ASCII,
)
LAST_PORT = 65_535
BLANKS = " \t\n\v\f\r"
WEB = {"HTTP", "HTTPS"}  # the address of a web page, copied by mistake


class Server(NamedTuple):
    """A host name or an IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return the address as the client wants it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_servers(text: str, protocol: str | None = None) -> list[Server]:
    """
    Return the servers of a list with commas; raises UsageError for what is not host:port.

    With the security protocol of the connection, an address that names another one is refused: one
    SASL_SSL://host:port does not mean a connection in plaintext.
    """
    servers = [_server(part.strip(BLANKS), protocol) for part in text.split(",")]
    return list(dict.fromkeys(servers))


def _server(text: str, protocol: str | None) -> Server:
    found = ADDRESS.fullmatch(text)
    host = _host(found["six"] or found["host"]) if found else ""
    named = (found["listener"] or "").upper() if found else ""
    if not found or not host or named in WEB or not _is_port(found["port"]):
        raise UsageError(f"bootstrap.servers has {text!r}, which is not host:port")
    if protocol and named in PROTOCOLS and named != protocol:
        raise UsageError(f"bootstrap.servers has {text!r}, but security.protocol is {protocol}")
    return Server(host, int(found["port"]))


def _is_port(text: str) -> bool:
    return len(text.lstrip("0")) <= len(str(LAST_PORT)) and 0 < int(text) <= LAST_PORT


def _host(text: str) -> str:
    """Return a host; of the many ways to write an IPv6 address the usual one, "" for none."""
    try:
        return str(IPv6Address(text)) if ":" in text else text
    except AddressValueError:
        return ""
