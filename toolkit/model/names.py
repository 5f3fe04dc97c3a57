"""Names of groups as people read and write them: always something to see, and to type."""

from __future__ import annotations

import json
from contextlib import suppress
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache

# An empty cell of a table: offsetbook's, and that of Kafka's own tool.
MISSING, TOOL_MISSING = "\N{EN DASH}", "-"


def shown_name(name: str) -> str:
    """
    Return a name unchanged, or in double quotes if it does not look like a name.

    Brokers accept commits for a group whose name is empty, blank or a dash.
    """
    is_clear = name and name == name.strip() and name[0] != '"'
    if is_clear and name not in {MISSING, TOOL_MISSING}:
        return name
    return json.dumps(name, ensure_ascii=False)


class ExactName(str):
    """The exact name of a group: neither a pattern nor in quotes, whatever it looks like."""

    __slots__ = ()


class _EveryName(str):
    __slots__ = ()


EVERY_NAME = _EveryName("*")  # all groups, also where one is called so


def is_pattern(name: str) -> bool:
    """Whether a name can be read as a shell pattern."""
    return not isinstance(name, ExactName) and any(sign in name for sign in "*?[")


def typed_name(name: str) -> str:
    """Return the text that selects exactly this group; any text but an `ExactName` does already."""
    if not isinstance(name, ExactName):
        return name
    return json.dumps(name, ensure_ascii=False) if is_pattern(str(name)) else shown_name(name)


def named(text: str) -> str:
    """Return the name in a text: the text itself, or the content of double quotes."""
    if text[:1] == '"' and not isinstance(text, ExactName):
        with suppress(ValueError):
            if isinstance(name := json.loads(text), str):
                return name
    return text


def matches(name: str, entry: str) -> bool:
    """Whether an entry of a list of names and shell patterns is about a name."""
    return name == entry or fnmatchcase(name, entry)


@lru_cache(maxsize=64)
def did_you_mean(name: str, known: frozenset[str]) -> str:
    """
    Return `; did you mean NAME?` for the known name that is most like a name, or "".

    Of 20,000 names this takes half a second: it is for messages about a few names.
    """
    close = get_close_matches(name, known, n=1, cutoff=0.75)
    return f"; did you mean {shown_name(close[0])}?" if close else ""
