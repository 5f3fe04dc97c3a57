"""
Build a release from the commit that is checked out: sdist, wheel, SBOM and digests in dist/.

    make release VERSION=1.0.0rc1   set version and changelog, commit and tag, then build
    make release                    build the checked-out commit as it is

Builds twice, in two folders, and compares the bytes. Until every check has passed, nothing changes
here: the commit is made in a worktree. Nothing is uploaded.
"""

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
TOOLS = ROOT / "build" / "release-tools"
UNRELEASED = "## Unreleased\n"


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command and return its output; end if it fails, with what it wrote."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}make release: this failed: {' '.join(map(str, command))}")
    return done.stdout.strip()


def git(*words: str, cwd: Path = ROOT) -> str:
    return run("git", *words, cwd=cwd)  # git is on the path of whoever has a clone


def with_version(pyproject: str, version: str) -> str:
    """Return pyproject.toml with another version: the only place that has it."""
    return re.sub(
        r'^version = ".*"$', f'version = "{version}"', pyproject, count=1, flags=re.MULTILINE
    )


def with_release(changelog: str, version: str, day: str) -> str:
    """Return the changelog with what was unreleased under this version."""
    _, _, after = changelog.partition(UNRELEASED)
    if not re.search(r"^- ", after.partition("\n## ")[0], re.MULTILINE):
        raise SystemExit("make release: CHANGELOG.md has no entry under Unreleased")
    return changelog.replace(UNRELEASED, f"{UNRELEASED}\n## {version} - {day}\n", 1)


def check_version(version: str, current: str, tags: list[str]) -> None:
    """Refuse a version that is not in normal form, not newer, or released already."""
    try:
        normal = str(Version(version))
    except InvalidVersion as exc:
        raise SystemExit(f"make release: {exc}. Give one such as 1.0.0 or 1.0.0rc1") from exc
    if normal != version:
        raise SystemExit(f"make release: write version {version!r} as {normal}")
    if f"v{version}" in tags:
        raise SystemExit(f"make release: tag v{version} exists. Give a newer version")
    if Version(version) < Version(current):
        raise SystemExit(f"make release: {version} is older than {current} in pyproject.toml")


def commit_release(version: str, tree: Path) -> str:
    """Commit version and changelog in a worktree, and return the commit."""
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    pyproject, changelog = tree / "pyproject.toml", tree / "CHANGELOG.md"
    pyproject.write_text(with_version(pyproject.read_text("utf-8"), version), "utf-8")
    changelog.write_text(with_release(changelog.read_text("utf-8"), version, day), "utf-8")
    git("commit", "--quiet", "--all", "--message", f"Release {version}", cwd=tree)
    return git("rev-parse", "HEAD", cwd=tree)


def normalise(sdist: Path, epoch: int) -> None:
    """Rewrite an sdist without times, owners and order of files, which setuptools leaves in."""
    with tarfile.open(sdist) as archive:
        files = [(m, archive.extractfile(m)) for m in archive.getmembers() if not m.isdir()]
        parts = {m.name: (m.mode, file.read()) for m, file in files if file}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (mode, content) in sorted(parts.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), epoch
            member.mode = 0o755 if mode & 0o100 else 0o644
            archive.addfile(member, io.BytesIO(content))
    with sdist.open("wb") as file, gzip.GzipFile("", "wb", 9, file, epoch) as compressed:
        compressed.write(packed.getvalue())


def build(commit: str, place: Path) -> Path:
    """Build sdist and, from it alone, the wheel; return the folder they are in."""
    source, unpacked, built = place / "source", place / "unpacked", place / "built"
    epoch = git("show", "--no-patch", "--format=%ct", commit)
    archive = place / "source.tar"
    place.mkdir()
    git("archive", f"--output={archive}", commit)
    shutil.unpack_archive(archive, source, filter="data")
    command = (TOOLS / "bin" / "python", "-m", "build", "--no-isolation", "--outdir", built)
    # setuptools warns that folders of notebooks and runbooks could be packages, at length.
    settings = {"SOURCE_DATE_EPOCH": epoch, "PYTHONWARNINGS": "ignore"}
    run(*command, "--sdist", source, **settings)
    (sdist,) = built.glob("*.tar.gz")
    normalise(sdist, int(epoch))
    shutil.unpack_archive(sdist, unpacked, filter="data")
    run(*command, "--wheel", *unpacked.iterdir(), **settings)
    return built


def digests(folder: Path) -> dict[str, str]:
    files = sorted(folder.iterdir())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def write_sbom(wheel: Path, source: Path, place: Path) -> None:
    """Write what an installed wheel consists of, at the versions of the lock (CycloneDX)."""
    run("uv", "venv", "--quiet", "--python", sys.executable, place)
    python, lock = place / "bin" / "python", source / "requirements.lock"
    run("uv", "pip", "install", "--quiet", "--python", python, "--constraint", lock, wheel)
    target = DIST / f"{wheel.name.partition('-py3')[0]}.cdx.json"
    run(
        *(TOOLS / "bin" / "cyclonedx-py", "environment", "--output-reproducible"),
        *("--pyproject", source / "pyproject.toml", "--mc-type", "application"),
        *("--spec-version", "1.6", "--output-file", target, python),
    )


def release(commit: str, work: Path) -> None:
    """Build a commit twice, check the packages, and put them in dist/ with SBOM and digests."""
    first, second = (build(commit, work / name) for name in ("first", "second-and-elsewhere"))
    if digests(first) != digests(second):
        raise SystemExit(f"make release: not reproducible: {digests(first)} {digests(second)}")
    run(TOOLS / "bin" / "twine", "check", "--strict", *first.iterdir())
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.copytree(first, DIST)
    (wheel,) = DIST.glob("*.whl")
    write_sbom(wheel, work / "first" / "source", work / "runtime")
    sums = "".join(f"{digest}  {name}\n" for name, digest in digests(DIST).items())
    (DIST / "SHA256SUMS").write_text(sums, "utf-8")
    print(sums, end="")


def main(version: str | None) -> None:
    if changed := git("status", "--porcelain"):
        raise SystemExit(f"make release: commit or remove these changes first:\n{changed}")
    os.umask(0o022)  # modes of generated files are part of a wheel
    current = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    if version:
        check_version(version, current, git("tag", "--list").splitlines())
    run("uv", "venv", "--quiet", "--clear", "--python", sys.executable, TOOLS)
    run(
        "uv",
        "pip",
        "sync",
        "--quiet",
        "--python",
        TOOLS,
        "--require-hashes",
        "requirements-release.lock",
    )
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "worktree")
        git("worktree", "add", "--quiet", "--detach", str(tree))
        try:
            commit = commit_release(version, tree) if version else git("rev-parse", "HEAD")
            release(commit, Path(folder))
        finally:
            git("worktree", "remove", "--force", str(tree))
    if version:
        git("merge", "--quiet", "--ff-only", commit)
        git("tag", "--annotate", f"v{version}", "--message", f"offsetbook {version}")
        print(f"Committed and tagged v{version}. Publish with: git push --follow-tags")


if __name__ == "__main__":
    main(*sys.argv[1:] or [None])
