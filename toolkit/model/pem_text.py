"""Certificates and keys in PEM format that stand in a setting (KIP-651)."""

from __future__ import annotations

import re

WIDTH = 64
BLOCK = re.compile(
    r"-+BEGIN (?P<label>[A-Z ]*)-+(?P<body>[A-Za-z0-9+/=\s]*)-+END (?P=label)-+", re.ASCII
)


def pem_blocks(text: str, label: str) -> str:
    """
    Return the blocks whose label ends in this one, with the line ends that OpenSSL wants.

    Java also reads a block on one line, with blanks in place of line ends. "" where there is none.
    """
    found = []
    for match in BLOCK.finditer(text):
        if match["label"].endswith(label):
            body = "".join(match["body"].split())
            lines = [body[start : start + WIDTH] for start in range(0, len(body), WIDTH)]
            name = match["label"]
            found += [f"-----BEGIN {name}-----", *lines, f"-----END {name}-----"]
    return "".join(f"{line}\n" for line in found)
