"""
`--command-config`: a client's Java properties as settings of ours, or a refusal that names the key.

Settings of ours never hold a secret, only where it is. Those of the file are put into the
environment of this process, which nobody else sees, and referred to there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.storage.formats.input_files import read_input

SAME = ("security.protocol", "sasl.mechanism", "client.id")
SECRETS = {
    "sasl.password": "OFFSETBOOK_COMMAND_CONFIG_SASL_PASSWORD",
    "ssl.key.password": "OFFSETBOOK_COMMAND_CONFIG_KEY_PASSWORD",
}
# A PEM key store has both in one file.
STORES = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LOGIN = re.compile(
    r"\s*[\w.]*\.(?:Plain|Scram)LoginModule\s+\w+(?P<options>(?:\s+\w+\s*=\s*(?:\"[^\"]*\"|\S+?))*)"
    r"\s*;\s*",
    re.ASCII,
)
LOGIN_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"([^\"]*)\"|(\S+))", re.ASCII)
# What is ours anyhow: the address is given beside the file, certificates are always checked.
AS_IT_IS = {
    "bootstrap.servers": None,
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.truststore.type": "PEM",
    "ssl.keystore.type": "PEM",
}
# A separator is a blank, "=" or ":" that no backslash takes away.
KEY = re.compile(r"(?P<key>(?:\\.|[^\\\s=:])+)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def read_command_config(path: Path) -> dict[str, str]:
    """Return the settings in the names of the fleet file; UsageError for what has none there."""
    properties = _properties(path)
    settings: dict[str, str] = {}
    for key, value in properties.items():
        settings.update(_setting(path, key, value, properties))
    return settings


def _setting(
    path: Path, key: str, value: str, properties: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    if key == "sasl.mechanism" and value not in MECHANISMS:
        raise _wrong(path, f"{key}={value} is not supported", f"one of {', '.join(MECHANISMS)}")
    if key in SAME:
        yield key, value
    elif key == "sasl.jaas.config":
        yield from _login(path, value)
    elif key in STORES:
        kind = key.removesuffix(".location")
        if properties.get(f"{kind}.type", "JKS").upper() != "PEM":
            hint = f"convert the store to PEM and say {kind}.type=PEM"
            raise _wrong(path, f"{key} is a Java keystore, which is not supported", hint)
        yield from ((name, value) for name in STORES[key])
    elif key == "ssl.key.password":
        yield key, _kept(key, value)
    elif key not in AS_IT_IS or value != (AS_IT_IS[key] or value):
        # Its value may be a secret, so that it is not repeated.
        hint = "leave it out, or write a fleet file and name the cluster with --cluster"
        raise _wrong(path, f"{key} cannot be used here as it stands", hint)


def _login(path: Path, value: str) -> Iterator[tuple[str, str]]:
    """Return who logs in, from a JAAS entry, whose text is never repeated."""
    match = LOGIN.fullmatch(value)
    options = match["options"] if match else ""
    found = {key: quoted or bare for key, quoted, bare in LOGIN_OPTION.findall(options)}
    if found.keys() != {"username", "password"}:
        hint = '...PlainLoginModule or ScramLoginModule required username="..." password="...";'
        raise _wrong(path, "sasl.jaas.config has another form than is read here", hint)
    yield "sasl.username", found["username"]
    yield "sasl.password", _kept("sasl.password", found["password"])


def _kept(name: str, secret: str) -> str:
    """Put a secret where only this process has it, and return the reference to it."""
    os.environ[SECRETS[name]] = secret
    return f"${{env:{SECRETS[name]}}}"


def _properties(path: Path) -> dict[str, str]:
    """Read a Java properties file; a later line with the same key wins, as in Java."""
    try:
        text = read_input(path, most_bytes=2**20).decode()
    except OSError as exc:
        raise _wrong(path, f"it cannot be read: {exc.strerror}", "correct the path") from exc
    except UnicodeDecodeError as exc:
        raise _wrong(path, "it cannot be read as text", "correct the path") from exc
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
    return UsageError(f"command config {path}: {what}", hint=hint)
