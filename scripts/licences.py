"""List the licence of every installed package, from its own metadata; no network is needed."""

import re
import sys
from importlib.metadata import Distribution, distributions

# Licences that allow use and redistribution beside code under Apache-2.0.
ACCEPTED = re.compile(
    r"apache|\bBSD\b|\b0BSD\b|\bMIT\b|\bISC\b|\bPSF\b|python software foundation|\bMPL\b|mozilla"
    r"|unlicense|public domain|\bHPND\b|\bzlib\b|\bCC0\b|\bPython-2",
    re.IGNORECASE,
)


def licence_of(package: Distribution) -> str:
    """Return the licence that a package declares: expression, classifiers or first line of text."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = metadata.get_all("Classifier") or []
    named = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License ::")]
    stated = str(metadata.get("License") or "").strip().splitlines()
    return ", ".join(n for n in named if n != "OSI Approved") or (stated or ["unknown"])[0]


def main() -> int:
    """Print name, version and licence of each package; 1 if one is unknown or not accepted."""
    found = {
        (str(package.metadata["Name"]).lower(), package.version): licence_of(package)
        for package in distributions()
    }
    for (name, version), licence in sorted(found.items()):
        print(f"{name:32} {version:16} {licence}")
    odd = [name for (name, _), licence in sorted(found.items()) if not ACCEPTED.search(licence)]
    if odd:
        print(f"check by hand: {', '.join(odd)}", file=sys.stderr)
    return 1 if odd else 0


if __name__ == "__main__":
    sys.exit(main())
