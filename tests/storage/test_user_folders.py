"""Users without a home directory, as in a container under a bare number."""

import pwd
from pathlib import Path

import pytest
from main_program import call_main


@pytest.mark.parametrize("words", ["lag", "unsubscribed", "reset --group g --to-earliest"])
def test_a_user_without_a_home_directory(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container with a numeric user every command says what to set, in one sentence."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    where = ("--cluster", "127.0.0.1:1")
    names = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "OFFSETBOOK_FLEET", "OFFSETBOOK_STATE")
    nothing = dict.fromkeys(names)
    done = call_main([*words.split(), *where], folder=tmp_path, **nothing)

    assert (2, 1) == (done.returncode, len(done.stderr.splitlines())), done.stderr
    assert "Try: set OFFSETBOOK_STATE or HOME" in done.stderr
