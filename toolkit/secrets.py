"""
How a secret stands in a cluster's settings: as a reference, `${env:NAME}` or `${file:PATH}`.

It is resolved when a connection is made, so no record, log line or process list ever has it.
"""

from __future__ import annotations

import re

SECRET_SETTINGS = frozenset({"sasl.password", "ssl.key.password"})
REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")
