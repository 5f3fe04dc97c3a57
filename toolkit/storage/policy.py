"""
Read change policies from the fleet file: defaults and per cluster.

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

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Literal

import yaml

from toolkit.model import Policy
from toolkit.storage.formats.yaml_nodes import YamlFile

GROUPS = ("protected_groups", "ignored_groups")
FOR_ALL = (*GROUPS, "limits", "reason")
FOR_ONE = (*FOR_ALL, "read_only")
LIMITS = ("max_groups", "max_partitions", "max_records_skipped", "max_records_repeated")


def read_policy(file: YamlFile, entries: Mapping[str, yaml.Node], defaults: Policy) -> Policy:
    """Return the defaults as changed by the entries; raises the file's error with the place."""
    policy = defaults
    if node := entries.get("read_only"):
        policy = replace(policy, read_only=_flag(file, node, "read_only"))
    if node := entries.get("reason"):
        policy = replace(policy, reason=_reason(file, node))
    for name in GROUPS:
        if node := entries.get(name):
            # A cluster's own list must not silently lift the protection that is given to all.
            groups = dict.fromkeys([*getattr(policy, name), *_names(file, node, name)])
            named: dict[str, Any] = {name: tuple(groups)}
            policy = replace(policy, **named)
    if node := entries.get("limits"):
        limits: dict[str, Any] = dict(_limits(file, node))
        policy = replace(policy, **limits)
    return policy


def _flag(file: YamlFile, node: yaml.Node, what: str) -> bool:
    if node.tag != "tag:yaml.org,2002:bool":
        raise file.wrong_at(node, f"{what} must be true or false")
    return file.text_of(node, what).lower() in {"true", "yes", "on"}


def _reason(file: YamlFile, node: yaml.Node) -> Literal["required", "optional"]:
    match file.text_of(node, "reason"):
        case "required":
            return "required"
        case "optional":
            return "optional"
    raise file.wrong_at(node, "reason must be required or optional")


def _names(file: YamlFile, node: yaml.Node, what: str) -> list[str]:
    if not isinstance(node, yaml.SequenceNode):
        raise file.wrong_at(node, f"{what} must be a list, such as [payments, billing-*]")
    return [_name(file, item, what) for item in node.value]


def _name(file: YamlFile, node: yaml.Node, what: str) -> str:
    is_empty = isinstance(node, yaml.ScalarNode) and node.style and not node.value
    return "" if is_empty else file.text_of(node, f"each of {what}")


def _limits(file: YamlFile, node: yaml.Node) -> Iterator[tuple[str, int]]:
    for key, value in file.pairs(node, "limits"):
        if key.value not in LIMITS:
            meant = get_close_matches(key.value, LIMITS, n=1)
            which = f"did you mean {meant[0]!r}?" if meant else f"known limits: {', '.join(LIMITS)}"
            raise file.wrong_at(key, f"unknown limit {key.value!r}; {which}")
        text = file.text_of(value, key.value)
        if value.tag != "tag:yaml.org,2002:int" or not re.fullmatch(r"0|[1-9][0-9_]*", text):
            raise file.wrong_at(value, f"{key.value} must be a whole number from 0")
        yield key.value, int(text.replace("_", ""))
