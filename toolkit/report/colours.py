"""The colours of charts and of status words: each has one meaning over all of them."""

from __future__ import annotations

from collections.abc import Iterable

# Okabe and Ito's colours, distinct with every common colour blindness, on light and on dark;
# without their black and yellow, which vanish on one of the two.
GOOD, CAUTION, BAD = "#009e73", "#e69f00", "#d55e00"
UNUSED = "#cc79a7"  # no longer needed: unsubscribed or removed
PAUSED = "#56b4e9"
UNKNOWN = "#7b8794"
# Status words of groups, partitions, checks and changes; what is in no list needs no attention.
STATUS_COLOURS = {
    **dict.fromkeys(("ok", "done"), GOOD),
    **dict.fromkeys(("warn", "behind", "orphaned", "not confirmed", "not tried"), CAUTION),
    **dict.fromkeys(("err", "error", "stop", "stall", "rewind", "stuck", "stopped"), BAD),
    **dict.fromkeys(("lost records", "beyond log end", "refused", "failed"), BAD),
    "unsubscribed": UNUSED,
    "held": PAUSED,
    "unknown": UNKNOWN,
}
# For clusters, topics and groups, which are neither good nor bad.
SERIES = ("#0072b2", "#9c755f", "#7b61c4", "#c2b280")
# More is stronger, on light and on dark: the page shines through where there is little.
SEQUENTIAL = ((0, "rgba(0,114,178,0.12)"), (1, "rgba(0,114,178,1)"))


def series_colours(names: Iterable[object]) -> dict[str, str]:
    """Return a colour for each name, the same in every chart of the same names."""
    distinct = sorted({str(name) for name in names})
    return {name: SERIES[place % len(SERIES)] for place, name in enumerate(distinct)}


def status_colour(word: object) -> str | None:
    """Return the colour of a status word, in whatever case; None for any other text."""
    return STATUS_COLOURS.get(str(word).lower())
