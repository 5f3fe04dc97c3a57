"""`--reset-offsets`: move the committed offsets of idle groups."""

from __future__ import annotations

from typing import Any

from toolkit.cli.cluster_options import opened
from toolkit.cli.consumer_groups.connection_flags import cluster_of, command_target_of
from toolkit.cli.consumer_groups.exact_names import chosen_by
from toolkit.cli.consumer_groups.flags import TARGETS
from toolkit.cli.consumer_groups.new_offsets import NewOffsets
from toolkit.cli.consumer_groups.tool_change_flow import ToolChange, apply_tool_change
from toolkit.errors import UsageError
from toolkit.journeys.reset import RequestedTarget, committed_where_asked, reset, target


def run(given: dict[str, Any]) -> int:
    """Reset offsets, or show where they would go; the exit code."""
    to, topics = _target(given), given["topics"]
    with opened(command_target_of(given), cluster_of(given)) as access:
        change = reset(
            access, chosen_by(given), to=to, topics=topics, new_topics=given["new_topics"]
        )
    offsets = NewOffsets(change.plan, committed_where_asked(change, to, topics))
    write = offsets.write_table
    if given["export"]:
        write = offsets.write_rows if _is_of_one_group(given) else offsets.write_group_rows
    return apply_tool_change(ToolChange(change, write), given)


def _target(given: dict[str, Any]) -> RequestedTarget:
    (name,) = (name for name in TARGETS if given[name] is not None and given[name] is not False)
    text = "" if given[name] is True else str(given[name])
    to = target(name.replace("_", "-"), text, past_end=given["past_end"])
    if name == "from_file" and not to.names_groups and not _is_of_one_group(given):
        raise UsageError(
            f"offsets file {text} does not say which group each line is for",
            hint="write group,topic,partition,offset, or name one group",
        )
    return to


def _is_of_one_group(given: dict[str, Any]) -> bool:
    """Whether a CSV is of one group, and has three columns."""
    return len(set(given["groups"])) == 1
