"""
Values of settings do not appear in what users attach to a bug report.

An error of a client may repeat a path, an address or what a broker said about a login. Each value
of a setting is replaced there by the name of its setting.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from toolkit.errors import UsageError
from toolkit.model import Cluster, secrets
from toolkit.model.connection_settings import CHOICES, SECRET_SETTINGS
from toolkit.model.server_addresses import read_servers

Masks = Mapping[str, str]  # what is not shown, and what is shown instead


def masks_of(cluster: Cluster) -> Masks:
    """Return what not to show of a cluster: values of settings, secrets, and parts of them."""
    found = {}
    values = {"bootstrap.servers": cluster.bootstrap_servers, **cluster.settings}
    for name, value in values.items():
        if name not in CHOICES:
            found.update(dict.fromkeys(_parts(name, value), f"<{name}>"))
    return found


def masked(text: str, masks: Masks) -> str:
    """Return a text with values replaced, the longest first, also where they are quoted."""
    values = sorted((value for value in masks if value), key=len, reverse=True)
    if not values:
        return text
    # A short value such as "me" is replaced as a word, not inside of words.
    pattern = "|".join(rf"(?<!\w){re.escape(value)}(?!\w)" for value in values)
    return re.sub(pattern, lambda match: masks[match.group()], text)


def _parts(name: str, value: str) -> Iterator[str]:
    yield value
    if name == "bootstrap.servers":
        for text in value.split(","):
            yield text.strip()
            with suppress(UsageError):
                yield from (
                    part for server in read_servers(text) for part in (str(server), server.host)
                )
    elif name in SECRET_SETTINGS:
        with suppress(LookupError):
            yield secrets.resolved(value)
    elif name.endswith(".location"):
        yield Path(value).name
    elif name.endswith(".url"):
        with suppress(ValueError):
            yield urlsplit(value).netloc
            yield urlsplit(value).hostname or ""
    elif name.endswith(".command"):
        with suppress(ValueError):
            yield from shlex.split(value)
