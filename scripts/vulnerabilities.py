"""
Compare the locked Python packages with the advisory database of the Python Packaging Authority.

The database (https://github.com/pypa/advisory-database, CC-BY-4.0, the source of PyPI's own
warnings) is cloned once and updated where there is a network; without one, the copy is used as it
is. Advisories are in the OSV format (https://ossf.github.io/osv-schema).
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from toolkit.model.plurals import counted

ROOT = Path(__file__).parent.parent
COPY = ROOT / ".advisories"
SOURCE = "https://github.com/pypa/advisory-database"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def main() -> int:
    """Print each advisory that applies; 1 if there is one, 2 if there is no database."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--advisories", type=Path, default=COPY, help="the copy of the database")
    parser.add_argument("--offline", action="store_true", help="do not update the copy")
    asked = parser.parse_args()
    if not asked.offline:
        update(asked.advisories)
    if not (asked.advisories / "vulns").is_dir():
        say(f"there is no advisory database in {asked.advisories}")
        say(f"try: with a network, git clone --depth 1 {SOURCE} {asked.advisories}")
        return 2
    written = datetime.fromisoformat(git(asked.advisories, "log", "-1", "--format=%cI"))
    age = counted((datetime.now(UTC) - written).days, "day")
    say(f"advisories of {written:%Y-%m-%d}: the copy is {age} old ({SOURCE}, CC-BY-4.0)")
    locks = [lock.read_text("utf-8") for lock in ROOT.glob("*.lock")]
    locked = sorted({pin for lock in locks for pin in PINNED.findall(lock)})
    found = [row for name, version in locked for row in advisories(asked.advisories, name, version)]
    print("\n".join(found) or f"none of {len(locked)} locked packages has a known vulnerability")
    return 1 if found else 0


def update(copy: Path) -> None:
    """Bring the copy up to date; without a network, say so and leave it as it is."""
    try:
        if copy.exists():
            git(copy, "fetch", "--quiet", "--depth", "1", "origin", "HEAD")
            git(copy, "checkout", "--quiet", "--detach", "FETCH_HEAD")
        else:
            git(ROOT, "clone", "--quiet", "--depth", "1", SOURCE, str(copy))
    except subprocess.CalledProcessError as exc:
        say(f"the copy was not updated: {exc.stderr.strip().splitlines()[0]}")


def git(directory: Path, *command: str) -> str:
    """Return what a git command prints; raises CalledProcessError."""
    done = subprocess.run(
        ["git", "-C", str(directory), *command],  # noqa: S607 - the git of the user
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def advisories(database: Path, name: str, version: str) -> Iterator[str]:
    """Yield a line for each advisory that applies to a version of a package."""
    package = canonicalize_name(name)
    for file in sorted((database / "vulns" / package).glob("*.yaml")):
        advisory = yaml.safe_load(file.read_text("utf-8"))
        affected = [
            one
            for one in advisory.get("affected", ())
            if canonicalize_name(one["package"]["name"]) == package
            and is_affected(Version(version), one)
        ]
        if affected and not advisory.get("withdrawn"):
            names = ", ".join([advisory["id"], *advisory.get("aliases", ())])
            fixed = ", ".join(sorted(set(filter(None, map(fixed_in, affected))))) or "no version"
            yield f"{name} {version}: {names}; fixed in {fixed}"


def is_affected(version: Version, affected: Mapping[str, Any]) -> bool:
    """Whether an advisory lists a version, or has it in one of its ranges."""
    return any(version == parsed(one) for one in affected.get("versions", ())) or any(
        is_within(version, one["events"])
        for one in affected.get("ranges", ())
        if one["type"] == "ECOSYSTEM"
    )


def is_within(version: Version, events: list[Mapping[str, str]]) -> bool:
    """Whether the last event up to a version began its being affected."""
    inside = False
    for kind, at in sorted(
        ((kind, parsed(text)) for event in events for kind, text in event.items()),
        key=lambda event: event[1] or Version("0"),
    ):
        if at is None or at > version:
            continue
        inside = kind == "introduced" or (kind == "last_affected" and at == version and inside)
    return inside


def fixed_in(affected: Mapping[str, Any]) -> str:
    """Return the versions that an advisory calls fixed."""
    events = [event for one in affected.get("ranges", ()) for event in one["events"]]
    found = [event["fixed"] for event in events if parsed(event.get("fixed", ""))]
    return ", ".join(found)


def parsed(text: str) -> Version | None:
    """Return a version; None for what PEP 440 does not know, such as a git commit."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
