"""
A JAAS entry (KIP-85): the options of Kafka's login modules as connection settings.

Its text is read as by Java's `StreamTokenizer`. Both quotation marks delimit a value, in which a
backslash escapes as in Java. `//`, `/* */` and a single `/` begin comments; the last takes a line
end that follows at once. A number is no value. Errors never repeat the text: it has a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from toolkit.errors import UsageError

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

FLAGS = {"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"}
TOKEN = re.compile(
    r"""
    [\x00-\x20]+
    | /\*.*?(?:\*/|\Z)
    | //[^\n\r]*
    | /[^*/]?[^\n\r]*
    | (?P<number> -?(?=[0-9.])[0-9]*(?:\.[0-9]*)?)
    | (?P<word> [A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9_$.\-\xa0-\U0010ffff]*)
    | "(?P<double>(?:\\.|[^"\\\n\r])*)(?:"|(?=[\n\r])|\\?\Z)
    | '(?P<single>(?:\\.|[^'\\\n\r])*)(?:'|(?=[\n\r])|\\?\Z)
    | (?P<sign> .)
    """,
    re.VERBOSE | re.DOTALL,
)
ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
CONTROL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
FORM = (
    "write org.apache.kafka.common.security.plain.PlainLoginModule (or scram.ScramLoginModule) "
    'required username="..." password="...";'
)


def login_settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of a JAAS entry, whose text is never repeated; raises UsageError."""
    entry = _read(text)
    if entry.module not in MODULES:
        raise _wrong("has a login module that is not supported")
    names = MODULES[entry.module]
    for option, value in entry.options.items():
        if option not in names and value not in AS_IT_IS.get(option, ()):
            which = f"option {option} with this value" if option in NAMED else "option"
            raise _wrong(f"has an {which}, which is not supported")
    if names is _PASSWORD and not all(map(entry.options.get, names)):
        raise _wrong("has no username or no password")
    yield from ((name, entry.options[o]) for o, name in names.items() if o in entry.options)


class _JaasEntry(NamedTuple):
    module: str
    options: dict[str, str]


class _Token(NamedTuple):
    text: str | None  # of a word or of what was in quotes
    sign: str = ""


def _read(text: str) -> _JaasEntry:
    """Return the only entry; raises UsageError for what Java refuses, and for nameless options."""
    tokens = _tokens(text)
    entries = [_entry(token, tokens) for token in tokens]
    if len(entries) != 1:
        raise _wrong(f"has {len(entries) or 'no'} login modules; it must have one")
    return entries[0]


def _wrong(what: str) -> UsageError:
    return UsageError(f"sasl.jaas.config {what}", hint=FORM)


def _entry(first: _Token, tokens: Iterator[_Token]) -> _JaasEntry:
    flag = next(tokens, _Token(None))
    if first.text is None or (flag.text or "").upper() not in FLAGS:
        raise _wrong("has no login module that is followed by 'required'")
    options: dict[str, str] = {}
    for name in tokens:
        if name.sign == ";":
            return _JaasEntry(first.text, options)
        equals, value = next(tokens, _Token(None)), next(tokens, _Token(None))
        if name.text is None or equals.sign != "=" or value.text is None:
            raise _wrong("has something other than name=\"value\" after 'required'")
        options[name.text] = value.text
    raise _wrong("does not end with a semicolon")


def _tokens(text: str) -> Iterator[_Token]:
    for match in TOKEN.finditer(text):
        match match.lastgroup:
            case "word":
                yield _Token(match["word"])
            case "double" | "single":
                yield _Token(ESCAPE.sub(_meant, match[match.lastgroup]))
            case "number" | "sign":
                yield _Token(None, match[match.lastgroup])


def _meant(match: re.Match[str]) -> str:
    found = match[1]
    return chr(int(found, 8)) if found[0] in "01234567" else CONTROL.get(found, found)
