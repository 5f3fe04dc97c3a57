"""
`offsetbook consumer-groups`: the flags of Kafka's own tool, with our safeguards.

One file for each action that reads, and one for those that change groups. Tables have the tool's
columns and words, its CSV has the tool's form, and rows are sorted. What is right here and wrong
there is in the help, and tested by name.
"""

from __future__ import annotations

import importlib
from typing import Any

import click

from toolkit.cli.consumer_groups.flags import OPTIONS, check_flags
from toolkit.cli.options import with_options

# The flag that names an action: where it is done, and by which function.
ACTIONS = {
    "list": ("list", "run"),
    "describe": ("describe", "run"),
    "reset-offsets": ("changes", "reset"),
    "delete-offsets": ("changes", "delete_offsets"),
    "delete": ("changes", "delete"),
    "pause": ("changes", "pause"),
    "resume": ("changes", "resume"),
    "paused-partitions": ("describe", "paused_partitions"),
    "validate-regex": ("validate_regex", "run"),
}
HELP = """Accepts the flags of kafka-consumer-groups.sh; adds plans, guard rails and undo.

\b
  --list [--state [LIST]] [--type [LIST]]
  --describe [--offsets|--members|--state] [--verbose]
  --reset-offsets TARGET SCOPE [--dry-run|--execute] [--export]
  --delete-offsets --group NAME --topic TOPIC...
  --delete --group NAME... | --all-groups
  --pause --group NAME --topic TOPIC... [--for DURATION]
  --resume --group NAME [--topic TOPIC...]
  --paused-partitions --group NAME... | --all-groups
  --validate-regex REGEX

Columns, column order, "-" for missing values and CSV are as in the Kafka tool; rows are sorted.
--output json and csv have more columns. Messages and errors go to stderr.

Intentional differences from the Kafka tool:

\b
  Exit code      0 done, 1 failed, 2 usage error, 3 blocked, 4 partial. The
                 Kafka tool exits with 0 on most failures.
  --dry-run      Never changes anything, including with --delete and
                 --delete-offsets (the Kafka tool executes those). Both need
                 --execute, or the group name typed at a terminal.
  --execute      Needs --reason or $OFFSETBOOK_REASON, is logged, can be
                 undone. If a rule blocks (unread records would be skipped,
                 target before the log start offset, a group's last offsets
                 would be deleted), it exits with 3 and names the rule;
                 --override RULE overrides it. One live group or missing
                 partition blocks the whole plan, but --all-groups skips
                 live groups. Groups are changed one by one: a failure on
                 the way exits with 4.
  --group        A reset never creates a group: a misspelled name is
                 blocked. So is a group that is Empty but still commits.
  --all-groups   Skips live groups, lists them, and exits with 4. Skips
                 groups that never committed the topic.
  --to-current   Clamps out-of-range offsets to the log. A partition without
                 a committed offset stays without one (Kafka tool: log end).
  --to-latest    Resets to the last stable offset while a transaction is open.
  --to-datetime  As for --by-duration, a partition without a record at or
                 after the time goes to the log end, as in the Kafka tool; a
                 note says so, and --past-end keep leaves it. Accepts a date
                 only, times without seconds, and durations such as 90m.
                 Rejects a time in the future.
  --to-offset    Rejects a negative offset (Kafka tool: resets to 0).
  --shift-by     Skips partitions without a committed offset.
  --topic        Cannot be combined with --all-topics; filters the rows of
                 --from-file. A topic means its committed partitions, unless
                 --new-topics is given. Accepts ranges: topic:0-5.
  --from-file    Rejects a line without an offset (Kafka tool: 0), duplicate
                 lines, and three columns for several groups. Lists missing
                 partitions up front.
  Metadata       Commit metadata is cleared where the offset changes, and kept
                 where it stays, unless --clear-metadata is given (the Kafka
                 tool always clears it).
  LAG            Counts offsets of the log only: from the log start offset if
                 the committed offset is before it; - if it is past the log
                 end offset.
  --pause        KIP-1249 on current brokers: a background process joins the
                 group and holds the partitions until --resume, or for
                 --for. Needs --execute, or the group name typed. While
                 paused, --reset-offsets works on these partitions although
                 the group is live.
  --describe     Reports each group that could not be read and shows the
                 others. Epochs of Empty groups and TARGET columns are not
                 read and show -.

Undo a run made with --bootstrap-server with 'offsetbook undo RUN'. If the cluster needs
--command-config, add it to a fleet file and pass --cluster NAME.
"""


def _run(**given: Any) -> None:
    context = click.get_current_context()
    set_by_user = {
        name
        for name in given
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    }
    action = check_flags(set_by_user)
    module, function = ACTIONS[action]
    run = getattr(importlib.import_module(f"toolkit.cli.consumer_groups.{module}"), function)
    context.exit(run(given))


VERSION = click.version_option(package_name="offsetbook", prog_name="offsetbook")
command = click.command("consumer-groups", help=HELP)(with_options(_run, (VERSION, *OPTIONS)))
