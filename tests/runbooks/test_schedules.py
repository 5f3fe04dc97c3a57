"""The examples for schedulers are what those schedulers take, and run runbooks that there are."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from toolkit.cli import cli
from toolkit.model import Cluster
from toolkit.model.secrets import REFERENCE
from toolkit.runbooks.runbook_page import read_runbook
from toolkit.runner.parameters import read_parameters
from toolkit.storage.fleet_file import load_fleet

pytestmark = pytest.mark.starts("schedulers")

ROOT = Path(__file__).parent.parent.parent
SCHEDULES = ROOT / "runbooks" / "schedules"
DAGS = SCHEDULES / "airflow_dags.py"
KUBERNETES = SCHEDULES / "kubernetes.yaml"
WORKFLOW = SCHEDULES / "github-actions.yaml"
CRONTAB = SCHEDULES / "crontab"
DOCKERFILE = ROOT / "Dockerfile"
# Those that the examples start; each has a page.
NIGHTLY, DAILY = "nightly-fleet-lag", "expiry-watch"
REPORT, CLEAN_UP = "weekly-unsubscribed-report", "weekly-unsubscribed-cleanup"
BASH = shutil.which("bash") or "/bin/bash"
SYSTEMD = shutil.which("systemd-analyze")

Tool = Callable[..., str]


def commands_in(shell: str) -> Iterator[list[str]]:
    """Yield the words of each offsetbook command in some lines of shell."""
    for line in shell.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            ends = word[0] in lexer.punctuation_chars
            if ends and words:
                yield words
            words = [] if ends else [*words, word]
            if words and words[0] in {"exec", "-c"}:
                words = []
            if words and Path(words[0]).name != "offsetbook":
                words = []


def run_command(words: list[str]) -> tuple[str, dict[str, Any]]:
    """Hand a command line to the real parser; return the runbook that it runs, and its options."""
    name, *arguments = words
    assert "offsetbook" == Path(name).name
    above = click.Context(cli, info_name="offsetbook")
    _, command, rest = cli.resolve_command(above, arguments)
    assert "run" == command.name
    options = command.make_context("run", rest, parent=above).params
    return options.pop("name"), options


def runbooks_of(commands: list[list[str]]) -> list[str]:
    """Return which runbooks some commands run, after their pages have been read."""
    names = [run_command(words)[0] for words in commands]
    for name, words in zip(names, commands, strict=True):
        page = read_runbook(ROOT / "runbooks" / f"{name}.md")
        _, options = run_command(words)
        assert options["clusters"] or not page.must_name_clusters
        given = {parameter for parameter, _ in options["parameters"]}
        assert set(page.must_give) <= given
    return names


def cron_lines() -> list[tuple[str, str]]:
    lines = [line.strip() for line in CRONTAB.read_text("utf-8").splitlines()]
    entries = [line for line in lines if line and not re.match(r"#|[A-Z_]+=", line)]
    return [(" ".join(e.split(maxsplit=5)[:5]), e.split(maxsplit=5)[5]) for e in entries]


def test_cron_runs_runbooks_that_there_are(tool: Tool) -> None:
    """Each entry has a real time, a command that a shell takes, and nothing that cron cuts off."""
    entries = cron_lines()
    commands = [words for _, command in entries for words in commands_in(command)]

    assert [NIGHTLY, DAILY, REPORT, CLEAN_UP] == runbooks_of(commands)
    are_times(tool, *(time for time, _ in entries))
    for _, command in entries:
        subprocess.run(["/bin/sh", "-n", "-c", command], check=True)
        assert "%" not in command, "cron takes a % for the end of the line"


def are_times(tool: Tool, *times: str) -> None:
    """Let Airflow's cron library read times, of which there must be some."""
    assert times
    tool("python", "-c", f"from croniter import croniter; [*map(croniter.expand, {times!r})]")


def unit(path: Path) -> configparser.ConfigParser:
    """Read a unit file; of a setting that is given more than once, the last."""
    parser = configparser.ConfigParser(
        strict=False, interpolation=None, comment_prefixes=("#",), delimiters=("=",)
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign] # systemd minds upper case
    parser.read_string(path.read_text("utf-8"))
    return parser


def timers() -> dict[str, str]:
    """Return when systemd starts which runbook: the template's time, and that of the drop-ins."""
    by_template = unit(SCHEDULES / "offsetbook@.timer")["Timer"]["OnCalendar"]
    found = {NIGHTLY: by_template}
    for drop_in in SCHEDULES.glob("offsetbook@*.timer.d/*.conf"):
        name = drop_in.parent.name.removeprefix("offsetbook@").removesuffix(".timer.d")
        found[name] = unit(drop_in)["Timer"]["OnCalendar"]
    return found


def test_systemd_runs_runbooks_and_takes_only_0_for_success() -> None:
    """The template runs its instance's page; 1 to 4 fail, and only the runner is asked to stop."""
    service = unit(SCHEDULES / "offsetbook@.service")["Service"]
    commands = [service["ExecStart"].replace("%i", name).split() for name in timers()]

    assert {NIGHTLY, REPORT, CLEAN_UP} == set(runbooks_of(commands))
    assert "SuccessExitStatus" not in service
    assert "oneshot" == service["Type"]  # of another type, a run that SIGTERM ended is a success
    assert ("SIGTERM", "mixed") == (service["KillSignal"], service["KillMode"])


@pytest.mark.skipif(SYSTEMD is None, reason="systemd is for Linux")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """Systemd finds nothing wrong with the units, their times and how much they shut off."""
    shutil.copytree(SCHEDULES, tmp_path, dirs_exist_ok=True)
    service = tmp_path / "offsetbook@.service"
    here = service.read_text("utf-8").replace("/opt/offsetbook/.venv/bin/offsetbook", "/bin/true")
    service.write_text(here, "utf-8")
    analyses = [
        ["verify", service, *tmp_path.glob("offsetbook@*.timer")],
        ["calendar", *timers().values()],
        ["security", "--offline=true", "--threshold=20", service],  # 2.0 of 10
    ]
    for words in analyses:
        command = [SYSTEMD or "", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (0, "") == (done.returncode, done.stderr), done.stdout


@pytest.fixture(scope="session")
def dags(tool: Tool, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the real Airflow finds in the file of DAGs."""
    found = tmp_path_factory.mktemp("dags") / "dags.json"
    tool("python", Path(__file__).parent / "load_dags.py", DAGS, found)
    content: dict[str, Any] = json.loads(found.read_text("utf-8"))
    return content


def test_airflow_takes_the_dags(dags: dict[str, Any]) -> None:
    """Airflow imports the file; no exit code is skipped or tried again, and notebooks fit."""
    assert {} == dags["errors"]  # a time that is none is among them
    by_command = {task["task"]: task for task in dags["tasks"] if task["command"]}
    commands = [words for task in by_command.values() for words in commands_in(task["command"])]
    (bare,) = [task for task in dags["tasks"] if task["notebook"]]

    assert sorted([NIGHTLY, DAILY, REPORT, CLEAN_UP]) == sorted(runbooks_of(commands))
    assert set(by_command) == set(runbooks_of(commands))
    assert all(not task["skipped"] and not task["retries"] for task in dags["tasks"])
    notebook = ROOT / "notebooks" / Path(bare["notebook"]).name
    assert set(bare["parameters"]) <= {one.name for one in read_parameters(notebook)}


def test_stopping_airflows_task_ends_the_run_in_good_order(
    dags: dict[str, Any], bare_cluster: Cluster, tmp_path: Path
) -> None:
    """The task's own script, stopped as by Airflow, waits for the run and says how it ended."""
    (task,) = [task for task in dags["tasks"] if task["task"] == NIGHTLY]
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        f"clusters: {{bare: {{bootstrap.servers: '{bare_cluster.bootstrap_servers}'}}}}"
    )
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OFFSETBOOK_FLEET": str(fleet),
        "OFFSETBOOK_STATE": str(tmp_path / "state"),
    }
    assert set(environment) >= set(task["environment"])
    said = []
    with subprocess.Popen(
        [BASH, "-c", task["command"]],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as script:
        for line in script.stdout:
            said.append(line)
            if line.startswith("[bare 1/"):
                os.killpg(script.pid, signal.SIGTERM)

    assert 1 == script.returncode, said
    assert "FAILED: the run did not come to its end\n" in said
    (result,) = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/result.json")]
    assert ("interrupted", NIGHTLY) == (result["status"], result["runbook"])


def kubernetes(kind: str) -> dict[str, Any]:
    (found,) = [o for o in yaml.safe_load_all(KUBERNETES.read_text("utf-8")) if o["kind"] == kind]
    return dict(found)


def test_kubernetes_takes_the_manifest(tool: Tool) -> None:
    """Each object has the published schema, with no field that is not in it, and a real time."""
    said = tool("kubernetes-validate", "--strict", KUBERNETES)
    are_times(tool, kubernetes("CronJob")["spec"]["schedule"])

    assert 3 == said.count(" passed for resource ")


def test_the_pod_of_the_cronjob(tmp_path: Path) -> None:
    """Page, image, user, secrets and writable folders are those of the project."""
    pod = kubernetes("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (run,) = pod["containers"]
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(kubernetes("ConfigMap")["data"][fleet.name], "utf-8")
    environment = {one["name"]: one.get("value") for one in run["env"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in run["volumeMounts"]}
    (secrets,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    files = {f"{mounts['secrets']}/{item['path']}" for item in secrets["items"]}

    assert [NIGHTLY] == runbooks_of([["offsetbook", *run["args"]]])
    assert f"docker build --tag {run['image']} ." in (SCHEDULES / "README.md").read_text("utf-8")
    assert f"USER {pod['securityContext']['runAsUser']}:" in DOCKERFILE.read_text("utf-8")
    assert {volume["name"] for volume in pod["volumes"]} == set(mounts)
    for cluster in load_fleet(fleet).values():
        for value in cluster.settings.values():
            for kind, where in REFERENCE.findall(value):
                assert where in (environment if kind == "env" else files)
    # The root file system is read-only.
    assert environment["OFFSETBOOK_FLEET"] == f"{mounts['fleet']}/{fleet.name}"
    for folder in (run["workingDir"], environment["OFFSETBOOK_STATE"]):
        assert Path(folder).is_relative_to(mounts["data"])
    # Every failure is the last: it is not known what a second try would do.
    assert 0 == kubernetes("CronJob")["spec"]["jobTemplate"]["spec"]["backoffLimit"]


def test_the_workflow_is_one_and_only_reads(tool: Tool) -> None:
    """Its schema is the published one, its rights are to read, and its page changes nothing."""
    tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", WORKFLOW)
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    (job,) = workflow["jobs"].values()
    steps = job["steps"]
    commands = [words for step in steps for words in commands_in(step.get("run", ""))]
    times = [entry["cron"] for entry in workflow[True]["schedule"]]  # YAML 1.1 reads `on` so

    assert [NIGHTLY] == runbooks_of(commands)
    assert not read_runbook(ROOT / "runbooks" / f"{NIGHTLY}.md").may_change
    assert {"contents": "read"} == workflow["permissions"]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", s["uses"]) for s in steps if "uses" in s)
    assert "always()" == steps[-1]["if"]
    are_times(tool, *times)


def test_the_dockerfile_is_sound(tool: Tool) -> None:
    """Hadolint has nothing to say, and what is copied is there and is not ignored."""
    tool("hadolint", DOCKERFILE)
    lines = DOCKERFILE.read_text("utf-8").splitlines()
    copied = {
        word
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }
    let_in = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE)

    assert [] == [name for name in copied if not (ROOT / name).exists()]
    assert set(let_in) == copied
    assert 'ENTRYPOINT ["tini", "-s", "--", "offsetbook"]' in lines


def test_the_page_on_schedules_names_every_file() -> None:
    """Its commands are parsed by the real parser."""
    page = (SCHEDULES / "README.md").read_text("utf-8")
    files = [path.name for path in SCHEDULES.iterdir() if path.name != "README.md"]
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL))
    runs = [words for words in commands_in(blocks) if "run" in words]

    assert [] == [name for name in files if f"]({name})" not in page and not name.startswith("__")]
    assert runbooks_of(runs)
    assert [] == [
        link for link in re.findall(r"\]\(([^)#:]+)", page) if not (SCHEDULES / link).exists()
    ]
