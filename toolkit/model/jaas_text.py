"""
A JAAS entry, as Kafka reads it with Java's `StreamTokenizer` (KIP-85).

Both quotation marks delimit a value, in which a backslash escapes as in Java. `//`, `/* */` and a
single `/` begin comments; the last takes a line end that follows at once. A number is no value.
Errors never repeat the text: it has a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from toolkit.errors import UsageError

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


class JaasEntry(NamedTuple):
    """A login module and its options."""

    module: str
    options: dict[str, str]


class _Token(NamedTuple):
    text: str | None  # of a word or of what was in quotes
    sign: str = ""


def read_jaas(text: str) -> JaasEntry:
    """Return the only entry; raises UsageError for what Java refuses, and for nameless options."""
    tokens = _tokens(text)
    entries = [_entry(token, tokens) for token in tokens]
    if len(entries) != 1:
        raise wrong_jaas(f"has {len(entries) or 'no'} login modules; it must have one")
    return entries[0]


def wrong_jaas(what: str) -> UsageError:
    """Return the error of an entry."""
    return UsageError(f"sasl.jaas.config {what}", hint=FORM)


def _entry(first: _Token, tokens: Iterator[_Token]) -> JaasEntry:
    flag = next(tokens, _Token(None))
    if first.text is None or (flag.text or "").upper() not in FLAGS:
        raise wrong_jaas("has no login module that is followed by 'required'")
    options: dict[str, str] = {}
    for name in tokens:
        if name.sign == ";":
            return JaasEntry(first.text, options)
        equals, value = next(tokens, _Token(None)), next(tokens, _Token(None))
        if name.text is None or equals.sign != "=" or value.text is None:
            raise wrong_jaas("has something other than name=\"value\" after 'required'")
        options[name.text] = value.text
    raise wrong_jaas("does not end with a semicolon")


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
