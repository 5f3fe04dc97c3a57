"""
Names that a shell completes: clusters of the fleet file, and groups that were listed last.

No request is sent to a broker. What cannot be read completes nothing, and nothing is printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.model import Cluster

# A shell inserts a name literally, so one that it would not read as a word is not offered.
WORD = re.compile(r"\w[\w.@%+,/-]*", re.ASCII)


def complete_clusters(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return _words(_fleet(ctx), incomplete)


def complete_groups(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the groups of the clusters that the command names; of all where it names none."""
    from toolkit.storage.known_groups import group_names

    fleet = _fleet(ctx)
    servers = [fleet[name].bootstrap_servers if name in fleet else name for name in _named(ctx)]
    servers = servers or [cluster.bootstrap_servers for cluster in fleet.values()]
    return _words((name for server in servers for name in group_names(server)), incomplete)


def _named(ctx: click.Context) -> list[str]:
    given = (ctx.params.get(name) for name in ("cluster", "clusters", "bootstrap_server"))
    return [
        name for value in given for name in ([value] if isinstance(value, str) else value or ())
    ]


def _fleet(ctx: click.Context) -> Mapping[str, Cluster]:
    from toolkit.storage.fleet_file import load_fleet

    try:
        return load_fleet(ctx.params.get("fleet"))
    except ToolkitError:
        return {}


def _words(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete) and WORD.fullmatch(name)})
