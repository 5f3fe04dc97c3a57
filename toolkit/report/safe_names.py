"""Names from a cluster, made safe to show."""

from __future__ import annotations

import re
import unicodedata
from html import escape

from toolkit.model.names import shown_name

# Control characters, and the invisible ones with which one name can pass for another.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_ENTITY = re.compile(r"&(?=#?\w+;)")


def visible(name: object) -> str:
    """Return a name with every invisible character spelt out, such as a reversed order of text."""
    text = str(name)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelt(c) if unicodedata.category(c) in _HIDDEN_CATEGORIES else c for c in text)


def visible_lines(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))


def sentence(words: str) -> str:
    """Return words that begin like a sentence; a name such as `orders.csv` stays as it is."""
    first = words.split(" ", 1)[0].rstrip(",;:")
    return words[:1].upper() + words[1:] if first.isalpha() else words


def in_html(name: object) -> str:
    """Return a name for use in HTML, as text or inside a quoted attribute."""
    return escape(visible(name))


def lines_in_html(text: str) -> str:
    """Return a text for use in HTML, in which line ends stay."""
    return escape(visible_lines(text))


def plain(name: object) -> str:
    """
    Return a name for use in a plotly label: title, tick, legend, hover text.

    Plotly drops scripts but keeps bold text and links, so that a group could be named as a link to
    anywhere. Once is enough: applied twice, the escapes show.
    """
    return without_tags(_ENTITY.sub("&amp;", visible(name)))


def group_label(group: str, cluster: str) -> str:
    return plain(f"{shown_name(group)} · {cluster}")


def without_tags(text: str) -> str:
    """Return a text in which plotly finds no tag; harmless where that was done before."""
    return text.replace("<", "&lt;").replace(">", "&gt;")


def _spelt(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
