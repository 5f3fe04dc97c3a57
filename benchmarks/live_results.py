"""What the benchmark `live` found out about one kind of application, and the tables of all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from measuring import markdown, spread


@dataclass
class Pauses:
    """What was found in all pauses of one group."""

    confirmed_s: list[float] = field(default_factory=list)
    resumed_s: list[float] = field(default_factory=list)  # until the last paused one is read again
    interrupted: list[int] = field(default_factory=list)  # of the others, silent for over 1 s
    gap_s: list[float] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    held_s: float = 0.0  # the longest
    late: int = 0  # paused records within a second of the confirmation, cooperative only
    leaked: int = 0  # paused records delivered while they were held
    exact_resumes: int = 0
    all_resumes: int = 0
    announced: int | None = 0


@dataclass
class Moves:
    """What was found in all moves of one group."""

    delivered_s: list[float] = field(default_factory=list)  # from approval, the last partition
    gap_s: list[float] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)  # besides what was moved back
    exact: int = 0
    all: int = 0


@dataclass
class Found:
    """What was found out about one kind of application."""

    kind: str
    others: int  # partitions that were not paused
    pauses: Pauses = field(default_factory=Pauses)
    moves: Moves = field(default_factory=Moves)
    delivered: int = 0
    missing: int = 0
    two_at_once: int = 0
    keeper_mib: float = 0.0
    trouble: list[str] = field(default_factory=list)  # what failed


def tables(found: Sequence[Found]) -> Iterator[str]:
    """Yield the lines of both tables, and of what went wrong."""
    heading = ("pause", "confirmed s", "others interrupted", "gap s", "paused records delivered")
    heading += ("repeats", "resumed exactly", "resumed s", "keeper MiB")
    yield from markdown(heading, (_pause_row(one) for one in found if one.pauses.confirmed_s))
    yield ""
    heading = ("move", "delivered from the new offset s", "exactly there", "gap s of others")
    rows = (_move_row(one) for one in found if one.moves.delivered_s)
    yield from markdown((*heading, "repeats"), rows)
    yield ""
    heading = ("over all of it", "records delivered", "never delivered", "two members at once")
    totals = ((one.kind, f"{one.delivered:,}", one.missing, one.two_at_once) for one in found)
    yield from markdown(heading, totals)
    for one in found:
        yield from (f"\n**{one.kind} failed** at {trouble}" for trouble in one.trouble)


def for_owners(found: Sequence[Found], versions: Mapping[str, str]) -> Iterator[str]:
    """Return the table for who owns the applications; `versions` are those of the clients."""
    heading = ("consumers", "paused after s", "the others are silent for s, at most")
    heading += ("resumed after s", "moved after s", "records read twice: by a pause, by a move")
    rows = []
    for one in found:
        pauses, moves = one.pauses, one.moves
        if pauses.confirmed_s and moves.delivered_s:
            client = next(name for name in versions if one.kind.startswith(f"{name}-"))
            assignor = one.kind.removeprefix(f"{client}-")
            protocol = "KIP-848" if assignor == "consumer" else assignor
            cells = (
                f"{versions[client]}, {protocol}",
                spread(pauses.confirmed_s, ".1f"),
                f"{max(pauses.gap_s):.1f}",
                spread(pauses.resumed_s, ".1f"),
                spread(moves.delivered_s, ".1f"),
                f"{_counts(pauses.repeats)}, {_counts(moves.repeats)}",
            )
            rows.append(cells)
    return markdown(heading, rows)


def _pause_row(one: Found) -> tuple[str, ...]:
    pauses = one.pauses
    leaked = str(pauses.leaked)
    if pauses.late:
        leaked += f" (and {pauses.late} within 1 s)"
    announced = "not known" if pauses.announced is None else f"{pauses.announced:,}"
    return (
        one.kind,
        spread(pauses.confirmed_s, ".1f"),
        f"{_counts(pauses.interrupted)} of {one.others}",
        f"{max(pauses.gap_s):.1f}",
        f"{leaked} in {pauses.held_s:.0f} s",
        f"{_counts(pauses.repeats)} (announced {announced})",
        f"{pauses.exact_resumes} of {pauses.all_resumes}",
        spread(pauses.resumed_s, ".1f"),
        f"{one.keeper_mib:.0f}",
    )


def _move_row(one: Found) -> tuple[str, ...]:
    moves = one.moves
    return (
        one.kind,
        spread(moves.delivered_s, ".1f"),
        f"{moves.exact} of {moves.all}",
        f"{max(moves.gap_s):.1f}",
        _counts(moves.repeats),
    )


def _counts(values: Sequence[int]) -> str:
    return f"{median(values):.0f} ({min(values)}–{max(values)})"


def put_between_markers(text: str, result: str, script: str) -> str:
    """Return a document in which the last result of a benchmark is replaced."""
    begin, end = f"<!-- {script}: results -->", f"<!-- {script}: end -->"
    before, found, rest = text.partition(begin)
    _, ends, after = rest.partition(end)
    if not found or not ends:
        raise ValueError(f"{begin} and {end} are not in the document")
    return f"{before}{begin}\n\n{result.strip()}\n\n{end}{after}"
