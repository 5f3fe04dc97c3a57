"""`--validate-regex`: whether brokers would accept a pattern for topics (KIP-848)."""

from __future__ import annotations

from typing import Any

import click


def run(given: dict[str, Any]) -> int:
    """Say whether a pattern is valid by RE2 rules, which are the brokers'; 1 where it is not."""
    import re2

    pattern = given["validate_regex"]
    options = re2.Options()
    options.log_errors = False  # it would write to stderr itself
    try:
        re2.compile(pattern, options)
    except re2.error as exc:
        why = exc.args[0].decode() if isinstance(exc.args[0], bytes) else exc.args[0]
        click.echo(f"The regular expression `{pattern}` is invalid: {why}.")
        return 1
    click.echo(f"The regular expression `{pattern}` is valid.")
    return 0
