"""`--reset-offsets`: move the committed offsets of idle groups."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from toolkit.cli.cluster_options import opened
from toolkit.cli.consumer_groups.connection_flags import cluster_of, command_target_of
from toolkit.cli.consumer_groups.exact_names import chosen_by
from toolkit.cli.consumer_groups.flags import TARGETS
from toolkit.cli.consumer_groups.new_offsets import NewOffsets
from toolkit.cli.consumer_groups.tool_change_flow import ToolChange, apply_tool_change
from toolkit.errors import UsageError
from toolkit.journeys.reset import reset
from toolkit.planning.changes.offsets_target import FromOffsets, from_offsets
from toolkit.planning.changes.target_parser import WITHOUT_VALUE, parse_target
from toolkit.planning.changes.targets import Target
from toolkit.planning.selection.partition_selection import parse_topics


def run(given: dict[str, Any]) -> int:
    """Reset offsets, or show where they would go; the exit code."""
    scopes = parse_topics(given["topics"])
    where = _target(given)
    with opened(command_target_of(given), cluster_of(given)) as access:
        change = reset(
            access,
            chosen_by(given),
            to=where,
            topics=given["topics"],
            new_topics=given["new_topics"],
        )
    offsets = NewOffsets(change, where, scopes)
    write = offsets.write_table
    if given["export"]:
        write = offsets.write_rows if _is_of_one_group(given) else offsets.write_group_rows
    return apply_tool_change(ToolChange(change, write), given)


def _target(given: dict[str, Any]) -> Target:
    (name,) = (name for name in TARGETS if given[name] is not None and given[name] is not False)
    if name == "from_file":
        return _from_file(given)
    mode = name.replace("_", "-")
    text = "" if mode in WITHOUT_VALUE else str(given[name])
    return parse_target(mode, text, now=datetime.now(UTC), past_end=given["past_end"])


def _from_file(given: dict[str, Any]) -> FromOffsets:
    from toolkit.storage.offsets_files import read_offsets

    path = given["from_file"]
    saved = read_offsets(path, group=given["groups"][0] if _is_of_one_group(given) else None)
    if not saved.names_groups:
        raise UsageError(
            f"offsets file {path} does not say which group each line is for",
            hint="write group,topic,partition,offset, or name one group",
        )
    return from_offsets(saved.rows, source=f"from-file {path}", cluster_id=saved.cluster_id)


def _is_of_one_group(given: dict[str, Any]) -> bool:
    """Whether a CSV is of one group, and has three columns."""
    return len(set(given["groups"])) == 1
