"""A runbook on several clusters: what happens to one of its runs does not touch the others."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from applications import eventually
from main_program import call_main
from runbook_places import Place

pytestmark = pytest.mark.starts("kernels")

MakeNotebook = Callable[..., Path]
PARAMETERS = 'cluster: str = ""\ngroup: str = ""\nfleet_file: str = ""'
# A cluster that is not there costs nothing here: only the notebook would ask it.
FLEET = "".join(f"  {name}:\n    bootstrap.servers: 127.0.0.1:1\n" for name in ("eu", "us"))
WAIT = """\
import pathlib, time
folder = pathlib.Path({folder!r})
try:
    (folder / f"{{cluster}}.began").touch()
    while not (folder / "go on").exists():
        time.sleep(0.05)
finally:
    (folder / f"{{cluster}}.ended").touch()
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(f"clusters:\n{FLEET}")
    state = str(tmp_path / "state")
    return Place(tmp_path, {"OFFSETBOOK_FLEET": str(fleet), "OFFSETBOOK_STATE": state})


@pytest.fixture
def waiting(make_notebook: MakeNotebook, place: Place) -> Path:
    """Return a notebook that waits until it may go on, and leaves a trace when it ends."""
    source = WAIT.format(folder=str(place.folder))
    return make_notebook("# Wait", source, parameters=PARAMETERS)


def test_a_full_disk_does_not_prevent_a_notification(
    place: Place, make_notebook: MakeNotebook
) -> None:
    """It is sent before the outcome is printed; the exit code is that of the run."""
    told = place.folder / "told"
    command = f"[sh, -c, 'cat > {told}']"
    notebook = make_notebook("1", parameters=PARAMETERS)
    page = place.page(notebook, f"notify: [{{on: always, command: {command}}}]\n")
    there = {**os.environ, **place.environment}

    with Path("/dev/full").open("w") as full:
        done = subprocess.run(place.command(page), env=there, stdout=full, check=False)

    assert (0, 0) == (done.returncode, json.loads(told.read_text())["exit_code"])


@pytest.mark.parametrize("wrong", [("--cluster", "gone"), ("-f", "gone")])
def test_a_run_that_cannot_start_is_notified(
    place: Place, make_notebook: MakeNotebook, wrong: tuple[str, str]
) -> None:
    """Such as one on a cluster that is no longer in the fleet file."""
    told = place.folder / "told"
    notices = f"[{{on: failure, command: [sh, -c, 'cat > {told}']}}]"
    notebook = make_notebook("1", parameters=PARAMETERS)
    page = place.page(notebook, f"notify: {notices}\n")

    code, _, said = place.run(page, *wrong)

    notice = json.loads(told.read_text())
    assert (2, 2) == (code, notice["exit_code"])
    assert all("gone" in text for text in (said, notice["text"]))


def test_one_that_fails_does_not_stop_the_others(place: Place, make_notebook: MakeNotebook) -> None:
    """
    Each cluster has its own result; the exit code is the worst; the index lists them all.

    Texts mean what the notebook declares; those of a file go before the page's, and -p before all.
    """
    conclude = "from toolkit.report.conclusion import conclude\n"
    conclude += "conclude(repr((cluster, group, owner, days)))"
    parameters = f'{PARAMETERS}\nowner: str = ""\ndays: int = 1'
    notebook = make_notebook("# Look", "assert cluster != 'us'", conclude, parameters=parameters)
    page = place.page(notebook, "parameters: {group: 007, owner: 007}\n")
    file = place.folder / "values.yaml"
    file.write_text("owner: 010\ndays: 3\n")

    code, told, _ = place.run(page, "-f", str(file), "-p", "days=4")

    assert (1, ["done", "failed"]) == (code, [run["status"] for run in told["runs"]])
    assert ("('eu', '007', '010', 4)", "at 'Look': AssertionError") == tuple(
        run["said"] for run in told["runs"]
    )
    assert [run["result"] for run in told["runs"]] == place.results
    eu, us = place.results
    assert [("try", "20_example", ["eu"]), ("try", "20_example", ["us"])] == [
        (result["runbook"], result["notebook"], result["clusters"]) for result in (eu, us)
    ]
    assert ({"eu": None}, 0, 1) == (eu["cluster_ids"], eu["exit_code"], us["exit_code"])
    index = (place.folder / "runs" / "index.html").read_text()
    assert all(Path(result["folder"]).name in index for result in (eu, us))

    file.write_text("group: 007\n  days: 3\n")
    code, _, said = place.run(page, "-f", str(file))
    assert (2, True) == (code, f"parameters file {file}, line 2" in said)


def test_it_is_not_run_twice_at_once(
    place: Place, waiting: Path, make_notebook: MakeNotebook
) -> None:
    """The second one is blocked and says by whom; another runbook on the same cluster is not."""
    page = place.page(waiting)
    other = place.page(make_notebook("1", parameters=PARAMETERS, name="1"), name="other")

    with place.running(page, "--cluster", "eu") as first:
        eventually(place.there_are("*.began", 1))
        code, told, _ = place.run(page, "--cluster", "eu")
        assert (3, "blocked", None) == (code, told["runs"][0]["status"], told["runs"][0]["result"])
        assert "runbook try is being run on eu by" in told["runs"][0]["said"]
        assert 0 == place.run(other, "--cluster", "eu")[0]
        (place.folder / "go on").touch()
        assert 0 == first.wait()

    assert 0 == place.run(page, "--cluster", "eu")[0]


def test_a_signal_ends_all_in_good_order(place: Place, waiting: Path) -> None:
    """Running cells clean up and every run has a result; what was not begun does not begin."""
    page = place.page(waiting, "at_once: 1\n")

    with place.running(page) as process:
        eventually(place.there_are("*.began", 1))
        process.send_signal(signal.SIGTERM)
        told = json.loads(process.communicate()[0])

    statuses = [run["status"] for run in told["runs"]]
    assert (1, ["interrupted", "no result"]) == (process.returncode, statuses)
    assert "SIGTERM stopped this step" in told["runs"][0]["said"]
    assert "not started" in told["runs"][1]["said"]
    assert place.there_are("eu.*", 2)()
    assert ["interrupted"] == [result["status"] for result in place.results]


def test_the_starter_is_killed(place: Place, waiting: Path) -> None:
    """Runs notice that, and end as after a signal."""
    with place.running(place.page(waiting), "--cluster", "eu") as process:
        eventually(place.there_are("*.began", 1))
        process.kill()
        eventually(place.there_are("*.ended", 1))
        eventually(lambda: len(place.results) == 1)

    assert ["interrupted"] == [result["status"] for result in place.results]


def test_a_run_is_killed(place: Place, waiting: Path) -> None:
    """It leaves no result, which is reported; its kernel ends too, and the other run goes on."""
    with place.running(place.page(waiting)) as process:
        eventually(place.there_are("*.began", 2))
        children = psutil.Process(process.pid).children()
        kernels = [kernel for child in children for kernel in child.children()]
        children[0].kill()
        eventually(lambda: sum(kernel.is_running() for kernel in kernels) == 1)
        (place.folder / "go on").touch()
        told = json.loads(process.communicate()[0])

    assert 1 == process.returncode
    assert ["done", "no result"] == sorted(run["status"] for run in told["runs"])
    assert ["done"] == [result["status"] for result in place.results]
    lost = next(run for run in told["runs"] if run["status"] == "no result")
    assert "the run ended without a result (SIGKILL)" in lost["said"]
    assert "no result" in (place.folder / "runs" / "index.html").read_text()


def test_a_secret_is_refused(place: Place, make_notebook: MakeNotebook) -> None:
    """A parameters file with a secret starts nothing, and the way to do it is pointed at."""
    page = place.page(make_notebook("1", parameters=PARAMETERS))
    file = place.folder / "values.yaml"

    for text in ("password: hunter2", "group: 'sasl.password=hunter2'", "group: s://a:hunter2@b"):
        file.write_text(f"{text}\n")
        words = [*place.command(page)[1:], "-f", str(file)]
        done = call_main(words, folder=place.folder, **place.environment)

        assert (2, "") == (done.returncode, done.stdout)
        assert "looks like a secret" in done.stderr
        assert "${env:NAME}" in done.stderr
        assert "hunter2" not in done.stderr
    assert not (place.folder / "runs").exists()
