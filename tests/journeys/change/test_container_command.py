"""A pause that a container's only command leaves behind, which would end with the container."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from toolkit.cli import cli
from toolkit.errors import UsageError
from toolkit.journeys.change import container_command
from toolkit.journeys.change.container_command import OF_A_CONTAINER, is_container_command

COMMAND = "tini\0--\0offsetbook\0run\0nothing\0"
PAUSE = ["pause", "--cluster", "127.0.0.1:1", "--group", "payments", "--topic", "orders:1"]


@pytest.mark.parametrize(
    ("first", "argv", "ends"),
    [
        (["tini", "-s", "--", "offsetbook", "pause"], ["/opt/bin/offsetbook", "pause"], True),
        (["/opt/bin/python", "/opt/bin/offsetbook", "pause"], ["offsetbook", "pause"], True),
        (["tini", "--", "offsetbook", "pause", "--detach"], ["offsetbook", "resume"], False),
        (["tini", "--", "offsetbook", "lab"], ["offsetbook", "pause"], False),
        (["bash", "-c", "offsetbook pause; sleep 1h"], ["offsetbook", "pause"], False),
        (["sleep", "infinity"], ["offsetbook", "pause", "--detach"], False),
        (["/sbin/init"], ["offsetbook"], False),
        ([], ["offsetbook", "pause"], False),
    ],
)
def test_the_command_of_a_container_is_known(
    first: list[str],
    argv: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    ends: bool,
) -> None:
    """It is what the first process was started for, and nothing that runs beside that."""
    file = tmp_path / "cmdline"
    file.write_bytes(b"".join(word.encode() + b"\0" for word in first))
    monkeypatch.setattr(container_command, "FIRST_PROCESS", file)
    monkeypatch.setattr("sys.argv", argv)

    assert ends == is_container_command()

    monkeypatch.setattr(container_command, "FIRST_PROCESS", tmp_path / "nothing")
    assert not is_container_command()


def test_a_background_pause_that_ends_with_its_container_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper would be killed with the container; nothing is read, and the way is named."""
    file = tmp_path / "cmdline"
    file.write_bytes(b"\0".join(word.encode() for word in ("tini", "--", "offsetbook", *PAUSE, "")))
    monkeypatch.setattr(container_command, "FIRST_PROCESS", file)
    monkeypatch.setattr("sys.argv", ["offsetbook", *PAUSE])

    with pytest.raises(UsageError, match="the container, and the keeper in it, would end"):
        CliRunner().invoke(cli, [*PAUSE, "--detach"], catch_exceptions=False)


def test_a_run_passes_it_to_its_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook that pauses is refused as well: its processes have other commands."""
    monkeypatch.setenv(OF_A_CONTAINER, "")  # so that what the command sets ends with this test
    monkeypatch.delenv(OF_A_CONTAINER)
    monkeypatch.setattr("sys.argv", ["offsetbook", "run", "nothing"])
    file = tmp_path / "cmdline"
    monkeypatch.setattr(container_command, "FIRST_PROCESS", file)
    for first, marked in (("bash\0-c\0offsetbook run nothing\0", False), (COMMAND, True)):
        file.write_bytes(first.encode())
        CliRunner().invoke(cli, ["run", "nothing"])

        assert marked == (OF_A_CONTAINER in os.environ)
    file.unlink()
    assert is_container_command()
    os.environ.pop(OF_A_CONTAINER)
    assert not is_container_command()
