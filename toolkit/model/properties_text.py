"""
The pairs of a properties file, in Java's grammar or in that of librdkafka's programs.

Java's is that of `java.util.Properties.load`: Latin-1, escapes, continued lines. Programs of
librdkafka, such as kcat, read `name=value` in UTF-8, and a backslash is a character of the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolkit.errors import UsageError

UTF_8_MARK = b"\xef\xbb\xbf"
BLANKS = " \t\f"
LINE_END = re.compile(r"\r\n|\r|\n")
# A separator is a blank, "=" or ":" that no backslash takes away.
PAIR = re.compile(
    r"(?P<key>(?:\\.|[^\\ \t\f=:])*)[ \t\f]*(?:[=:][ \t\f]*)?(?P<value>.*)", re.DOTALL
)
ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def decoded(content: bytes) -> tuple[str, str]:
    """
    Return a file's text as Java reads it, and as librdkafka's programs do; without a mark.

    In the latter, bytes that are no UTF-8 stay as surrogates. Raises UsageError for UTF-16, which
    either would read as names that nobody knows.
    """
    if b"\0" in content or content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError("it is UTF-16 or no text", hint="save it as UTF-8")
    content = content.removeprefix(UTF_8_MARK)
    return content.decode("latin-1"), content.decode("utf-8", errors="surrogateescape")


def java_pairs(text: str) -> dict[str, str]:
    """Return the pairs of Java's grammar, of which a later one wins; raises UsageError."""
    found = {}
    for line in _logical_lines(text):
        match = PAIR.fullmatch(line)
        if not match or not match["key"]:
            raise UsageError("a line has no key", hint="write key=value")
        found[_unescaped(match["key"])] = _unescaped(match["value"])
    return found


def librdkafka_pairs(text: str) -> dict[str, str]:
    """Return the pairs of `name=value` lines, of which a later one wins; raises UsageError."""
    found = {}
    for line in LINE_END.split(text):
        name, equals, value = line.strip().partition("=")
        if not line.strip() or name.startswith("#"):
            continue
        if not equals or not name.strip():
            raise UsageError(
                "a line is not name=value", hint="write name=value, or # for a comment"
            )
        found[name.strip()] = value.strip()
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines with those joined that end in a backslash, without blank ones and comments."""
    held = ""
    for line in LINE_END.split(text):
        part = line.lstrip(BLANKS)
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
        if found == "u":
            raise UsageError("a \\u is not followed by four hexadecimal digits", hint="write \\\\u")
        return chr(int(found[1:], 16)) if len(found) > 1 else CONTROL.get(found, found)

    # Two escapes may be the halves of one character; half of one stays.
    units = ESCAPE.sub(meant, text).encode("utf-16", "surrogatepass")
    return units.decode("utf-16", "surrogatepass")
