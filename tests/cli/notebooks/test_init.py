"""offsetbook init: what it copies, and that it never replaces what somebody edited."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelspec import get_kernel_dict

from toolkit.cli.notebooks.init import command
from toolkit.errors import UsageError
from toolkit.storage.fleet_file import load_fleet
from toolkit.templates import NOTEBOOKS, RUNBOOKS
from toolkit.templates.working_copies import (
    COPIED,
    CopiedFile,
    CopyStatus,
    copy_templates,
    kernel_metadata,
    notebook_text,
    with_kernel,
)

RESET = Path("notebooks/50_reset_offsets.ipynb")


def status_of(path: Path, files: list[CopiedFile]) -> CopyStatus:
    (found,) = (file for file in files if file.path == path)
    return found.status


def invoke(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False)


def test_a_new_directory_has_everything(tmp_path: Path) -> None:
    """Every notebook and runbook is there, byte for byte but for the kernel, with a fleet file."""
    done = invoke(tmp_path / "own")

    assert done.exit_code == 0
    for source in (NOTEBOOKS, RUNBOOKS):
        for path in (
            path for path in source.rglob("*.*") if path.is_file() and path.suffix != ".pyc"
        ):
            copy = tmp_path / "own" / source.name / path.relative_to(source)
            shipped, own = path.read_text("utf-8"), copy.read_text("utf-8")
            assert own == (with_kernel(shipped) if path.suffix == ".ipynb" else shipped)
    assert "runs/" in (tmp_path / "own" / ".gitignore").read_text("utf-8")
    assert "created" in done.stderr


def test_the_fleet_file_becomes_valid(tmp_path: Path) -> None:
    """The comments of the fleet file are an example that is read once they are uncommented."""
    copy_templates(tmp_path)
    path = tmp_path / "fleet.yaml"
    settings = re.findall(r"^# ( *[\w.]+:.*)", path.read_text("utf-8"), re.MULTILINE)

    path.with_name("us-client.properties").write_text("bootstrap.servers=broker:9092")
    path.write_text("\n".join(settings), "utf-8")

    assert [("eu", False), ("us", True)] == [
        (name, cluster.policy.read_only) for name, cluster in load_fleet(path).items()
    ]


def test_an_edited_file_is_never_replaced(tmp_path: Path) -> None:
    """Neither a second time nor by an update, which shows how it differs."""
    copy_templates(tmp_path)
    edited, missing = tmp_path / RESET, tmp_path / "runbooks" / "README.md"
    edited.write_text(edited.read_text("utf-8").replace("True", "False"), "utf-8")
    mine = edited.read_bytes()
    missing.unlink()

    again = copy_templates(tmp_path)
    update = invoke(tmp_path, "--update")

    assert CopyStatus.EDITED is status_of(RESET, again)
    assert mine == edited.read_bytes()
    assert missing.is_file()
    assert "-dry_run: bool = False" in update.stdout
    assert "+dry_run: bool = True" in update.stdout
    assert f"edited, kept: {RESET}" in update.stderr


def test_an_older_version_is_replaced_by_an_update(tmp_path: Path) -> None:
    """A copy that nobody edited stays until an update, which shows the difference."""
    copy_templates(tmp_path)
    old = tmp_path / RESET
    new = old.read_text("utf-8")
    was = (NOTEBOOKS / RESET.name).read_text("utf-8").replace("dry_run", "old_name")
    record = tmp_path / COPIED
    old.write_text(was, "utf-8")
    copied = record.read_text("utf-8")
    # As the version before it wrote it down.
    (digest,) = (line.split('"')[3] for line in copied.splitlines() if str(RESET) in line)
    record.write_text(copied.replace(digest, hashlib.sha256(was.encode()).hexdigest()), "utf-8")

    kept = invoke(tmp_path)
    assert was == old.read_text("utf-8")
    assert f"older version kept: {RESET}" in kept.stderr
    assert "--update" in kept.stderr

    update = invoke(tmp_path, "--update")
    assert new == old.read_text("utf-8")
    assert "+dry_run: bool = True" in update.stdout
    assert CopyStatus.UNCHANGED is status_of(RESET, copy_templates(tmp_path))


def test_another_python_is_no_edit(tmp_path: Path) -> None:
    """A copy that JupyterLab saved on another Python is the same; with another kernel it is not."""
    copy_templates(tmp_path)
    copy = tmp_path / RESET
    shown = json.loads(copy.read_text("utf-8"))
    shown["metadata"]["language_info"]["version"] = "3.99.0"
    copy.write_text(notebook_text(shown), "utf-8")
    assert CopyStatus.UNCHANGED is status_of(RESET, copy_templates(tmp_path, update=True))
    assert "3.99.0" in copy.read_text("utf-8")

    shown["metadata"]["kernelspec"]["name"] = "of-my-own"
    copy.write_text(notebook_text(shown), "utf-8")
    assert CopyStatus.EDITED is status_of(RESET, copy_templates(tmp_path, update=True))
    copy.write_text("no notebook", "utf-8")
    assert CopyStatus.EDITED is status_of(RESET, copy_templates(tmp_path, update=True))


def test_the_kernel_is_the_one_that_jupyterlab_starts() -> None:
    """A copy names ipykernel as ipykernel does; JupyterLab changes whatever it names otherwise."""
    named = kernel_metadata()
    spec = get_kernel_dict()

    assert IPythonKernel.language_info == named["language_info"]
    assert (spec["display_name"], spec["language"]) == (
        named["kernelspec"]["display_name"],
        named["kernelspec"]["language"],
    )


def test_the_templates_are_not_worked_on(tmp_path: Path) -> None:
    """The directory that is copied from is refused, and one that cannot be written to is named."""
    with pytest.raises(UsageError, match="copied from"):
        copy_templates(NOTEBOOKS.parent)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write .*file"):
        copy_templates(tmp_path / "file")
