"""
The fleet file: clusters, connection settings and change policies.

    clusters:
      eu:
        bootstrap.servers: broker1:9093,broker2:9093
        security.protocol: SASL_SSL
        sasl.mechanism: SCRAM-SHA-512
        sasl.username: offsetbook
        sasl.password: ${env:EU_PASSWORD}
        read_only: true
      us:
        properties: us-client.properties
        timeout: 30s
    protected_groups: [payments-*]
    limits: {max_groups: 20}
    state: /var/lib/offsetbook

Settings have librdkafka's names. `properties` is a client's properties file, Java's or
librdkafka's; settings in the entry override it. `timeout`, for all clusters or for one, limits
connecting and each request (default: 15s). A secret is a reference to the environment or to a file,
never the secret itself, so the file can be committed and shown. `state` is the state directory. All
paths are relative to the fleet file.

Change policies are per cluster or, next to `clusters`, for all:

    read_only: true                     one cluster only: nothing is changed there
    reason: optional                    a change needs no reason (default: required)
    protected_groups: [payments-*]      names and shell patterns; a cluster's add to those of all
    ignored_groups: [hidden-*]          left out wherever a group is not named; likewise
    limits:                             what one run may change without an override
      max_groups: 100
      max_partitions: 10000
      max_records_skipped: 1000000
      max_records_repeated: 10000000
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from toolkit.errors import FleetFileError, UsageError
from toolkit.model import Cluster, Policy
from toolkit.model.client_properties import REQUEST_TIMEOUT, read_client_properties
from toolkit.model.cluster import (
    CHOICES,
    DEFAULT_TIMEOUT_S,
    SECRET_SETTINGS,
    SETTINGS,
    Origin,
    normal_value,
)
from toolkit.model.secrets import REFERENCE
from toolkit.storage.formats.user_folders import config_folder, expanded
from toolkit.storage.formats.yaml_nodes import YamlFile, meant

POLICY_GROUPS = ("protected_groups", "ignored_groups")
FOR_ALL = (*POLICY_GROUPS, "limits", "reason")
FOR_ONE = (*FOR_ALL, "read_only")
REASONS = ("required", "optional")
LIMITS = ("max_groups", "max_partitions", "max_records_skipped", "max_records_repeated")
BOOTSTRAP, PROPERTIES, TIMEOUT = "bootstrap.servers", "properties", "timeout"
KNOWN = [*SETTINGS, BOOTSTRAP, PROPERTIES, TIMEOUT, *FOR_ONE]
MS = 1000
VARIABLE = "OFFSETBOOK_FLEET"


def sandbox_folder() -> Path:
    """Return the folder of the sandbox: $OFFSETBOOK_SANDBOX, or .sandbox here."""
    return Path(os.environ.get("OFFSETBOOK_SANDBOX") or ".sandbox")


def find_fleet_file(given: Path | None = None) -> Path:
    """
    Return the fleet file to use: the given one, $OFFSETBOOK_FLEET, or the first that exists.

    Looked for here and in the two folders above, in each fleet.yaml before the sandbox's, and then
    in the user's configuration directory. Raises FleetFileError where there is none, or one that
    others can write: it says which server gets which password.
    """
    named = given or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named:
        return named
    if place := found_fleet_file():
        if why := _distrust(place):
            raise FleetFileError(
                f"fleet file {place} was found, but not used: {why}",
                hint="if you trust it, name it as the fleet file",
            )
        return place
    raise FleetFileError(
        f"no fleet file found in {', '.join(map(str, _places()))}",
        hint="run 'offsetbook sandbox up' or 'offsetbook fleet add' to create one",
    )


def fleet_file_in_use(given: Path | None = None) -> Path | None:
    """
    Return the fleet file to use, or None where there is none.

    Raises FleetFileError for one that was found and that others can write: without it, nobody would
    know what it protects.
    """
    if given or os.environ.get(VARIABLE) or found_fleet_file():
        return find_fleet_file(given)
    return None


def fleet_file_to_edit(given: Path | None = None) -> Path:
    """
    Return the fleet file to add a cluster to, which may not exist: the one in use, else a new one.

    The sandbox overwrites its own file; if that one is in use, the new file is ./fleet.yaml. Raises
    FleetFileError for a file that others can write.
    """
    here = Path.cwd() / "fleet.yaml"
    named = given or os.environ.get(VARIABLE)
    if not named and here.is_file() and _is_template(here):
        return here
    found = found_fleet_file()
    if named or (found and not _is_of_sandbox(found)):
        return find_fleet_file(given)
    return here


def found_fleet_file() -> Path | None:
    """
    Return the first fleet file that exists where one is looked for; it may be distrusted.

    One that is still the template, which has no entry, does not hide the others.
    """
    found = [place for place in _places() if place.is_file()]
    return next((place for place in found if not _is_template(place)), found[0] if found else None)


def _is_template(path: Path) -> bool:
    """Whether nothing is in a file but comments; one that cannot be read may have entries."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return all(not line.strip() or line.lstrip().startswith("#") for line in lines)


def is_of_sandbox(given: Path | None = None) -> bool:
    """Return whether the fleet file in use is one that the sandbox wrote in its folder."""
    try:
        return _is_of_sandbox(find_fleet_file(given))
    except FleetFileError:
        return False


def _is_of_sandbox(path: Path) -> bool:
    folder, sandbox = path.absolute().parent, sandbox_folder()
    if folder.resolve() == sandbox.resolve():
        return True
    return not sandbox.is_absolute() and folder.name == sandbox.name


def _places() -> list[Path]:
    folders = [Path.cwd(), *Path.cwd().parents[:2]]  # notebooks run one or two levels down
    sandbox, settings = sandbox_folder(), config_folder()
    if sandbox.is_absolute():  # it is of none of these folders
        places = [*folders, sandbox]
    else:
        places = [place for folder in folders for place in (folder, folder / sandbox)]
    return [place / "fleet.yaml" for place in (*places, *([settings] if settings else []))]


def load_fleet(path: Path | None = None) -> dict[str, Cluster]:
    """Read a fleet file; raises FleetFileError that names the line and column of what is wrong."""
    file = fleet_yaml(find_fleet_file(path))
    return fleet_in(file, file.read())


def fleet_in(file: YamlFile, text: str) -> dict[str, Cluster]:
    """Return the clusters of a fleet file that has this text; raises FleetFileError."""
    entries = _entries(file, text)
    defaults = Cluster("", "", {}, _policy(file, entries, Policy()), _timeout_s(file, entries))
    clusters = {
        name.value: _cluster(file, name, node, defaults)
        for name, node in file.pairs(entries["clusters"], "clusters")
    }
    if not clusters:
        raise file.wrong_at(entries["clusters"], "no cluster is listed under 'clusters'")
    return clusters


def state_entry(path: Path) -> Path | None:
    """Return the state directory of the fleet file, relative to the file."""
    file = fleet_yaml(path)
    node = _entries(file, file.read()).get("state")
    return _path(file, node, "state") if node else None


def properties_files(path: Path) -> dict[str, str]:
    """Return the client properties file of each cluster that names one, as the file has it."""
    file = fleet_yaml(path)
    clusters = file.pairs(_entries(file, file.read())["clusters"], "clusters")
    return {
        name.value: file.text_of(value, PROPERTIES)
        for name, node in clusters
        for key, value in file.pairs(node, f"cluster {name.value!r}")
        if key.value == PROPERTIES
    }


def choose_clusters(fleet: dict[str, Cluster], names: Sequence[str]) -> list[Cluster]:
    """
    Return the named clusters, each once, or all.

    Raises UsageError for a name that is not in the fleet.
    """
    for name in names:
        if name not in fleet:
            close = get_close_matches(name, fleet, n=1)
            raise UsageError(
                f"cluster {name!r} is not in the fleet file",
                hint=f"did you mean {close[0]!r}?" if close else f"use one of: {', '.join(fleet)}",
            )
    return [fleet[name] for name in dict.fromkeys(names or fleet)]


def fleet_yaml(path: Path) -> YamlFile:
    hint = "name another fleet file, or run 'offsetbook sandbox up' to create one"
    return YamlFile(path, "fleet file", FleetFileError, hint)


def _entries(file: YamlFile, text: str) -> dict[str, yaml.Node]:
    root = file.compose(text)
    if root is None:
        raise FleetFileError(
            f"fleet file {file.path} is empty",
            hint="list clusters in it, or name another fleet file",
        )
    entries = file.entries(root, "the file", ["clusters", "state", TIMEOUT, *FOR_ALL])
    if "clusters" not in entries:
        raise file.wrong_at(root, "no cluster is listed under 'clusters'")
    if "state" in entries:
        _refuse_reference(file, entries["state"], "state", file.text_of(entries["state"], "state"))
    return entries


def _cluster(file: YamlFile, name: yaml.ScalarNode, node: yaml.Node, defaults: Cluster) -> Cluster:
    entries = file.entries(node, f"cluster {name.value!r}", KNOWN, called="setting")
    settings = _from_properties(file, entries) | _settings(file, entries)
    servers = settings.pop(BOOTSTRAP, None)
    if not servers:
        raise file.wrong_at(name, f"cluster {name.value!r} has no {BOOTSTRAP}")
    policy = _policy(file, entries, defaults.policy)
    in_file = int(settings.pop(REQUEST_TIMEOUT, 0)) / MS
    timeout_s = _timeout_s(file, entries, in_file or defaults.timeout_s)
    origin = Origin(fleet_file=str(file.path.absolute()))
    if PROPERTIES in entries:
        origin = replace(origin, settings=f"its {PROPERTIES} file or the fleet file")
    return Cluster(name.value, servers, settings, policy, timeout_s, origin)


def _timeout_s(
    file: YamlFile, entries: Mapping[str, yaml.Node], default: float = DEFAULT_TIMEOUT_S
) -> float:
    node = entries.get(TIMEOUT)
    return file.duration_of(node, TIMEOUT).total_seconds() if node else default


def _path(file: YamlFile, node: yaml.Node, what: str) -> Path:
    """Return a path in the file, which is relative to the file and not to where a command runs."""
    text = file.text_of(node, what)
    _refuse_reference(file, node, what, text)
    try:
        return file.path.absolute().parent / expanded(text)
    except UsageError as exc:
        raise file.wrong_at(node, str(exc)) from exc


def _from_properties(file: YamlFile, entries: Mapping[str, yaml.Node]) -> dict[str, str]:
    node = entries.get(PROPERTIES)
    if node is None:
        return {}
    path = _path(file, node, PROPERTIES)
    try:
        settings = read_client_properties(path)
    except UsageError as exc:
        raise file.wrong_at(node, str(exc)) from exc
    for name, value in settings.items():
        _check_choice(file, node, name, value)
    return settings


def _settings(file: YamlFile, entries: Mapping[str, yaml.Node]) -> dict[str, str]:
    settings = {}
    for setting, node in entries.items():
        if setting not in SETTINGS and setting != BOOTSTRAP:
            continue
        value = normal_value(setting, file.text_of(node, setting))
        if setting in SECRET_SETTINGS and not REFERENCE.fullmatch(value):
            raise file.wrong_at(
                node,
                f"{setting} must be a reference such as ${{env:NAME}} or ${{file:/path}}, "
                "so that the secret itself is never in this file",
            )
        if setting in SECRET_SETTINGS:
            value = _secret(file, value)
        elif setting.endswith(".location"):
            value = str(_path(file, node, setting))
        else:
            _refuse_reference(file, node, setting, value)
        _check_choice(file, node, setting, value)
        settings[setting] = value
    return settings


def _secret(file: YamlFile, reference: str) -> str:
    """Return a reference to a secret, with the whole path of its file if it is in one."""
    kind, where = reference[2:-1].split(":", 1)
    folder = file.path.absolute().parent
    if kind == "env" or "}" in str(folder):  # which would end the reference
        return reference
    return f"${{{kind}:{folder / where}}}"


def _refuse_reference(file: YamlFile, node: yaml.Node, what: str, value: str) -> None:
    """Only a secret is looked up; anywhere else, a reference would be taken literally."""
    if REFERENCE.search(value):
        secrets = ", ".join(sorted(SECRET_SETTINGS))
        raise file.wrong_at(node, f"{what} has a reference, which is for {secrets}")


def _check_choice(file: YamlFile, node: yaml.Node, setting: str, value: str) -> None:
    if value not in CHOICES.get(setting, {value}):
        choices = ", ".join(sorted(CHOICES[setting]))
        raise file.wrong_at(node, f"{setting} must be one of: {choices}")


def _policy(file: YamlFile, entries: Mapping[str, yaml.Node], defaults: Policy) -> Policy:
    """Return the defaults as changed by the entries; raises the file's error with the place."""
    policy = defaults
    if node := entries.get("read_only"):
        policy = replace(policy, read_only=_flag(file, node, "read_only"))
    if node := entries.get("reason"):
        reason: Any = file.one_of(node, "reason", REASONS)
        policy = replace(policy, reason=reason)
    for name in POLICY_GROUPS:
        if node := entries.get(name):
            # A cluster's own list must not silently lift the protection that is given to all.
            groups = dict.fromkeys([*getattr(policy, name), *_names(file, node, name)])
            named: dict[str, Any] = {name: tuple(groups)}
            policy = replace(policy, **named)
    if node := entries.get("limits"):
        limits: dict[str, Any] = dict(_policy_limits(file, node))
        policy = replace(policy, **limits)
    return policy


def _flag(file: YamlFile, node: yaml.Node, what: str) -> bool:
    if node.tag != "tag:yaml.org,2002:bool":
        raise file.wrong_at(node, f"{what} must be true or false")
    return file.text_of(node, what).lower() in {"true", "yes", "on"}


def _names(file: YamlFile, node: yaml.Node, what: str) -> list[str]:
    if not isinstance(node, yaml.SequenceNode):
        raise file.wrong_at(node, f"{what} must be a list, such as [payments, billing-*]")
    return [_name(file, item, what) for item in node.value]


def _name(file: YamlFile, node: yaml.Node, what: str) -> str:
    if isinstance(node, yaml.ScalarNode) and node.style and not node.value:
        return ""
    name = file.text_of(node, f"each of {what}")
    _refuse_reference(file, node, what, name)
    return name


def _policy_limits(file: YamlFile, node: yaml.Node) -> Iterator[tuple[str, int]]:
    for key, value in file.pairs(node, "limits"):
        if key.value not in LIMITS:
            which = meant(key.value, LIMITS) or f"; known limits: {', '.join(LIMITS)}"
            raise file.wrong_at(key, f"unknown limit {key.value!r}{which}")
        text = file.text_of(value, key.value)
        if value.tag != "tag:yaml.org,2002:int" or not re.fullmatch(r"0|[1-9][0-9_]*", text):
            raise file.wrong_at(value, f"{key.value} must be a whole number from 0")
        yield key.value, int(text.replace("_", ""))


def _distrust(path: Path) -> str:
    """Return why another user may have written a file; "" if only this user or root can."""
    found = path.stat()
    if found.st_uid not in {os.getuid(), 0}:
        return f"it belongs to {_user(found.st_uid)}"
    if found.st_mode & stat.S_IWOTH:
        return "every user can write it"
    if found.st_mode & stat.S_IWGRP and not _is_private_group(found.st_gid, found.st_uid):
        return f"the group {_group(found.st_gid)} can write it"
    return ""


def _is_private_group(group_id: int, user_id: int) -> bool:
    """Whether it is the group that many systems make for each user, of the same name."""
    return group_id == 0 or _group(group_id) == _user(user_id)


def _user(user_id: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(user_id).pw_name
    return f"user {user_id}"


def _group(group_id: int) -> str:
    with suppress(KeyError):
        return grp.getgrgid(group_id).gr_name
    return f"group {group_id}"
