"""The option that every benchmark has: sizes so small that it only shows that the script works."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def parse_options(parser: argparse.ArgumentParser, **small: Any) -> argparse.Namespace:
    """Parse the command line; `small` are the values of options that `--small` sets."""
    parser.add_argument(
        "--small", action="store_true", help="try whether it works; the figures mean nothing"
    )
    if "--small" in sys.argv:
        parser.set_defaults(**small)
    return parser.parse_args()
