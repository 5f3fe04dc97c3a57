"""Options that benchmarks share; with `--small` a benchmark only shows that it works."""

import argparse
import sys
from typing import Any


def new_parser(description: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def groups_parser(description: str | None, groups: int = 5000) -> argparse.ArgumentParser:
    """Return a parser of how many groups with how many commits are read, and how often."""
    parser = new_parser(description)
    parser.add_argument("--groups", type=int, default=groups)
    parser.add_argument("--commits", type=int, default=20, help="in each group, at most 1,000")
    parser.add_argument("--rounds", type=int, default=3)
    return parser


def parse_options(parser: argparse.ArgumentParser, **small: Any) -> argparse.Namespace:
    """Parse the command line; `small` are the values of options that `--small` sets."""
    parser.add_argument(
        "--small", action="store_true", help="try whether it works; the figures mean nothing"
    )
    if "--small" in sys.argv:
        parser.set_defaults(**small)
    return parser.parse_args()
