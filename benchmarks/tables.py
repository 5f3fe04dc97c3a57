"""
Writing a table of many groups: no broker, the rows are made up.

Every way writes the same frame, in turns, in one process:

    offsetbook  the table of `offsetbook lag` as it goes into a pipe
    rich        the same cells through rich's own Table
    to_string   pandas' own text, which formats nothing for people
"""

import io
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import pandas as pd
from measuring import in_turns, machine, markdown, median_of, new_parser, parse_options, spread
from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolkit.cli.output import printable
from toolkit.cli.terminal_table import terminal_table
from toolkit.report.cell_text import cell_texts, cell_values, column_kind, rows_of


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parse_options(parser, rows=50, rounds=1)
    frame = made_up(given.rows)
    ways: dict[str, Callable[[pd.DataFrame], str]] = {
        "offsetbook": ours,
        "rich": with_rich,
        "to_string": lambda frame: frame.to_string(index=False),
    }
    lines = {name: len(way(frame).splitlines()) for name, way in ways.items()}  # and warm up
    if set(lines.values()) != {given.rows + 1}:
        raise SystemExit(f"not the same table: {lines}")
    timed = {name: partial(cpu_s, way, frame) for name, way in ways.items()}
    times = in_turns(timed, given.rounds, lambda took: f"{took:.3f} s", warm_up=0)
    print("\n".join(report(times, rows=given.rows, rounds=given.rounds)))


def cpu_s(way: Callable[[pd.DataFrame], str], frame: pd.DataFrame) -> float:
    began = time.process_time()
    way(frame)
    return time.process_time() - began


def made_up(rows: int) -> pd.DataFrame:
    """Return a frame like that of `offsetbook lag`, with every tenth lag unknown."""
    numbers = pd.Series(range(rows))
    lag = (numbers * 37 % 90_001).astype("Int64")
    return pd.DataFrame(
        {
            "cluster": "eu",
            "group": [f"payments-service-{number:05}" for number in numbers],
            "topics": 1 + numbers % 3,
            "partitions": 4 + numbers % 9,
            "lag": lag.mask(numbers % 10 == 0),
            "time_lag_s": numbers * 3.7 % 200_000,
            "lost": pd.array([0] * rows, "Int64"),
            "worst_topic": [f"orders.created.{number % 50}" for number in numbers],
            "worst_partition": pd.array(numbers % 12, "Int64"),
            "committed_at": pd.Timestamp("2026-03-01T10:00:00Z") + pd.to_timedelta(numbers, "s"),
        }
    )


def ours(frame: pd.DataFrame) -> str:
    table = terminal_table(rows_of(frame), printable)
    return "\n".join([*table.header, *table.rows])


def with_rich(frame: pd.DataFrame) -> str:
    table = Table(box=None, pad_edge=False)
    columns = []
    for name in frame:
        kind = column_kind(frame[name])
        table.add_column(str(name), justify="left" if kind == "text" else "right")
        columns.append(cell_texts(cell_values(frame[name]), kind))
    for row in zip(*columns, strict=True):
        table.add_row(*map(Text, row))
    written = io.StringIO()
    Console(file=written, width=1000, highlight=False).print(table)
    return written.getvalue()


def report(times: dict[str, list[float]], *, rows: int, rounds: int) -> list[str]:
    first = median(times["offsetbook"])
    measured = (
        f"{rows:,} rows of 10 columns. {median_of(f'{rounds} runs in turns')} "
        f"{machine('pandas', 'rich')}."
    )
    compared = (
        (name, spread(took, ".3f"), f"{median(took) / first:.1f}") for name, took in times.items()
    )
    return [measured, "", *markdown(("", "CPU s", "offsetbook = 1"), compared)]


if __name__ == "__main__":
    main()
