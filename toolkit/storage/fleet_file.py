"""
The fleet file: which clusters there are and how to reach them.

    clusters:
      eu:
        bootstrap.servers: broker1:9093,broker2:9093
        security.protocol: SASL_SSL
        sasl.mechanism: SCRAM-SHA-512
        sasl.username: offsetbook
        sasl.password: ${env:EU_PASSWORD}

Settings have librdkafka's names. A secret is a reference to the environment or to a file, never the
secret itself, so the file can be committed and shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

import platformdirs
import yaml

from toolkit.errors import FleetFileError, UsageError
from toolkit.model import REFERENCE, SECRET_SETTINGS, Cluster

BOOTSTRAP = "bootstrap.servers"
SETTINGS = SECRET_SETTINGS | {
    "client.id",
    "sasl.mechanism",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
}
# A misspelt protocol would otherwise be spoken as plain text.
CHOICES = {
    "security.protocol": frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}),
    "sasl.mechanism": frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}),
}
VARIABLE = "OFFSETBOOK_FLEET"


def find_fleet_file(given: Path | None = None) -> Path:
    """
    Return the fleet file to use: the given one, $OFFSETBOOK_FLEET, or the first that exists.

    Looked for in ./fleet.yaml, the sandbox's .sandbox/fleet.yaml and the user's configuration
    directory. Raises FleetFileError where there is none.
    """
    named = given or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named:
        return named
    places = _places()
    for place in places:
        if place.is_file():
            return place
    raise FleetFileError(
        f"no fleet file found in {', '.join(map(str, places))}",
        hint="run 'offsetbook sandbox up' to get one, or write one and name it with --fleet",
    )


def _places() -> list[Path]:
    in_parents = [
        folder / name
        for folder in (Path.cwd(), *Path.cwd().parents[:2])  # notebooks run one or two levels down
        for name in ("fleet.yaml", ".sandbox/fleet.yaml")
    ]
    return [*in_parents, Path(platformdirs.user_config_dir("offsetbook")) / "fleet.yaml"]


def load_fleet(path: Path | None = None) -> dict[str, Cluster]:
    """Read a fleet file; raises FleetFileError that names the line and column of what is wrong."""
    path = find_fleet_file(path)
    root = _compose(path, _read(path))
    if root is None:
        raise FleetFileError(f"fleet file {path} is empty", hint="list clusters in it")
    return _clusters(path, root)


def choose_clusters(fleet: dict[str, Cluster], names: Sequence[str]) -> list[Cluster]:
    """Return the named clusters, or all; raises UsageError for a name that is not in the fleet."""
    for name in names:
        if name not in fleet:
            close = get_close_matches(name, fleet, n=1)
            raise UsageError(
                f"cluster {name!r} is not in the fleet file",
                hint=f"did you mean {close[0]!r}?" if close else f"one of: {', '.join(fleet)}",
            )
    return [fleet[name] for name in names or fleet]


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as exc:
        raise FleetFileError(
            f"fleet file {path} cannot be read: {exc.strerror}",
            hint="name another with --fleet, or run 'offsetbook sandbox up' to get one",
        ) from exc
    except UnicodeDecodeError as exc:
        raise FleetFileError(
            f"fleet file {path} is not UTF-8 text", hint="save it as such"
        ) from exc


def _compose(path: Path, text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        raise _at(path, exc.problem_mark, exc.problem or "not valid YAML") from exc
    except yaml.reader.ReaderError as exc:
        before = text[: exc.position].split("\n")
        line, column = len(before) - 1, len(before[-1])
        mark = yaml.Mark(str(path), exc.position, line, column, buffer=None, pointer=0)
        raise _at(path, mark, f"character U+{exc.character:04X} is not allowed in YAML") from exc
    except (ValueError, OverflowError, RecursionError) as exc:  # no such character; too deep
        raise FleetFileError(
            f"fleet file {path} is not valid YAML: {exc}", hint="compare it with the README's"
        ) from exc


def _clusters(path: Path, root: yaml.Node) -> dict[str, Cluster]:
    clusters: dict[str, Cluster] = {}
    for key, node in _pairs(path, root, "the file"):
        if key.value != "clusters":
            raise _at(
                path, key.start_mark, f"unknown entry {key.value!r}; only 'clusters' is known"
            )
        for name, settings in _pairs(path, node, "clusters"):
            clusters[name.value] = _cluster(path, name, settings)
    if not clusters:
        raise _at(path, root.start_mark, "no cluster is listed under 'clusters'")
    return clusters


def _cluster(path: Path, name: yaml.ScalarNode, node: yaml.Node) -> Cluster:
    settings = {}
    for key, value in _pairs(path, node, f"cluster {name.value!r}"):
        setting = key.value
        if setting not in SETTINGS and setting != BOOTSTRAP:
            close = get_close_matches(setting, [*SETTINGS, BOOTSTRAP], n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise _at(path, key.start_mark, f"unknown setting {setting!r}{meant}")
        if not isinstance(value, yaml.ScalarNode) or not value.value:
            raise _at(path, value.start_mark, f"{setting} must be one value")
        if setting in SECRET_SETTINGS and not REFERENCE.fullmatch(value.value):
            raise _at(
                path,
                value.start_mark,
                f"{setting} must be a reference such as ${{env:NAME}} or ${{file:/path}}, "
                "so that the secret itself is never in this file",
            )
        if value.value not in CHOICES.get(setting, {value.value}):
            choices = ", ".join(sorted(CHOICES[setting]))
            raise _at(path, value.start_mark, f"{setting} must be one of: {choices}")
        settings[setting] = value.value
    servers = settings.pop(BOOTSTRAP, None)
    if not servers:
        raise _at(path, name.start_mark, f"cluster {name.value!r} has no {BOOTSTRAP}")
    return Cluster(name.value, servers, settings)


def _pairs(path: Path, node: yaml.Node, what: str) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        raise _at(path, node.start_mark, f"{what} must hold 'name: value' lines")
    seen = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _at(path, key.start_mark, "a name must be plain text")
        if key.value in seen:
            raise _at(path, key.start_mark, f"{key.value!r} is there twice")
        seen.add(key.value)
        yield key, value


def _at(path: Path, mark: yaml.Mark | None, problem: str) -> FleetFileError:
    place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return FleetFileError(f"fleet file {path}{place}: {problem}", hint="correct that line")
