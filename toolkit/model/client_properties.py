"""
A client's properties file, Java's or librdkafka's, as connection settings in our names.

A secret of the file is not taken over: the setting refers to it (`${property:PATH:NAME}`), and the
file is read again when a connection is made. What does not concern the connection is skipped; what
does, and has no meaning here, is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.model.connection_settings import OURS, SECRET_SETTINGS, SETTINGS
from toolkit.model.input_files import read_input

Pairs = Iterator[tuple[str, str]]

MOST_BYTES = 2**20

# The same in both kinds of files and here.
SAME = SETTINGS - OURS | {"bootstrap.servers"}
OTHER_NAMES = {"metadata.broker.list": "bootstrap.servers", "sasl.mechanisms": "sasl.mechanism"}
# Java's; a PEM key store has both in one file.
STORES = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
}
LOGIN = re.compile(
    r"\s*[\w.]*\.(?P<module>Plain|Scram|OAuthBearer|Krb5)LoginModule\s+\w+"
    r"(?P<options>(?:\s+\w+\s*=\s*(?:\"[^\"]*\"|\S+?))*)\s*;\s*",
    re.ASCII,
)
LOGIN_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"([^\"]*)\"|(\S+))", re.ASCII)
PASSWORD_LOGIN = {"username": "sasl.username", "password": "sasl.password"}
TOKEN_LOGIN = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
# What is ours anyhow: certificates and host names are always checked; None: any value.
AS_IT_IS = {
    "enable.ssl.certificate.verification": "true",
    "sasl.login.callback.handler.class": None,
    "sasl.oauthbearer.method": "oidc",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.truststore.type": "PEM",
    "ssl.keystore.type": "PEM",
}
ABOUT_THE_CONNECTION = ("sasl.", "security.", "ssl.", "enable.ssl.", "https.")
# A separator is a blank, "=" or ":" that no backslash takes away.
KEY = re.compile(r"(?P<key>(?:\\.|[^\\\s=:])+)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def read_client_properties(path: Path) -> dict[str, str]:
    """
    Return the settings, in the names of the fleet file, with references in place of secrets.

    Paths in the file are relative to it. Raises UsageError for what cannot be used.
    """
    if "}" in str(path):
        raise _wrong(path, "its path has a }", "rename it")
    settings = _settings(path)
    for name, value in settings.items():
        if name in SECRET_SETTINGS:
            settings[name] = f"${{property:{path.absolute()}:{name}}}"
        elif name.endswith(".location"):
            settings[name] = str(path.absolute().parent / value)
    return settings


def secret_in(path: Path, name: str) -> str:
    """Return a secret of a file; raises UsageError, and KeyError where it is not in it."""
    return _settings(path)[name]


def _settings(path: Path) -> dict[str, str]:
    properties = _properties(path)
    settings: dict[str, str] = {}
    for key, value in properties.items():
        settings.update(_setting(path, key, value, properties))
    return settings


def _setting(path: Path, key: str, value: str, properties: Mapping[str, str]) -> Pairs:
    name = OTHER_NAMES.get(key, key)
    if name in SAME:
        yield name, value
    elif key == "sasl.jaas.config":
        yield from _login(path, value)
    elif key in STORES:
        kind = key.removesuffix(".location")
        if properties.get(f"{kind}.type", "JKS").upper() != "PEM":
            hint = f"convert the store to PEM and set {kind}.type=PEM"
            raise _wrong(path, f"{key} is a Java keystore, which is not supported", hint)
        yield from ((name, value) for name in STORES[key])
    elif key in AS_IT_IS and value == (AS_IT_IS[key] or value):
        return
    elif key.startswith(ABOUT_THE_CONNECTION):
        # Its value may be a secret, so that it is not repeated.
        hint = "leave it out, or set what it means in the fleet file"
        raise _wrong(path, f"{key} cannot be used here with this value", hint)


def _login(path: Path, value: str) -> Pairs:
    """Yield who logs in, from a JAAS entry, whose text is never repeated."""
    match = LOGIN.fullmatch(value)
    options = match["options"] if match else ""
    found = {key: quoted or bare for key, quoted, bare in LOGIN_OPTION.findall(options)}
    module = match["module"] if match else ""
    if module == "Krb5":
        if "serviceName" in found:
            yield "sasl.kerberos.service.name", found["serviceName"]
        return
    names = TOKEN_LOGIN if module == "OAuthBearer" else PASSWORD_LOGIN
    needed = {"username", "password"} if names is PASSWORD_LOGIN else set()
    if not match or not needed <= found.keys() <= names.keys():
        hint = '...PlainLoginModule or ScramLoginModule required username="..." password="...";'
        raise _wrong(path, "sasl.jaas.config has another form than is read here", hint)
    yield from ((names[option], text) for option, text in found.items())


def _properties(path: Path) -> dict[str, str]:
    """Read a Java properties file; a later line with the same key wins, as in Java."""
    try:
        text = read_input(path, most_bytes=MOST_BYTES).decode()
    except UnicodeDecodeError as exc:
        raise _wrong(path, "it cannot be read as text", "correct the path") from exc
    except OSError as exc:
        raise _wrong(path, f"it cannot be read: {exc.strerror}", "correct the path") from exc
    found = {}
    for line in _logical_lines(text):
        match = KEY.fullmatch(line)
        if not match:
            raise _wrong(path, "a line has no key", "write key=value")
        found[_unescaped(match["key"])] = _unescaped(match["value"])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines with those joined that end in a backslash, without blank ones and comments."""
    held = ""
    for line in text.splitlines():
        part = line.lstrip()
        if not held and (not part or part[0] in "#!"):
            continue
        if (len(part) - len(part.rstrip("\\"))) % 2:
            held += part[:-1]
            continue
        yield held + part
        held = ""
    if held:
        yield held


def _unescaped(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        found = match[1]
        return chr(int(found[1:], 16)) if len(found) > 1 else CONTROL.get(found, found)

    return ESCAPE.sub(meant, text)


def _wrong(path: Path, what: str, hint: str) -> UsageError:
    return UsageError(f"client properties {path}: {what}", hint=hint)
